"""`paxrun held-out`: a run's agents against co-players unseen in training."""

import json
from typing import Any

import click

from runners.cli.errors import SettingsCommand, user_errors

#: Longer settings are broken between words.
NAME_WIDTH = 32
#: What the table shows of every player, as far as the game has it.
SHOWN = ("reward_per_step", "reward_per_step_last", "cooperation_rate")


@click.command("held-out", cls=SettingsCommand)
@click.argument("run_dir", metavar="RUN_DIR")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option(
    "--vary",
    metavar="KEY=VALUE",
    multiple=True,
    required=True,
    help="One change, several words in quotes; give the option once for each change. "
    "A value may be YAML: agent2={name: Naive, reset: trial}.",
)
@click.option("--seed", metavar="N", help="Seed of the games.")
@click.option("--num-seeds", metavar="N", help="Repetitions.")
@click.option("--deterministic", is_flag=True, help="Take the likeliest actions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def held_out(
    run_dir: str, words: tuple[str, ...], vary: tuple[str, ...], **options: Any
) -> None:
    """Play a finished run's agents against co-players of other kinds.

    Each --vary is one row of the table: an unseen learning rate
    (agent2.learning_rate=0.5), algorithm (agent2=Naive), horizon (num_outer_steps=50)
    or initialisation (seed=7). The first row is as trained.
    """
    from runners.session.held_out import played, variations
    from runners.storage.places import check_writable
    from runners.storage.run_dir import RunDir

    as_json = options.pop("as_json")
    options["deterministic"] = options["deterministic"] or None
    with user_errors(every_value_error=True):
        path = RunDir.open(run_dir).artifacts / "held_out.json"
        check_writable(path.parent)
        plans = variations(run_dir, vary, words, **options)
        found = [played(variation) for variation in plans]
    data = [variation.as_dict() for variation in found]
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    path.write_text(text, encoding="utf-8")
    if as_json:
        click.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    _print(found)
    click.echo(f"numbers: {path}")


def _print(found: list[Any]) -> None:
    """Prints the table; one wider than the terminal is not squeezed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from runners.engine.metric_names import by_name, label
    from runners.report.table import number, print_whole

    first = by_name(found[0].metrics)
    names = [name for name in sorted(first) if name.quantity in SHOWN]
    names.sort(key=lambda name: SHOWN.index(name.quantity))
    table = Table(show_edge=False, pad_edge=False)
    settings = [variation.setting for variation in found]
    words = [word for setting in settings for word in setting.split()]
    width = max(min(max(map(len, settings)), NAME_WIDTH), *map(len, words))
    table.add_column("co-players", width=width)
    named = [by_name(variation.metrics) for variation in found]
    for name in names:
        title = f"{label(name.quantity)}\nplayer {name.player}"
        table.add_column(title, justify="right", no_wrap=True)
    for variation, row in zip(found, named, strict=True):
        cells = [number(row[name]) if name in row else "-" for name in names]
        table.add_row(Text(variation.setting), *cells)
    print_whole(table, Console(highlight=False))
