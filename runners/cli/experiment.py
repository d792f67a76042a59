"""`paxrun rl`, `paxrun eval`, `paxrun run`: one experiment from config to results."""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from runners.cli.errors import SettingsCommand, user_errors

INTERRUPTED = 130

_OPTIONS = (
    click.option("--config", "config_file", metavar="FILE", help="A YAML file."),
    click.option("--env", metavar="GAME", help="The game, such as IPD or CoinGame."),
    click.option("--agent1", metavar="NAME", help="Who plays player 1."),
    click.option("--agent2", metavar="NAME", help="Who plays player 2."),
    click.option(
        "--payoff",
        metavar="TABLE",
        help='Payoff: "[[-1,-1],[-3,0],[0,-3],[-2,-2]]", -1,-3,0,-2 or '
        '"CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2".',
    ),
    click.option("--num-envs", metavar="N", help="Games played side by side."),
    click.option("--total-timesteps", metavar="N", help="Environment steps of a seed."),
    click.option("--seed", metavar="N", help="Seed of the run."),
    click.option("--num-seeds", metavar="N", help="Repetitions, run at once."),
    click.option("--model-path", metavar="FILE", help="Weights, or a run directory."),
    click.option("--run-path", metavar="RUN", help="W&B run that holds --model-path."),
    click.option("--player", metavar="N", help="Whose weights they are [1]."),
    click.option("--exp-dir", metavar="DIR", help="Where run directories go [exp]."),
    click.option("--save-dir", metavar="DIR", help="The run directory itself."),
    click.option("--dry-run", is_flag=True, help="Check the config, run nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
)


def experiment_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the words and options of every command that runs an experiment."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return click.argument("words", nargs=-1, metavar="[EXPERIMENT] [KEY=VALUE ...]")(
        command
    )


@click.command(cls=SettingsCommand)
@experiment_options
def rl(words: tuple[str, ...], **options: Any) -> None:
    """Train agents by reinforcement learning.

    EXPERIMENT is a stored one, such as ipd/ppo_v_tft (the default); `paxrun list
    experiments` shows all. KEY=VALUE changes a setting: num_inner_steps=50,
    agent1.learning_rate=0.01.
    """
    run_experiment(words, {**options, "runner": "rl"})


@click.command("run", cls=SettingsCommand)
@experiment_options
@click.option("--deterministic", is_flag=True, help="Evaluate the likeliest actions.")
def run(words: tuple[str, ...], **options: Any) -> None:
    """Run an experiment with the runner that it names.

    As `paxrun rl` or `paxrun eval`, by the experiment's key `runner`.
    """
    run_experiment(words, options)


@click.command("eval", cls=SettingsCommand)
@experiment_options
@click.option(
    "--deterministic",
    is_flag=True,
    help="Take the likeliest actions; by default they are sampled.",
)
@click.option(
    "--run-dir", metavar="DIR", help="Evaluate the agents of a finished training run."
)
def evaluate(words: tuple[str, ...], **options: Any) -> None:
    """Play agents against each other without learning.

    Strategies, saved agents (--model-path for player 1, --run-dir for all agents of a
    run), or both. Actions are sampled unless --deterministic.
    """
    run_experiment(words, {**options, "runner": "eval"})


def run_experiment(words: tuple[str, ...], options: dict[str, Any]) -> None:
    """Loads, checks, runs and reports one experiment."""
    from runners.cli.progress import ProgressObserver, say

    as_json, dry_run = options.pop("as_json"), options.pop("dry_run")
    with user_errors(every_value_error=True):
        plan = _plan(words, options)
    _announce(plan)
    if dry_run:
        _show(plan, as_json)
        return
    from runners.launch import run_plan
    from runners.run_dir import RunDir

    with user_errors(), ProgressObserver(plan) as observer:
        outcome, run_dir = run_plan(
            plan, lambda: RunDir.create(plan.config, sys.argv[1:]), observer
        )
    if as_json:
        result = {**outcome.as_dict(), "run_dir": str(run_dir.path)}
        click.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        _report(outcome, run_dir)
    if outcome.interrupted:
        say(f"interrupted after {outcome.num_iterations} iterations; weights are saved")
        click.get_current_context().exit(INTERRUPTED)


def _plan(words: tuple[str, ...], options: dict[str, Any]) -> Any:
    from runners.config import load
    from runners.plan import prepare

    config_file = options.pop("config_file")
    run_dir = options.pop("run_dir", None)
    if not options.get("deterministic"):
        options.pop("deterministic", None)
    if run_dir is not None:
        from runners.evaluation import config_of_run

        return prepare(config_of_run(run_dir, words, options))
    return prepare(load(words, config_file=config_file, options=options))


def _announce(plan: Any) -> None:
    """Says what will be played: the payoff as it was understood, and every notice."""
    from paxenv.payoffs import describe_payoff
    from runners.cli.progress import say, warn
    from runners.plan import payoff_table

    payoff = payoff_table(plan.params)
    if "payoff" in plan.config.env.options and payoff is not None:
        is_matrix = payoff.shape[-1] == 2 and payoff.size == 8
        say("payoff:")
        say(describe_payoff(payoff) if is_matrix else str(payoff.tolist()), indent=2)
    for notice in plan.notices:
        warn(notice)


def _show(plan: Any, as_json: bool) -> None:
    from runners.config import to_yaml
    from runners.config.schema import as_dict

    if as_json:
        click.echo(json.dumps(as_dict(plan.config), indent=2))
        return
    click.echo(to_yaml(plan.config), nl=False)
    click.echo(
        f"# {plan.num_iterations} iterations of {plan.steps_per_iteration:_} steps: "
        f"{plan.total_steps:_} steps of each seed"
    )


def _report(outcome: Any, run_dir: Any) -> None:
    from rich.console import Console

    from runners.report import print_report

    console = Console(highlight=False)
    if outcome.evaluation:
        print_report(outcome, console)
    if outcome.plan.config.runner == "rl" and outcome.seconds > 0:
        rate = outcome.total_steps / outcome.seconds
        console.print(
            f"{outcome.total_steps:,} steps in {outcome.seconds:.1f} s "
            f"({rate:,.0f} steps/s), compiled in {outcome.compile_seconds:.1f} s"
        )
    for picture in sorted(run_dir.artifacts.glob("*.png")):
        console.print(f"picture: {picture}", soft_wrap=True)
    console.print(f"run directory: {run_dir.path}", soft_wrap=True)
