"""The steps of an instance on one line of time, as a picture of it shows them.

A *bar* is a stretch of a step: an attempt, or the rest between attempts, of a sleep, of a wait. Bars are measured in
thousandths of the time that the picture spans, from the instance's creation to its end, or to now.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from emulator.projection.detail import DoDetail, InstanceDetail, SleepDetail, StepDetail, WaitDetail

WIDTH: Final = 1000
SHORTEST: Final = 4
"""A bar is at least so long: it could not be seen otherwise."""


class Look(StrEnum):
    """What a bar, or a whole step, has come to."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RUNNING = "running"
    RESTING = "resting"
    LEFT = "left"
    """Its instance ended before it did."""


class Bar(NamedTuple):
    """A stretch of a step: where it begins and how long it is, in thousandths of the window."""

    start: int
    length: int
    look: Look


class Window(NamedTuple):
    """The time that a picture spans. `is_over`: the instance has ended, and nothing goes on."""

    start_ms: int
    end_ms: int
    is_over: bool


def window(detail: InstanceDetail, now_ms: int) -> Window:
    """From the instance's first moment to its last, or to now."""
    is_over = detail.ended_ms is not None
    last_ms = now_ms if detail.ended_ms is None else detail.ended_ms
    return Window(detail.queued_ms, max(last_ms, detail.queued_ms + 1), is_over)


def look_of(step: StepDetail, *, is_over: bool) -> Look:
    """What a step has come to. A step whose next attempt is due later rests."""
    match step:
        case DoDetail(success=None):
            if is_over:
                return Look.LEFT
            is_called = bool(step.attempts) and step.attempts[-1].end_ms is None
            return Look.RUNNING if is_called else Look.RESTING
        case DoDetail(success=success):
            return Look.SUCCEEDED if success else Look.FAILED
        case WaitDetail(error=error) if error is not None:
            return Look.FAILED
        case SleepDetail(end_ms=None) | WaitDetail(end_ms=None):
            return Look.LEFT if is_over else Look.RESTING
        case _:
            return Look.SUCCEEDED


def bars(step: StepDetail, window: Window) -> list[Bar]:
    """The stretches of a step, in order of time."""
    if not isinstance(step, DoDetail):
        look = look_of(step, is_over=window.is_over)
        return [
            _bar(
                window,
                step.start_ms,
                step.end_ms,
                Look.FAILED if look is Look.FAILED else Look.RESTING,
            )
        ]
    made: list[Bar] = []
    rested_ms: int | None = None
    for attempt in step.attempts:
        if rested_ms is not None:
            made.append(_bar(window, rested_ms, attempt.start_ms, Look.RESTING))
        look = (
            _LOOKS[attempt.success]
            if attempt.end_ms is not None or not window.is_over
            else Look.LEFT
        )
        made.append(_bar(window, attempt.start_ms, attempt.end_ms, look))
        rested_ms = attempt.end_ms
    if rested_ms is not None and step.success is None:
        made.append(_bar(window, rested_ms, None, Look.RESTING))
    return made


_LOOKS: Final = {True: Look.SUCCEEDED, False: Look.FAILED, None: Look.RUNNING}


def _bar(window: Window, start_ms: int, end_ms: int | None, look: Look) -> Bar:
    span_ms = window.end_ms - window.start_ms
    last_ms = window.end_ms if end_ms is None else min(end_ms, window.end_ms)
    length = max(SHORTEST, (last_ms - start_ms) * WIDTH // span_ms)
    start = (start_ms - window.start_ms) * WIDTH // span_ms
    return Bar(max(0, min(start, WIDTH - length)), min(length, WIDTH), look)
