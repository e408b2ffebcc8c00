"""An instance's journal as text: a tree for the report of a failed test, and a line about what it waits for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from emulator.domain import values
from emulator.domain.entries import EventReceived
from emulator.domain.failure import Failure
from emulator.domain.status import TERMINAL
from emulator.journal.port import StoredInstance
from emulator.projection.detail import (
    DoDetail,
    InstanceDetail,
    SleepDetail,
    StepDetail,
    WaitDetail,
    detail,
)
from emulator.projection.rendering import event_of, iso, output_of

MAX_VALUE_CHARS = 120
MOST_STEPS = 200
"""How many steps a tree shows at most: the last ones."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


def tree(stored: StoredInstance) -> str:
    """Draw what has happened to an instance: its steps in the order of their start, with attempts that say something.

    Times count from the creation.
    """
    shown = _detail(stored)
    creation = shown.creation
    began_ms = creation.created_ms
    lines = [
        f"{creation.workflow}/{creation.id}: {shown.status}, created {iso(began_ms)}",
        f"params {_short(values.plain(creation.params))}",
    ]
    earlier = len(shown.steps) - MOST_STEPS
    branches = [[f"… {earlier} steps before"]] if earlier > 0 else []
    branches += [_branch(step, began_ms) for step in shown.steps[-MOST_STEPS:]]
    branches += [[text] for text in _untaken(stored)]
    if shown.ended_ms is not None:
        branches.append([f"{_after(shown.ended_ms - began_ms)} {_end(shown)}"])
    for index, (head, *rest) in enumerate(branches):
        is_last = index == len(branches) - 1
        lines.append(("└─ " if is_last else "├─ ") + head)
        lines += [("   " if is_last else "│  ") + line for line in rest]
    return "\n".join(lines)


def standing(stored: StoredInstance) -> str:
    """Say in one line how an instance is, and what it waits for."""
    shown = _detail(stored)
    error = "" if shown.error is None else f" ({_failure(shown.error)})"
    began_ms = shown.creation.created_ms
    waits = [_waits(step, began_ms) for step in shown.steps if step.end_ms is None]
    if shown.status in TERMINAL:
        waits = []
    return ", ".join([f"it is {shown.status}{error}", *waits, *_untaken(stored)])


def progress(stored: StoredInstance) -> str:
    """Say in one line how far an instance has come, and what it waits for."""
    done = [step for step in _detail(stored).steps if step.end_ms is not None]
    last = f', the last "{done[-1].name}"' if done else ""
    return f"{len(done)} steps done{last}; {standing(stored)}"


def is_pending(stored: StoredInstance) -> bool:
    """Whether an instance has not ended."""
    return stored.row.status not in TERMINAL


def _detail(stored: StoredInstance) -> InstanceDetail:
    return detail(stored.row.creation, stored.row.status, stored.entries)


def _branch(step: StepDetail, began_ms: int) -> list[str]:
    """A step, and below it its attempts if there is more to say of them than that the step has ended."""
    start = _after(step.start_ms - began_ms)
    head = f"{start} {_title(step)}: {_outcome(step, began_ms)}"
    if not isinstance(step, DoDetail) or (step.success and len(step.attempts) == 1):
        return [head]
    attempts: list[str] = []
    for number, attempt in enumerate(step.attempts, start=1):
        mark = "└─" if number == len(step.attempts) else "├─"
        outcome = "running" if attempt.success is None else "succeeded"
        if attempt.error is not None:
            outcome = _failure(attempt.error)
        after = _after(attempt.start_ms - began_ms)
        attempts.append(f"{mark} {after} attempt {number}: {outcome}")
    return [head, *attempts]


def _title(step: StepDetail) -> str:
    match step:
        case DoDetail(is_rollback=True):
            return f'rollback of "{step.name}"'
        case DoDetail():
            return f'do "{step.name}"'
        case SleepDetail():
            return f'sleep "{step.name}"'
        case WaitDetail():
            return f'wait "{step.name}" for the event "{step.event_type}"'


def _outcome(step: StepDetail, began_ms: int) -> str:
    if step.end_ms is None:
        due_ms = None if isinstance(step, DoDetail) else step.due_ms
        return "open" if due_ms is None else f"open until {_after(due_ms - began_ms)}"
    match step:
        case DoDetail(is_rollback=True, success=True):
            return "compensated"
        case DoDetail(success=True):
            return _short(output_of(step))
        case DoDetail() | WaitDetail() if step.error is not None:
            return f"failed, {_failure(step.error)}"
        case WaitDetail():
            event = event_of(step) or {}
            return f"took {_short(event.get('payload'))}"
        case _:
            return f"over at {_after(step.end_ms - began_ms)}"


def _waits(step: StepDetail, began_ms: int) -> str:
    match step:
        case DoDetail():
            return f'step "{step.name}" is open after {len(step.attempts)} attempt(s)'
        case SleepDetail():
            return f'sleeps in step "{step.name}" until {_after(step.due_ms - began_ms)}'
        case WaitDetail():
            return f'waits for the event "{step.event_type}" in step "{step.name}"'


def _untaken(stored: StoredInstance) -> Iterable[str]:
    for _, entry in stored.entries:
        if isinstance(entry.fact, EventReceived):
            yield f'the event "{entry.fact.event_type}" was sent and not taken'


def _end(shown: InstanceDetail) -> str:
    if shown.error is not None:
        return f"{shown.status}: {_failure(shown.error)}"
    output = "" if shown.output is None else f": {_short(values.plain(shown.output))}"
    return f"{shown.status}{output}"


def _failure(failure: Failure) -> str:
    return failure.text


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _after(delay_ms: int) -> str:
    """A span as `+1d 2h`: its two largest units."""
    parts: list[str] = []
    for unit, size_ms in _UNITS:
        count, delay_ms = divmod(delay_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return f"+{' '.join(parts[:2]) or '0s'}"
