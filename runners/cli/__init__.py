"""`paxrun`, the command line: for `--help` nothing heavy is imported."""

import importlib
import os
import sys
from typing import Any

import click

from runners.cli.errors import INTERRUPTED
from runners.kinds import KINDS

#: The module of each command.
COMMANDS = {
    **dict.fromkeys(KINDS, "runners.cli.run"),
    "resume": "runners.cli.run",
    "run": "runners.cli.run",
    "play": "runners.cli.play",
    "describe": "runners.cli.describe",
    "list": "runners.cli.listing",
    "config": "runners.cli.config",
    "devices": "runners.cli.devices",
    "runs": "runners.cli.runs",
    "plot": "runners.cli.plot",
    "ckpt": "runners.cli.ckpt",
    "parity": "runners.cli.parity",
    "probe": "runners.cli.probe",
    "held-out": "runners.cli.held_out",
}
ATTRIBUTES = {
    "eval": "evaluate",
    "list": "list_command",
    "config": "config_group",
    "runs": "runs_group",
    "ckpt": "ckpt_group",
    "held-out": "held_out",
}
#: Options of `paxrun` itself; all others are of a command.
OWN_OPTIONS = ("-h", "--help", "--version")

HELP = """Social-dilemma games and learning agents, from the command line.

\b
  paxrun rl                               train PPO against TitForTat
  paxrun rl imp/tabular_v_tabular         run a stored experiment
  paxrun rl --env IPD --agent2 AllD       choose the game and the players
  paxrun rl ipd/ppo num_envs=10 seed=3    change settings
  paxrun evo ipd/gs_v_tabular --quick     search an agent by evolution
  paxrun sarl --env CartPole              train one agent in a game of its own
  paxrun es sarl/cartpole_es              search learning rates by evolution
  paxrun resume RUN_DIR                   go on with a run that was stopped
  paxrun eval --agent1 Grim --agent2 Random
  paxrun play IPD --against TitForTat     play it yourself

Settings are written KEY=VALUE; `paxrun config show` lists them all. Results go to
exp/<experiment>/<run>/.
"""


class LazyGroup(click.Group):
    """Imports a command when it is used; bare settings and options are of `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        return getattr(module, ATTRIBUTES.get(cmd_name, cmd_name))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and _is_of_a_run(args[0]):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (click.exceptions.Exit, click.Abort):
            raise
        except (AssertionError, RuntimeError) as error:
            # JAX starts with the first array, wherever that is made.
            from paxenv.platforms import fault

            message = fault()
            if message is None:
                raise
            raise click.UsageError(message, ctx) from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from runners.config.schema import did_you_mean

            ctx.fail(
                f"there is no command {name!r}{did_you_mean(name, COMMANDS)} "
                f"The commands: {', '.join(COMMANDS)}"
            )
        return super().resolve_command(ctx, args)


@click.command(
    cls=LazyGroup, help=HELP, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="paxenv", prog_name="paxrun")
def cli() -> None:
    """The root of all commands."""


def main() -> None:
    """Runs the command line and ends the process.

    Exit codes: 0 done, 1 failed, 2 a mistake of the user, 130 interrupted.
    """
    from runners.cli.console import adapt_console

    adapt_console()
    name = "paxrun" if sys.argv[0].endswith("paxrun") else "python -m runners"
    try:
        cli(prog_name=name)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Programs may still be running in XLA's threads, which would crash if the
            # interpreter were taken down under them. All files are closed by now.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _is_of_a_run(word: str) -> bool:
    """Whether the first word is a setting, or an option that is not the group's own."""
    if word.startswith("-"):
        return word not in OWN_OPTIONS
    return word.startswith("+") or "=" in word or "/" in word
