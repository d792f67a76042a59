"""Characters that a console cannot show are replaced; warnings become notes."""

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

    The standard streams replace characters that their encoding lacks, and warnings are
    printed as notes. Errors that the writer of checkpoints logs are silenced, since
    they are raised too.
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
