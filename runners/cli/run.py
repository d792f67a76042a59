"""`paxrun RUNNER`, `paxrun run`: one experiment from config to results."""

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import click

from runners.cli.errors import INTERRUPTED, SettingsCommand, failed_runs, user_errors
from runners.kinds import KINDS, RunnerKind
from runners.session.interrupt import uninterrupted

_CONFIG = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    multiple=True,
    help="A YAML file; of several files the later ones win.",
)
_SETTINGS = (
    _CONFIG,
    click.option("--env", metavar="GAME", help="The game, such as IPD or CoinGame."),
    click.option("--agent1", metavar="NAME", help="The agent of player 1."),
    click.option("--agent2", metavar="NAME", help="The agent of player 2."),
    click.option(
        "--payoff",
        metavar="TABLE",
        help='Payoff: "[[-1,-1],[-3,0],[0,-3],[-2,-2]]", -1,-3,0,-2 or '
        '"CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2".',
    ),
    click.option("--num-envs", metavar="N", help="Games that are played at once."),
    click.option("--total-timesteps", metavar="N", help="Environment steps of a seed."),
    click.option("--seed", metavar="N", help="Seed of the run."),
    click.option("--num-seeds", metavar="N", help="Repetitions, run at once."),
    click.option("--model-path", metavar="FILE", help="Weights, or a run directory."),
    click.option("--run-path", metavar="RUN", help="W&B run that holds --model-path."),
    click.option("--player", metavar="N", help="The player of --model-path [1]."),
    click.option("--num-devices", metavar="N", help="Devices that share the games."),
    click.option("--exp-dir", metavar="DIR", help="Where run directories go [exp]."),
    click.option(
        "--save-dir", metavar="DIR", help="The run directory, instead of a new one."
    ),
)
_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Check the config and run nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
)


def experiment_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the words and options of every command that runs an experiment."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return setting_options(command)


def setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the words and options that are settings of an experiment."""
    for option in reversed(_SETTINGS):
        command = option(command)
    return click.argument("words", nargs=-1, metavar="[EXPERIMENT] [KEY=VALUE ...]")(
        command
    )


def training_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options for the small size and for a `--save-dir` that holds a run."""
    command = click.option(
        "--quick", is_flag=True, help="Run the experiment's small size, for two cores."
    )(command)
    command = click.option(
        "--overwrite", is_flag=True, help="Delete the run in --save-dir first."
    )(command)
    return click.option(
        "--resume", is_flag=True, help="Continue the run in --save-dir, if any."
    )(command)


def runner_command(name: str, *options: Any) -> click.Command:
    """Returns the command of a runner.

    Args:
        name: The runner's.
        *options: Options that it has beside those of every experiment.
    """
    kind = KINDS[name]

    def command(words: tuple[str, ...], **given: Any) -> None:
        if kind.reads("search"):
            from runners.search.outer_options import search_options

            own = {key: given.pop(key) for key in search_options() if key in given}
            given["search"] = {k: v for k, v in own.items() if v is not None} or None
        words = _with_default(kind, words, given)
        run_experiment(words, {**given, "runner": name})

    for option in reversed(options):
        command = option(command)
    command = experiment_options(command)
    return click.command(name, cls=SettingsCommand, help=inspect.cleandoc(kind.help))(
        command
    )


def _with_default(
    kind: RunnerKind, words: tuple[str, ...], options: dict[str, Any]
) -> tuple[str, ...]:
    """Returns the words, with the default ones where nothing else is asked for."""
    named = any("=" not in word for word in words) or options.get("config_file")
    of_game = any(word.lstrip("+").startswith(("env", "experiment")) for word in words)
    if named or of_game or options.get("env"):
        return words
    return (*kind.words, *words)


_DETERMINISTIC = click.option(
    "--deterministic", is_flag=True, help="Evaluate the likeliest actions."
)

