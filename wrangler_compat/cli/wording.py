"""How times, durations, values and errors of an instance are told in a terminal.

What comes from outside (messages, names, outputs) may hold control characters; they are shown, not obeyed. Where they
stand in JSON, it stays JSON. All times are UTC, as in the API's answers, so that two people see the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from emulator.domain.duration import duration_text
from wrangler_compat.cli.output import escaped

Json = dict[str, Any]

LATEST: Final = "latest"
"""The word for the id of the newest instance (as in wrangler)."""

_UNSAFE: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def when(instant: str) -> str:
    """An instant of the API (ISO 8601) for people to read."""
    return instant.replace("T", " ")


def clock(instant: str) -> str:
    """The time of day of an instant of the API."""
    return instant.partition("T")[2]


def elapsed(start: str, end: str) -> str:
    """How long it was from one instant of the API to another."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return duration_text(round(passed.total_seconds() * 1000))


def compact(value: object) -> str:
    """A value as JSON on one line."""
    return printable(json.dumps(value, ensure_ascii=False))


def pretty(value: object) -> str:
    """A value as JSON on several lines, for programs and people."""
    return printable(json.dumps(value, ensure_ascii=False, indent=2))


def error_text(error: Json) -> str:
    """An error: its name and message."""
    return printable(f"{error['name']}: {error['message']}")


def first_line(text: str) -> str:
    """The first line of a text, and a sign that there are more."""
    line, _, rest = text.partition("\n")
    return f"{line} …" if rest else line


def sentences(texts: Iterable[str]) -> str:
    """Texts in a row, on one line; each that does not end as a sentence gets a full stop, but for the last."""
    told = [" ".join(each.split()) for each in texts]
    ended = [each if each.endswith((".", "!", "?", ":")) else f"{each}." for each in told[:-1]]
    return " ".join(ended + told[-1:])


def printable(text: str) -> str:
    """The text with control characters and lone surrogates escaped; only line ends stay."""
    return _UNSAFE.sub(lambda found: escaped(found[0]), text)
