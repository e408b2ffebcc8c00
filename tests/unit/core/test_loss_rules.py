"""A run that is lost with its process: begun again, but not for ever."""

from __future__ import annotations

import pytest

from emulator.core.effects import Interrupt, InvokeAttempt, StartRun
from emulator.core.inputs import (
    PauseRequested,
    RestartRequested,
    RunLost,
    RunParked,
    RunRaised,
    TerminateRequested,
    UnloadRequested,
)
from emulator.core.losses import MOST_LOSSES
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    RollbackAttemptFailed,
    RollbackAttemptStarted,
    RollbackFailed,
    RollbackStepFailed,
    RollbackStepStarted,
    StepFailed,
    WorkflowFailed,
    WorkflowPaused,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    ONCE,
    Case,
    asks_do,
    asks_sleep,
    do,
    returns,
    running,
)

A, B = do("a"), do("b")
DEAD = Failure("ProgramLost", "its process ended with exit code 3")
LOST = RunLost(LIVE, DEAD)
STATUS = InstanceStatus


def lost_often() -> Case:
    """A step without end of retries has been lost as often as is allowed."""
    case = running()
    for _ in range(MOST_LOSSES):
        case.when(asks_do("a"), LOST)
    return case


def test_attempts_under_way_fail_with_what_became_of_the_process_and_the_run_begins_again() -> None:
    case = running().when(asks_do("a"), asks_do("b", ONCE))
    case.when(LOST).then(
        A, AttemptFailed(1, DEAD, 0), B, AttemptFailed(1, DEAD), StepFailed(), Interrupt(), StartRun(3),
    )  # fmt: skip
    case.when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))
    case.when(asks_do("b"))
    assert case.resolved == [B]


def test_a_loss_between_two_steps_only_begins_the_run_again() -> None:
    running().when(asks_do("a"), returns("a"), LOST).then(Interrupt(), StartRun(3))


def test_what_a_lost_run_still_says_is_stale() -> None:
    case = running().when(asks_do("a"))
    first = RunLost(case.state.life.incarnation, DEAD)
    case.when(first)
    case.when(first).then_nothing()


def test_losses_without_progress_end_the_instance() -> None:
    case = lost_often()
    case.when(LOST).then(WorkflowFailed(DEAD), Interrupt())


def test_a_failed_step_is_no_progress_when_its_failure_is_the_loss() -> None:
    case = running()
    for number in range(MOST_LOSSES):
        case.when(asks_do(f"step {number}", ONCE), LOST)
        assert case.started
    case.when(asks_do("another", ONCE), LOST).then_status(STATUS.ERRORED)


@pytest.mark.parametrize("anew", [returns("a", MOST_LOSSES), RestartRequested()])
def test_progress_and_a_restart_give_a_run_its_chances_back(anew: object) -> None:
    case = running()
    for _ in range(MOST_LOSSES - 1):
        case.when(asks_do("a"), LOST)
    case.when(asks_do("a"))
    if isinstance(anew, RestartRequested):
        case.when(anew).and_slot()
    else:
        case.when(returns("a", MOST_LOSSES))
    for _ in range(MOST_LOSSES):
        case.when(LOST).then_status(STATUS.RUNNING)
    case.when(LOST).then_status(STATUS.ERRORED)


def test_an_instance_that_waits_needs_no_code() -> None:
    case = running().when(asks_sleep("s", 100), RunParked(LIVE)).then_status(STATUS.WAITING)
    case.when(LOST).then(Interrupt())
    case.then_armed(s=100)
    case.when(UnloadRequested(LIVE)).then_nothing()


def test_a_pending_pause_takes_hold_when_the_run_is_lost() -> None:
    case = running().when(asks_do("a"), PauseRequested())
    case.when(LOST).then(A, AttemptFailed(1, DEAD, 0), WorkflowPaused(), Interrupt())


def rolling_back(limit_config: bool = False) -> Case:
    case = running().when(asks_do("a", rollback=ONCE if limit_config else CONFIG), returns("a"))
    return case.when(RunRaised(LIVE, BOOM)).then_status(STATUS.ROLLING_BACK)


def test_a_lost_handler_has_failed_and_the_handlers_are_found_again() -> None:
    case = rolling_back()
    case.when(LOST).then(
        A, RollbackAttemptFailed(1, DEAD, 0), Interrupt(), StartRun(4, registering=True)
    )
    case.when(asks_do("a", rollback=CONFIG))
    assert case.state.rollback is not None
    assert case.state.rollback.attempt == 2


def test_a_lost_handler_without_another_attempt_ends_the_rollback() -> None:
    rolling_back(limit_config=True).when(LOST).then_status(STATUS.ERRORED)


def test_handlers_that_cannot_be_found_again_end_the_rollback() -> None:
    case = rolling_back()
    for _ in range(MOST_LOSSES):
        case.when(LOST).then_status(STATUS.ROLLING_BACK)
    case.when(LOST).then(
        A, RollbackAttemptStarted(2), RollbackAttemptFailed(2, DEAD), RollbackStepFailed(),
        RollbackFailed(1, 0), WorkflowFailed(BOOM), Interrupt(),
    )  # fmt: skip


def test_a_handler_that_is_under_way_at_the_last_loss_has_failed_that_attempt() -> None:
    patient = StepConfig(RetryConfig(limit=9, delay=0), timeout=1_000)
    case = running().when(asks_do("a", rollback=patient), returns("a"), RunRaised(LIVE, BOOM))
    for _ in range(MOST_LOSSES):
        case.when(LOST, asks_do("a", rollback=patient))
    case.when(LOST).then(
        A, RollbackAttemptFailed(MOST_LOSSES + 1, DEAD), RollbackStepFailed(),
        RollbackFailed(1, 0), WorkflowFailed(BOOM), Interrupt(),
    )  # fmt: skip


def test_a_rollback_that_has_not_begun_with_a_step_says_which_one_it_could_not_compensate() -> None:
    case = running().when(asks_do("a", rollback=CONFIG), returns("a"), asks_sleep("s"))
    case.when(RunParked(LIVE), UnloadRequested(LIVE), TerminateRequested(rollback=True))
    for _ in range(MOST_LOSSES):
        case.when(LOST).then(Interrupt(), StartRun(case.state.life.incarnation, registering=True))
    case.when(LOST).then_status(STATUS.TERMINATED)
    facts = [type(entry.fact) for _, entry in case.last.entries]
    assert facts[:2] == [RollbackStepStarted, RollbackAttemptStarted]