rl = runner_command("rl", training_options)
evo = runner_command(
    "evo",
    training_options,
    click.option(
        "--population-size", "--popsize", metavar="N", help="Members of a population."
    ),
    click.option("--num-generations", metavar="N", help="Number of generations."),
)
sarl = runner_command("sarl", training_options)
online = runner_command("online", training_options, _DETERMINISTIC)
es = runner_command(
    "es",
    training_options,
    _DETERMINISTIC,
    click.option(
        "--search-target",
        "search_targets",
        multiple=True,
        metavar="TARGET",
        callback=lambda context, option, value: list(value) or None,
        help="What is searched: parameters, NAME, NAME:LOW:HIGH[:SCALE] or NAME:A,B,C; "
        "repeatable. A "
        "NAME is a hyperparameter, another option of the agent, or env.NUMBER of the "
        "game.",
    ),
    click.option("--es", "strategy", metavar="NAME", help="A strategy of evosax."),
    click.option(
        "--popsize",
        "population_size",
        metavar="N",
        help="Individuals of a generation.",
    ),
    click.option("--iterations", metavar="N", help="Number of generations."),
    click.option(
        "--train-agent/--no-train-agent",
        default=None,
        help="Whether individuals train before they are evaluated.",
    ),
    click.option(
        "--num-steps-per-iteration",
        metavar="N",
        help="Training steps of an individual.",
    ),
    click.option(
        "--fit-shaper",
        metavar="NAME",
        help="Shaping: auto, centered_rank, identity, ...",
    ),
)
evaluate = runner_command(
    "eval",
    click.option(
        "--deterministic",
        is_flag=True,
        help="Take the likeliest actions; by default they are sampled.",
    ),
    click.option(
        "--run-dir",
        metavar="DIR",
        help="Evaluate the agents of a finished training run.",
    ),
)


