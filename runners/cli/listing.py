"""`paxrun list`: games, agents, experiments, strategies and plugins."""

import json
from collections.abc import Callable
from typing import Any

import click

KINDS = ("envs", "agents", "experiments", "es", "plugins")
#: Shown by --json only.
HIDDEN = ("source", "runner", "options")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(kind: str, as_json: bool) -> None:
    """List games, agents, stored experiments, evolution strategies or plugins."""
    rows = {
        "envs": _envs,
        "agents": _agents,
        "experiments": _experiments,
        "es": _strategies,
        "plugins": _plugins,
    }[kind]()
    if as_json:
        click.echo(json.dumps(rows, indent=2, default=str))
    elif not rows:
        click.echo(f"no {kind}")
    else:
        _print(rows)


def _envs() -> list[dict[str, Any]]:
    import paxenv

    return [
        {
            "id": spec.id,
            "opponent": spec.opponent,
            "summary": spec.summary or _of_plugin(lambda s=spec: type(s.load()()[0])),
        }
        for spec in paxenv.games().values()
    ]


def _agents() -> list[dict[str, Any]]:
    import paxenv_agents

    return [
        {
            "name": spec.name,
            "plays": spec.classifier.get("plays", ""),
            "summary": spec.summary or _of_plugin(spec.load),
            "source": spec.source,
        }
        for spec in paxenv_agents.agents().values()
    ]


def _of_plugin(load: Callable[[], Any]) -> str:
    """Returns what a plugin's class says of itself; why it cannot, if it is broken."""
    from runners.report.description import summary

    try:
        return summary(load())
    except Exception as error:
        # Somebody else's code may raise anything; the list of the others is whole.
        reason = getattr(error, "reason", f"{type(error).__name__}: {error}")
        return f"cannot be loaded: {reason}"


def _experiments() -> list[dict[str, Any]]:
    from runners.config import experiment_names

    return [_experiment(name) for name in experiment_names()]


def _experiment(name: str) -> dict[str, Any]:
    """Returns what an experiment says of itself; why it cannot, if it is broken."""
    from runners.config import ConfigError, load

    keys = ("runner", "description", "expected", "source")
    try:
        config = load([name])
    except ConfigError as error:
        # It is the user's own; the list of the others is whole.
        return {"name": name, **dict.fromkeys(keys, ""), "description": str(error)}
    return {"name": name, **{key: getattr(config, key) for key in keys}}


def _strategies() -> list[dict[str, Any]]:
    from runners.search.strategies import STRATEGIES

    return [
        {
            "name": strategy.name,
            "family": strategy.family,
            "also": ", ".join(strategy.also),
            "summary": strategy.summary,
            "options": ", ".join(
                name if default is None else f"{name}={default}"
                for name, default in strategy.numbers.items()
            ),
        }
        for strategy in STRATEGIES.values()
    ]


def _plugins() -> list[dict[str, Any]]:
    import dataclasses

    import paxenv
    import paxenv_agents
    from paxenv.registry import PluginError

    found = {"game": paxenv.games(), "agent": paxenv_agents.agents()}
    rows = []
    for plugin in paxenv.plugins():
        fault = ""
        if not plugin.refused:
            try:
                found[plugin.kind][plugin.name].load()
            except PluginError as error:
                fault = error.reason
        rows.append(dataclasses.asdict(plugin) | {"fault": fault})
    return rows


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = [key for key in rows[0] if key not in HIDDEN and any(r[key] for r in rows)]
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for i, key in enumerate(shown):
        table.add_column(key, no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[key]) for key in shown))
    Console(highlight=False).print(table)
