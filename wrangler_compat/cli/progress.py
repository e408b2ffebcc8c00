"""An instance while it runs: what has happened since the last look, one line for each thing.

Works on what the REST API tells of an instance (its detail). Everything in it that has a time is a *moment*; a look at
a newer detail tells the moments that were not there before. An instance that is restarted has new moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from wrangler_compat.cli.wording import (
    Json,
    clock,
    compact,
    elapsed,
    error_text,
    first_line,
    printable,
    when,
)

EXIT_CODES: Final = {"complete": 0, "errored": 1, "terminated": 3}
"""How a command that has followed an instance to its end says how that was. 2 is a command line that is wrong."""

REST_PER_LOOK: Final = 4
"""How many times as long as a look has taken nobody looks again. A look at thousands of steps takes long, and an instance
that is looked at after each of them would get nowhere."""

_MARKS: Final = {
    "complete": "✓",
    "errored": "✗",
    "terminated": "■",
    "running": "▶",
    "rollingBack": "▶",
}

_UNTIMED: Final = frozenset({"paused", "waitingForPause", "rollingBack"})
_NO_CLOCK: Final = " " * len("00:00:00.000Z")


class Moment(NamedTuple):
    """Something that happened, at an instant of the API. `plan` is what is known of its end, and may change."""

    at: str
    text: str
    plan: str = ""


class Progress:
    """Tells what is new. `write` takes a line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._told: set[tuple[str, str]] = set()
        self._status = ""

    def show(self, detail: Json) -> None:
        """Tell what has happened since the last call, or from the beginning."""
        for at, text, plan in moments(detail):
            if (at, text) not in self._told:
                self._told.add((at, text))
                self._write(f"{clock(at)}  {first_line(text)}{plan}")
        # The API has no time for these.
        status: str = detail["status"]
        if status != self._status and status not in EXIT_CODES:
            if status in _UNTIMED:
                self._write(f"{_NO_CLOCK}  {status}")
            elif self._status in _UNTIMED:
                self._write(f"{_NO_CLOCK}  goes on")
        self._status = status


def mark_of(status: str) -> str:
    """The sign for a status; "…" for those in which nothing goes on."""
    return _MARKS.get(status, "…")


def moments(detail: Json) -> list[Moment]:
    """Everything that has happened to an instance, in order."""
    found = [Moment(detail["queued"], "queued")]
    if detail["start"] is not None:
        found.append(Moment(detail["start"], "running"))
    for step in detail["steps"]:
        if step["type"] in _KINDS:
            found += _KINDS[step["type"]](step)
    found.sort(key=attrgetter("at"))  # stable: a step's own moments stay in their order
    if detail["end"] is not None:
        found.append(Moment(detail["end"], _end(detail)))
    return found


def _end(detail: Json) -> str:
    status, error = detail["status"], detail["error"]
    why = "" if error is None else f": {error_text(error)}"
    return f"{mark_of(status)} {status}{why}"


def _do(step: Json) -> Iterator[Moment]:
    name = printable(step["name"])
    if step["type"] == "rollback":
        name = f"rollback of {name}"
    yield Moment(step["start"], f"▶ {name}")
    for number, attempt in enumerate(step["attempts"], start=1):
        if number > 1:
            yield Moment(attempt["start"], f"▶ {name}, attempt {number}")
        if attempt["error"] is not None:
            why = error_text(attempt["error"])
            yield Moment(attempt["end"], f"✗ {name}, attempt {number}: {why}")
    if step["end"] is not None:
        mark, outcome = ("✓", "") if step["success"] else ("✗", " failed")
        yield Moment(step["end"], f"{mark} {name}{outcome} ({elapsed(step['start'], step['end'])})")


def _sleep(step: Json) -> Iterator[Moment]:
    name = printable(step["name"])
    yield Moment(step["start"], f"… sleep {name}", _planned_end(step))
    if step["finished"]:
        yield Moment(step["end"], f"✓ sleep {name} ({elapsed(step['start'], step['end'])})")


def _wait(step: Json) -> Iterator[Moment]:
    name = printable(step["name"])
    yield Moment(step["start"], f"… wait {name} for {awaited(step)}", _planned_end(step))
    if step["finished"]:
        time = f"({elapsed(step['start'], step['end'])})"
        if step["error"] is None:
            yield Moment(step["end"], f"✓ wait {name} {time}")
        else:
            yield Moment(step["end"], f"✗ wait {name} {time}: {error_text(step['error'])}")


def _planned_end(step: Json) -> str:
    return "" if step["finished"] or step["end"] is None else f", until {when(step['end'])}"


def awaited(wait: Json) -> str:
    """What a wait is for."""
    from emulator.domain.entries import HOOK_CHANNEL  # msgspec takes long to import

    event_type: str = wait["event_type"]
    if event_type.startswith(HOOK_CHANNEL):
        return "a payload of its hook"
    return f"the event {compact(event_type)}"


_KINDS: Final = {"step": _do, "rollback": _do, "sleep": _sleep, "waitForEvent": _wait}
