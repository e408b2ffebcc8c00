"""The streams of a command, as they may be: closed, full, broken off, or of an encoding that lacks characters."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper
from typing import Final, TextIO, cast

_WRITERS: Final = ("click.", "wrangler_compat.cli.")
_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


def prepare_streams() -> None:
    """Put the null device where a stream is closed, and show by its number what an encoding lacks.

    Python has None for a stream that is closed, which few expect, and the first file to be opened would take its place.
    The numbers are written as JSON does, so that a document stays one.
    """
    codecs.register_error(_numbered.__name__, _numbered)
    for name, mode in _MODES.items():
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _null_device(mode))
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_numbered.__name__)


def is_of_output(error: Exception) -> bool:
    """Whether it says that an output of the command cannot be written: of a file it would have the name.

    What the user's code raises is not meant: that has frames of its own.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    raiser = "" if last is None else last.tb_frame.f_globals.get("__name__", "")
    return isinstance(error, OSError) and error.filename is None and raiser.startswith(_WRITERS)


def give_up_output() -> None:
    """Forget what could not be written, or Python would try it again at its end."""
    sys.stdout = _null_device("w")


def escaped(text: str) -> str:
    """The numbers of all characters, as Python writes them below 32, which JSON never has, and as JSON does above."""
    return "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character < " ":
        return character.encode("unicode_escape").decode("ascii")
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _numbered(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escaped(error.object[error.start : error.end]), error.end


def _null_device(mode: str) -> TextIO:
    return cast("TextIO", open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123 - for good
