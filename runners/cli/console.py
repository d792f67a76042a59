"""What a console cannot show is replaced: no output ends a command."""

import codecs
import io
import sys

#: Name of the error handler.
REPLACE = "paxrun.replace"
#: What stands for signs that tables and progress bars hold.
STAND_INS = {"±": "+/-", "…": "...", "━": "=", "•": "*"}


def adapt_streams() -> None:
    """Lets the standard streams replace what their encoding cannot say."""
    codecs.register_error(REPLACE, _stand_in)
    for stream, errors in (
        (sys.stdin, "replace"),
        (sys.stdout, REPLACE),
        (sys.stderr, REPLACE),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(STAND_INS.get(sign, "?") for sign in signs), error.end
