"""What a broken law looks like, and what the laws have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from emulator.domain import entries as facts
from emulator.domain.entries import Entry, Fact
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.journal.port import Cut, EntryRow
from emulator.testing.trace import (
    Deleted,
    Happening,
    Story,
)

T = TypeVar("T")


class LawBroken(AssertionError):
    """The engine did what it must never do."""

    def __init__(self, law: str, where: object, text: str) -> None:
        super().__init__(f"{law}: {where}: {text}")


_STATUS_AFTER: dict[type[Fact], InstanceStatus] = {
    facts.WorkflowQueued: InstanceStatus.QUEUED,
    facts.WorkflowRunning: InstanceStatus.RUNNING,
    facts.WorkflowWaiting: InstanceStatus.WAITING,
    facts.WorkflowWaitingForPause: InstanceStatus.WAITING_FOR_PAUSE,
    facts.WorkflowPaused: InstanceStatus.PAUSED,
    facts.RollbackStarted: InstanceStatus.ROLLING_BACK,
    facts.WorkflowSucceeded: InstanceStatus.COMPLETE,
    facts.WorkflowFailed: InstanceStatus.ERRORED,
    facts.WorkflowTerminated: InstanceStatus.TERMINATED,
}


def statuses(story: Story) -> Iterable[tuple[Happening, InstanceStatus | None]]:
    """Every happening with the status after it; None is an instance that is gone."""
    status: InstanceStatus | None = InstanceStatus.QUEUED
    for happening in story:
        match happening:
            case EntryRow(entry=Entry(fact=fact)):
                status = _STATUS_AFTER.get(type(fact), status)
            case Cut():
                status = InstanceStatus.QUEUED
            case Deleted():
                status = None
            case _:
                pass
        yield happening, status


def kept(of_steps: dict[StepKey, T], cut: Cut) -> dict[StepKey, T]:
    """What a restart leaves of something that is known of each step."""
    if cut.steps is None:
        return {}
    return {step: value for step, value in of_steps.items() if step not in cut.steps}
