"""A user's mistake is a message and exit code 2, never a traceback."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from runners.cli.progress import ProgressObserver

#: Exit code after Ctrl-C.
INTERRUPTED = 130


@contextlib.contextmanager
def user_errors(
    *kinds: type[Exception], every_value_error: bool = False
) -> Iterator[None]:
    """Turns a ConfigError inside into a usage error.

    Args:
        *kinds: Other kinds of errors that are mistakes of the user.
        every_value_error: Whether every ValueError is a mistake of the user: true where
            only the user's input is read and checked.
    """
    from runners.config import ConfigError

    try:
        yield
    except (ConfigError, *kinds) as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    except ValueError as error:
        if not every_value_error:
            raise
        raise click.UsageError(str(error), click.get_current_context()) from error


@contextlib.contextmanager
def failed_runs(observer: "ProgressObserver") -> Iterator[None]:
    """Turns the failure of a run inside into a message and exit code 1.

    A full disk or a deleted folder is not a mistake of the program. An interruption
    before the first iteration, or after the last one, ends with exit code 130.

    Args:
        observer: The observer of the run.
    """
    from runners.report.closing import shown
    from runners.session.loop import NonFiniteError

    try:
        yield
    except KeyboardInterrupt:
        run_dir = observer.run_dir
        following = f": paxrun resume {shown(run_dir.path)} goes on" if run_dir else ""
        click.echo(f"interrupted{following}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (NonFiniteError, OSError) as error:
        if isinstance(error, ValueError):  # What the user asked for cannot be.
            raise
        raise click.ClickException(str(error)) from error


class SettingsCommand(click.Command):
    """A command that takes `KEY=VALUE`, and says so when it meets `--key value`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(_no_option(error, words), ctx) from None


def _no_option(error: click.NoSuchOption, words: Sequence[str]) -> str:
    """Returns what to write instead of an option that does not exist."""
    from runners.config.reading import HINTS

    option = error.option_name
    name = option.lstrip("-").replace("-", "_")
    if not name[:1].isalpha():
        return (
            f"{option!r} is read as an option. A number below zero needs a name before "
            'it: KEY=-1, or --payoff "-1,-3,0,-2".'
        )
    following = {word: after for word, after in itertools.pairwise(words)}
    value = following.get(option, "VALUE")
    if any(word.startswith(f"{option}=") for word in words):
        value = next(w for w in words if w.startswith(f"{option}=")).partition("=")[2]
    said = error.format_message() if name not in HINTS else f"No option {option!r}."
    hint = HINTS.get(name, name)
    if hint.startswith("`"):
        return f"{said} Use {hint}"
    key = hint.split(" ")[0].rstrip(",")
    return f"{said} Settings are written KEY=VALUE: {key}={value}"
