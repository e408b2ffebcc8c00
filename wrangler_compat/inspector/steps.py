"""A step as its row on the page of an instance shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from emulator.domain.config import StepConfig
from emulator.domain.steps import StepKey, StepKind
from emulator.projection.detail import Attempt, DoDetail, SleepDetail, StepDetail, WaitDetail
from emulator.projection.rendering import output_of
from emulator.projection.timeline import Bar, Look, Window, bars, look_of
from wrangler_compat.inspector.rendering import json_text, value_text


class StepRow(NamedTuple):
    """A step, ready to be shown. `origin` is the step that a restart can name; None where it can name none.

    `due_ms` is when a sleep or a wait ends at the latest, as long as it has not.
    """

    number: int
    kind: str
    name: str
    look: Look
    start_ms: int
    end_ms: int | None
    bars: Sequence[Bar]
    origin: StepKey | None
    due_ms: int | None = None
    attempts: Sequence[Attempt] = ()
    config: StepConfig | None = None
    event_type: str | None = None
    result: str | None = None
    error: str | None = None


def step_row(step: StepDetail, number: int, window: Window) -> StepRow:
    """Show a step, which is the `number`th of its instance."""
    is_open = step.end_ms is None and not window.is_over
    row = StepRow(
        number,
        "",
        step.name,
        look_of(step, is_over=window.is_over),
        step.start_ms,
        step.end_ms,
        bars(step, window),
        None,
    )
    match step:
        case DoDetail():
            return row._replace(
                kind="rollback" if step.is_rollback else "step",
                origin=None if step.is_rollback else StepKey.from_label(StepKind.DO, step.name),
                attempts=step.attempts,
                config=step.config,
                result=None if step.result is None else json_text(output_of(step)),
                error=step.error and step.error.text,
            )
        case SleepDetail():
            return row._replace(
                kind="sleep",
                origin=StepKey.from_label(StepKind.SLEEP, step.name),
                due_ms=step.due_ms if is_open else None,
            )
        case WaitDetail():
            return row._replace(
                kind="hook" if step.is_for_hook else "wait",
                origin=None if step.is_for_hook else StepKey.from_label(StepKind.WAIT, step.name),
                due_ms=step.due_ms if is_open else None,
                event_type=None if step.is_for_hook else step.event_type,
                result=None if step.payload is None else value_text(step.payload),
                error=step.error and step.error.text,
            )


def awaited_types(steps: Sequence[StepDetail]) -> list[str]:
    """The types of the events that are waited for."""
    waits = (each for each in steps if isinstance(each, WaitDetail) and each.end_ms is None)
    return sorted({each.event_type for each in waits if not each.is_for_hook})


def is_asleep(steps: Sequence[StepDetail]) -> bool:
    """Whether a sleep goes on."""
    return any(isinstance(each, SleepDetail) and each.end_ms is None for each in steps)
