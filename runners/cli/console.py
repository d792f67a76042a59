"""What a console cannot show is replaced, and what libraries say becomes a note."""

import codecs
import io
import logging
import sys
import warnings
from typing import Any

import click

#: Name of the error handler.
REPLACE = "paxrun.replace"
#: What stands for signs that tables and progress bars hold.
STAND_INS = {"±": "+/-", "…": "...", "━": "=", "•": "*"}


def adapt_console() -> None:
    """Prepares a process that is a command: no output ends it.

    The standard streams replace what their encoding cannot say. Warnings are notes.
    What the writer of checkpoints logs of an error is silenced: the error is raised.
    """
    codecs.register_error(REPLACE, _stand_in)
    for stream, errors in (
        (sys.stdin, "replace"),
        (sys.stdout, REPLACE),
        (sys.stderr, REPLACE),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    warnings.showwarning = _note
    logging.getLogger("absl").setLevel(logging.CRITICAL)


def _note(message: Warning | str, category: type[Warning], *where: Any) -> None:
    if issubclass(category, UserWarning):
        click.secho(f"note: {message}", err=True, fg="yellow")
    else:
        click.echo(warnings.formatwarning(message, category, *where[:2]), err=True)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(STAND_INS.get(sign, "?") for sign in signs), error.end