@click.command()
@click.argument("run_dir", metavar="RUN_DIR")
@click.option(
    "--from",
    "which",
    metavar="STEP",
    default="latest",
    show_default=True,
    help="The checkpoint: its environment steps, latest or best.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def resume(run_dir: str, which: str, as_json: bool) -> None:
    """Continue a run that was stopped, in its own directory.

    It ends with the same bits as a run without the stop.
    """
    with user_errors(every_value_error=True), uninterrupted():
        from runners.cli.progress import ProgressObserver
        from runners.launch import resume_plan
        from runners.session.resuming import plan_of_run
        from runners.storage.checkpoints.store import CheckpointError

        plan, run = plan_of_run(run_dir)
        status = run.read_meta()["status"]
    if status == "finished":
        _say_finished(run)
        return
    step = int(which) if which.isdecimal() else which
    with (
        user_errors(CheckpointError),
        ProgressObserver(plan) as observer,
        failed_runs(observer),
    ):
        outcome, _ = resume_plan(plan, run, observer, step)
    _finish(outcome, run, as_json)


@click.command("run", cls=SettingsCommand)
@experiment_options
@training_options
@click.option("--deterministic", is_flag=True, help="Evaluate the likeliest actions.")
def run(words: tuple[str, ...], **options: Any) -> None:
    """Run an experiment with the runner that it names.

    The key `runner` of the experiment names the command that does the same.
    """
    run_experiment(words, options)


def run_experiment(words: tuple[str, ...], options: dict[str, Any]) -> None:
    """Loads, checks, runs and reports one experiment."""
    as_json, dry_run = options.pop("as_json"), options.pop("dry_run")
    go_on, overwrite = options.pop("resume", False), options.pop("overwrite", False)
    with user_errors(every_value_error=True), uninterrupted():
        from runners.cli.progress import ProgressObserver
        from runners.launch import resume_plan, run_plan
        from runners.session.resuming import opened, start
        from runners.storage.checkpoints.store import CheckpointError
        from runners.storage.places import check_ready

        plan = plan_of_words(words, options)
        if dry_run:
            from runners.session.models import check_models

            check_ready(plan.config)
            check_models(plan)
    _announce(plan)
    if dry_run:
        _show(plan, as_json)
        return
    with (
        user_errors(CheckpointError),
        ProgressObserver(plan) as observer,
        failed_runs(observer),
    ):
        run = start(plan.config, resume=go_on, overwrite=overwrite)
        if run is not None and run.read_meta()["status"] == "finished":
            _say_finished(run)
            return
        if run is not None:
            outcome, run_dir = resume_plan(plan, run, observer)
        else:
            outcome, run_dir = run_plan(
                plan, lambda: opened(plan.config, sys.argv[1:], overwrite), observer
            )
    _finish(outcome, run_dir, as_json)


def _say_finished(run: Any) -> None:
    """Says that a run has finished; resuming it is no mistake."""
    from runners.cli.progress import say

    say(f"the run {run.path} has finished: nothing is left to do")


def _finish(outcome: Any, run_dir: Any, as_json: bool) -> None:
    """Reports the outcome; exits with 130 after an interruption."""
    from paxenv.wording import counted
    from runners.cli.progress import say
    from runners.report.closing import shown

    if as_json:
        result = {**outcome.as_dict(), "run_dir": str(run_dir.path)}
        click.echo(json.dumps(result, indent=2, allow_nan=False))
    elif outcome.plan.config.kind.outer:
        from runners.report.outer_table import print_outcome

        print_outcome(outcome, run_dir)
    else:
        _report(outcome, run_dir)
    if outcome.interrupted:
        say(
            f"interrupted after {counted(outcome.num_iterations, 'iteration')}; "
            f"everything is saved: paxrun resume {shown(run_dir.path)}"
        )
        click.get_current_context().exit(INTERRUPTED)


def plan_of_words(words: tuple[str, ...], options: dict[str, Any]) -> Any:
    """Returns the checked plan that words and options mean."""
    config = config_of_words(words, options)
    if config.num_devices > 1:
        # A CPU is divided before JAX starts, or never.
        from runners.engine.devices import ensure_devices

        ensure_devices(config.num_devices)
    from runners.planning.plan import prepare

    return prepare(config)


def config_of_words(words: tuple[str, ...], options: dict[str, Any]) -> Any:
    """Returns the config that words and options mean; flags not given say nothing."""
    from runners.config import ConfigError, load

    files = options.pop("config_file")
    run_dir = options.pop("run_dir", None)
    options = {key: value for key, value in options.items() if value is not False}
    if run_dir is None:
        return load(words, config_file=files or None, options=options)
    if files:
        raise ConfigError(
            f"--run-dir {run_dir} brings its own config: leave --config {files[0]} out"
        )
    from runners.cli.progress import warn
    from runners.session.held_out import config_of_run, unfinished

    config = config_of_run(run_dir, words, options)
    if notice := unfinished(run_dir):
        warn(notice)
    return config


def _announce(plan: Any) -> None:
    """Says what will be played: the payoff as it was understood, and every notice."""
    from runners.cli.progress import say, warn
    from runners.report.description import payoff_lines

    if "payoff" in plan.config.env.options:
        say("\n".join(payoff_lines(plan.env, plan.params)))
    for notice in plan.notices:
        warn(notice)


def _show(plan: Any, as_json: bool) -> None:
    from paxenv.wording import counted
    from runners.config import as_dict, to_yaml

    if as_json:
        click.echo(json.dumps(as_dict(plan.config), indent=2))
        return
    click.echo(to_yaml(plan.config), nl=False)
    iterations = counted(plan.num_iterations, "iteration")
    each = f"{iterations} of {counted(plan.steps_per_iteration, 'step')}"
    if plan.num_trainings != 1:
        each = f"{counted(plan.num_trainings, 'training')} of {each}"
    click.echo(f"# {each}: {counted(plan.total_steps, 'step')} of each seed")


def _report(outcome: Any, run_dir: Any) -> None:
    from rich.console import Console

    from runners.report.closing import print_end
    from runners.report.table import print_report

    console = Console(highlight=False)
    if outcome.evaluation:
        print_report(outcome, console)
    print_end(outcome, run_dir, console)
