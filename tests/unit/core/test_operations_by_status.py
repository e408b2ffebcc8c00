"""What people may do in which status: one table (specification 4.4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    Input,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    RunParked,
    RunRaised,
    RunReturned,
    TerminateRequested,
)
from emulator.domain.status import InstanceStatus
from emulator.errors import CannotTerminate, EmulatorError, InstanceFinished, StepNotFound
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    ONE,
    Case,
    asks_do,
    asks_sleep,
    do,
    given,
    returns,
    running,
)

S = InstanceStatus


def with_handler() -> Case:
    """One step is done, and can be compensated."""
    return running().when(asks_do("a", rollback=CONFIG), returns("a"))


CASES: dict[InstanceStatus, Callable[[], Case]] = {
    S.QUEUED: lambda: with_handler().when(PauseRequested(), ResumeRequested()).and_no_slot(),
    S.RUNNING: with_handler,
    S.WAITING: lambda: with_handler().when(asks_sleep("s"), RunParked(LIVE)),
    S.WAITING_FOR_PAUSE: lambda: with_handler().when(asks_do("b"), PauseRequested()),
    S.PAUSED: lambda: with_handler().when(PauseRequested()),
    S.ROLLING_BACK: lambda: with_handler().when(RunRaised(LIVE, BOOM)),
    S.COMPLETE: lambda: with_handler().when(RunReturned(LIVE, ONE)),
    S.ERRORED: lambda: running().when(asks_do("a"), returns("a"), RunRaised(LIVE, BOOM)),
    S.TERMINATED: lambda: with_handler().when(TerminateRequested()),
}

PAUSE, RESUME, RESTART = PauseRequested(), ResumeRequested(), RestartRequested()
END, UNDO = TerminateRequested(), TerminateRequested(rollback=True)
FROM, FROM_NOWHERE = RestartRequested(do("a")), RestartRequested(do("a", 2))
EVENT, DELETE = EventSent("paid"), DeleteRequested()

Outcome = InstanceStatus | type[EmulatorError] | None
"""The new status, a refusal, or None: nothing happens."""

TABLE: dict[InstanceStatus, dict[Input, Outcome]] = {
    S.QUEUED: {PAUSE: S.PAUSED, RESUME: None, END: S.TERMINATED, UNDO: S.ROLLING_BACK},
    S.RUNNING: {PAUSE: S.PAUSED, RESUME: None, END: S.TERMINATED, UNDO: S.ROLLING_BACK},
    S.WAITING: {PAUSE: S.PAUSED, RESUME: None, END: S.TERMINATED, UNDO: S.ROLLING_BACK},
    S.WAITING_FOR_PAUSE: {
        PAUSE: None,
        RESUME: S.RUNNING,
        END: S.TERMINATED,
        UNDO: S.ROLLING_BACK,
    },
    S.PAUSED: {PAUSE: None, RESUME: S.QUEUED, END: S.TERMINATED, UNDO: S.ROLLING_BACK},
    S.ROLLING_BACK: {PAUSE: None, RESUME: None, END: S.TERMINATED, UNDO: None},
    S.COMPLETE: {PAUSE: None, RESUME: None, END: CannotTerminate, UNDO: CannotTerminate},
    S.ERRORED: {PAUSE: None, RESUME: None, END: CannotTerminate, UNDO: CannotTerminate},
    S.TERMINATED: {PAUSE: None, RESUME: None, END: CannotTerminate, UNDO: CannotTerminate},
}
EVERYWHERE: dict[Input, Outcome] = {
    RESTART: S.QUEUED,
    FROM: S.QUEUED,
    FROM_NOWHERE: StepNotFound,
}


@pytest.mark.parametrize(
    ("status", "operation", "outcome"),
    [
        (status, operation, outcome)
        for status, row in TABLE.items()
        for operation, outcome in (row | EVERYWHERE).items()
    ],
    ids=str,
)
def test_an_operation_does_what_its_status_allows(
    status: InstanceStatus, operation: Input, outcome: Outcome
) -> None:
    case = CASES[status]().then_status(status)
    case.when(operation)
    if outcome is None:
        case.then_nothing().then_status(status)
    elif isinstance(outcome, InstanceStatus):
        case.then_status(outcome)
        assert case.last.refusal is None
    else:
        case.then_refused(outcome).then_status(status)


@pytest.mark.parametrize("status", S)
def test_an_event_is_kept_unless_the_instance_has_finished(status: InstanceStatus) -> None:
    case = CASES[status]().when(EVENT)
    if status in (S.COMPLETE, S.ERRORED, S.TERMINATED):
        case.then_refused(InstanceFinished)
    else:
        assert len(case.state.mailbox) == 1
    case.then_status(status)


@pytest.mark.parametrize("status", S)
def test_any_instance_can_be_deleted(status: InstanceStatus) -> None:
    case = CASES[status]().when(DELETE)
    assert case.last.deleted
    assert not case.last.entries
    assert not case.state.life.running


@pytest.mark.parametrize("case", [given(), running(), running().when(asks_do("b"))])
def test_terminating_ends_at_once_where_there_is_nothing_to_compensate(case: Case) -> None:
    case.when(UNDO).then_status(S.TERMINATED)


def test_a_refusal_names_the_step_that_is_not_there() -> None:
    refusal = running().when(RestartRequested(do("zzz"))).last.refusal
    assert str(refusal) == '(instance.cannot_restart) Step "zzz" not found in execution history'
