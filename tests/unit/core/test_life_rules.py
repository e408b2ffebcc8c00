"""From creation to the end: slots, parking, unloading, recovery, and what a run leaves behind."""

from __future__ import annotations

import pytest

from emulator.core.effects import (
    ArmTimer,
    Interrupt,
    InvokeAttempt,
    RequestSlot,
    ResolveStep,
    StartRun,
)
from emulator.core.inputs import (
    CreateRequested,
    EventSent,
    PauseRequested,
    Recovered,
    ResumeRequested,
    RollbackRaised,
    RunParked,
    RunRaised,
    RunReturned,
    ShutdownRequested,
    SlotGranted,
    SlotRefused,
    TerminateRequested,
    TimerFired,
    UnloadRequested,
)
from emulator.domain.entries import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptStarted,
    RollbackAttemptInterrupted,
    SleepCompleted,
    StepFailed,
    StepStarted,
    WorkflowFailed,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
    WorkflowSucceeded,
    WorkflowWaiting,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    ONCE,
    ONE,
    Case,
    abandons,
    asks_do,
    asks_sleep,
    asks_wait,
    do,
    given,
    raises,
    returns,
    running,
    sleep,
)

A, S = do("a"), sleep("s")
STATUS = InstanceStatus
PARKED, UNLOAD = RunParked(LIVE), UnloadRequested(LIVE)
INTERRUPTED = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")


def asleep() -> Case:
    """It sleeps until 100, and nothing of it is in memory."""
    return running().when(asks_sleep("s", 100), PARKED, UNLOAD).crash()


# birth and end


def test_an_instance_begins_in_the_queue_and_runs_when_it_has_a_slot() -> None:
    case = given().when(CreateRequested()).then(WorkflowQueued(), RequestSlot(waking=False))
    case.at(3).when(SlotGranted()).then(WorkflowStarted(), WorkflowRunning(), StartRun(1))
    assert case.state.started_ms == 3


def test_an_instance_without_a_slot_stays_in_the_queue() -> None:
    given().when(CreateRequested()).and_no_slot().then_nothing().then_status(STATUS.QUEUED)


def test_a_run_that_returns_completes_the_instance() -> None:
    case = running().at(9).when(RunReturned(LIVE, ONE))
    case.then(WorkflowSucceeded(ONE), Interrupt()).then_status(STATUS.COMPLETE)
    assert case.state.output == ONE
    assert case.state.ended_ms == 9


def test_a_run_that_raises_fails_the_instance() -> None:
    case = running().when(RunRaised(LIVE, BOOM)).then(WorkflowFailed(BOOM), Interrupt())
    assert case.state.error == BOOM


def test_the_end_of_a_run_drops_what_it_left_behind() -> None:
    case = running().when(asks_do("a"), asks_sleep("s"), asks_wait("w"), RunReturned(LIVE, ONE))
    case.then(WorkflowSucceeded(ONE), Interrupt()).then_armed()
    case.when(returns("a")).then_nothing()
    case.at(1_000).when(TimerFired(S, 1_000)).then_nothing()


def test_a_run_may_end_although_its_instance_was_seen_waiting() -> None:
    case = running().when(asks_sleep("s"), PARKED).then_status(STATUS.WAITING)
    case.when(RunReturned(LIVE, ONE)).then_status(STATUS.COMPLETE)


# parking and unloading


def test_code_that_sleeps_and_waits_is_waiting() -> None:
    case = running().when(asks_sleep("s"), asks_wait("w"), PARKED)
    case.then(WorkflowWaiting()).when(PARKED).then_nothing()


def test_code_that_is_to_try_again_is_waiting() -> None:
    case = running().when(asks_sleep("s"), asks_do("a"), raises("a"), PARKED)
    case.then(WorkflowWaiting()).then_status(STATUS.WAITING)


def test_a_retry_that_is_due_needs_a_slot() -> None:
    case = running().when(asks_do("a"), raises("a"), PARKED)
    case.at(100).when(TimerFired(A, 100)).then(RequestSlot(waking=True)).then_armed()
    case.when(SlotGranted())
    case.then(WorkflowRunning(), A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_a_retry_that_is_due_and_gets_no_slot_starts_with_the_code() -> None:
    case = running().when(asks_do("a"), raises("a"), PARKED).at(100).when(TimerFired(A, 100))
    case.and_no_slot().then(WorkflowQueued(), Interrupt())
    case.when(SlotGranted()).then(WorkflowRunning(), StartRun(3))
    case.when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_a_slot_for_another_reason_starts_no_retry_before_its_time() -> None:
    case = running().when(asks_do("a"), raises("a"), asks_sleep("s", 50), PARKED)
    case.at(50).when(TimerFired(S, 50)).and_slot().then(WorkflowRunning(), ResolveStep(S, None, 9))


def test_a_step_that_was_given_up_does_not_keep_an_instance_running() -> None:
    case = running().when(asks_do("a"), raises("a"), abandons(A), asks_sleep("s"), PARKED)
    case.then(WorkflowWaiting())
    case.at(100).when(TimerFired(A, 100)).then().then_armed(s=1_000)


def test_code_with_an_attempt_in_flight_is_not_parked() -> None:
    case = running().when(asks_sleep("s"), asks_do("a"))
    case.when(PARKED).then_nothing()
    case.when(UNLOAD).then_nothing()


def test_code_that_has_asked_for_nothing_is_not_parked() -> None:
    running().when(PARKED).then_nothing().when(UNLOAD).then_nothing()


@pytest.mark.parametrize("retrying", [True, False])
def test_parked_code_can_leave_memory(*, retrying: bool) -> None:
    case = running().when(asks_sleep("s"))
    if retrying:
        case.when(asks_do("a"), raises("a"))
    case.when(PARKED, UNLOAD).then(Interrupt())
    assert S.name in {step.name for step in case.stored.timers}


def test_code_that_has_only_just_come_to_rest_is_not_unloaded() -> None:
    case = running().when(asks_sleep("s"), UNLOAD).then_nothing()
    case.when(PARKED).then(WorkflowWaiting()).then_status(STATUS.WAITING)


def test_code_that_pauses_or_compensates_is_not_unloaded() -> None:
    case = running().when(asks_do("a"), PauseRequested())
    case.when(UNLOAD).then_nothing()


def test_a_deadline_wakes_an_instance_that_has_left_memory() -> None:
    case = asleep().at(100).when(TimerFired(S, 100))
    case.then(S, SleepCompleted(), RequestSlot(waking=True)).then_armed()
    case.and_slot().then(WorkflowRunning(), StartRun(1))
    case.when(asks_sleep("s", 100)).then(ResolveStep(S, None, 6))


def test_a_retry_starts_the_code_that_has_left_memory() -> None:
    case = running().when(asks_do("a"), raises("a"), PARKED, UNLOAD).crash()
    case.at(100).when(TimerFired(A, 100)).then(RequestSlot(waking=True)).then_armed()
    case.and_slot().then(WorkflowRunning(), StartRun(1))
    case.when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_a_deadline_wakes_code_that_is_still_in_memory() -> None:
    case = running().when(asks_sleep("s", 100), asks_wait("w"), PARKED)
    case.at(100).when(TimerFired(S, 100)).then(S, SleepCompleted(), RequestSlot(waking=True))
    case.and_slot().then(WorkflowRunning(), ResolveStep(S, None, 7))


# slots


def test_an_instance_that_wakes_without_a_free_slot_is_queued() -> None:
    case = running().when(asks_sleep("s", 100), PARKED).at(100).when(TimerFired(S, 100))
    case.and_no_slot().then(WorkflowQueued(), Interrupt()).then_status(STATUS.QUEUED)
    case.when(SlotGranted()).then(WorkflowRunning(), StartRun(3))


def test_waiting_code_that_asks_for_more_needs_a_slot() -> None:
    case = running().when(asks_sleep("s"), PARKED)
    case.when(asks_do("a")).then(RequestSlot(waking=True))
    case.when(SlotGranted())
    case.then(
        WorkflowRunning(), A, StepStarted(CONFIG), AttemptStarted(1), InvokeAttempt(A, 1, CONFIG)
    )


def test_waiting_code_that_asks_for_more_starts_again_when_no_slot_is_free() -> None:
    case = running().when(asks_sleep("s"), PARKED, asks_do("a")).and_no_slot()
    case.then(WorkflowQueued(), Interrupt()).when(SlotGranted()).then(
        WorkflowRunning(), StartRun(3)
    )
    assert A not in case.state.steps


def test_waiting_code_that_asks_for_what_has_ended_needs_a_slot_too() -> None:
    case = running().when(asks_do("a"), returns("a")).crash().when(Recovered()).and_slot()
    case.when(asks_sleep("s"), PARKED, asks_do("a")).then(RequestSlot(waking=True))
    case.when(SlotGranted()).then(WorkflowRunning(), ResolveStep(A, ONE, 7))


@pytest.mark.parametrize(
    "case",
    [
        given().when(PauseRequested()),
        given().when(TerminateRequested()),
        running().when(asks_do("a"), PauseRequested()),
        running().when(RunReturned(LIVE, ONE)),
        running().when(asks_do("a", rollback=CONFIG), RunRaised(LIVE, BOOM)),
    ],
    ids=lambda case: str(case.state.status),
)
def test_a_slot_changes_nothing_for_whoever_has_left_the_queue(case: Case) -> None:
    case.when(SlotGranted()).then_nothing()
    case.when(SlotRefused()).then_nothing()


def test_a_slot_for_code_that_runs_changes_nothing() -> None:
    running().when(asks_do("a"), asks_sleep("s"), SlotGranted()).then_nothing()


# recovery


def test_a_running_instance_is_taken_up_again() -> None:
    case = running().when(asks_do("a"), returns("a")).crash().when(Recovered())
    case.then(RequestSlot(waking=True)).and_slot().then(StartRun(1))


def test_a_running_instance_is_queued_when_no_slot_is_free() -> None:
    case = running().when(asks_sleep("s")).crash().when(Recovered()).and_no_slot()
    case.then(WorkflowQueued(), Interrupt()).then_armed(s=1_000)


def test_a_queued_instance_keeps_its_place_among_new_ones() -> None:
    case = given().when(CreateRequested()).crash().when(Recovered())
    case.then(RequestSlot(waking=False))


def test_an_interrupted_attempt_has_failed_and_the_next_is_due() -> None:
    case = running().when(asks_do("a")).crash().at(7).when(Recovered())
    case.then(A, AttemptFailed(1, INTERRUPTED, 0), RequestSlot(waking=True)).then_armed(a=7)
    case.and_slot().when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))
    case.then_armed()


def test_an_interrupted_last_attempt_has_failed_the_step() -> None:
    case = running().when(asks_do("a", ONCE)).crash().when(Recovered())
    case.then(A, AttemptFailed(1, INTERRUPTED), StepFailed(), RequestSlot(waking=True))
    case.and_slot().when(asks_do("a", ONCE)).then(ResolveStep(A, INTERRUPTED, 7))


@pytest.mark.parametrize(
    "case",
    [
        running().when(PauseRequested()).crash(),
        running().when(asks_do("a"), RunReturned(LIVE, ONE)).crash(),
        running().when(asks_do("a"), RunRaised(LIVE, BOOM)).crash(),
        running().when(asks_do("a"), TerminateRequested()).crash(),
    ],
    ids=lambda case: str(case.state.status),
)
def test_nothing_is_to_be_taken_up_of_what_rests(case: Case) -> None:
    case.when(Recovered()).then_nothing()


def test_one_that_waits_and_is_taken_up_all_the_same_asks_for_a_slot() -> None:
    asleep().when(Recovered()).then(RequestSlot(waking=True))


def test_an_instance_that_an_event_has_started_is_not_taken_up_twice() -> None:
    case = running().when(asks_wait("w")).crash().when(EventSent("other")).and_slot()
    assert case.started
    case.when(asks_do("a"), Recovered()).then_nothing()
    case.when(returns("a"))
    assert case.resolved == [A]


def test_a_pause_that_was_cancelled_before_the_instance_was_taken_up_leaves_it_running() -> None:
    case = running().when(asks_do("a"), PauseRequested()).crash()
    case.when(ResumeRequested()).then(WorkflowRunning())
    case.when(Recovered()).and_slot().then(StartRun(1))


def test_a_deadline_that_passed_while_nothing_ran_is_met_at_once() -> None:
    case = asleep().at(5_000).when(TimerFired(S, 100)).and_slot().when(asks_sleep("s", 100))
    assert case.resolved == [S]
    assert not any(isinstance(effect, ArmTimer) for effect in case.last.effects)


def test_an_instance_is_modified_when_its_status_changes() -> None:
    case = running().at(5).when(asks_sleep("s"))
    assert case.state.modified_ms == 0
    assert case.at(7).when(PARKED).crash().state.modified_ms == 7


# stopping in good order


def test_a_stop_in_good_order_takes_an_attempt_back() -> None:
    case = (
        running().when(asks_do("a"), ShutdownRequested()).then(A, AttemptInterrupted(), Interrupt())
    )
    case = case.crash().when(Recovered()).then(RequestSlot(waking=True)).and_slot()
    case.when(asks_do("a")).then(A, AttemptStarted(1), InvokeAttempt(A, 1, CONFIG))


def test_a_stop_in_good_order_takes_back_no_attempt_that_had_ended() -> None:
    case = running().when(asks_do("a"), raises("a"), asks_sleep("s"))
    case.when(ShutdownRequested()).then(Interrupt())


def test_a_stop_in_good_order_changes_no_status() -> None:
    running().when(asks_sleep("s"), PARKED, ShutdownRequested()).then_status(STATUS.WAITING)
    running().when(asks_do("a"), PauseRequested(), ShutdownRequested()).then_status(
        STATUS.WAITING_FOR_PAUSE
    )


def test_a_stop_in_good_order_takes_a_handler_s_attempt_back() -> None:
    undone = asks_do("a", rollback=CONFIG)
    case = running().when(undone, returns("a"), RunRaised(LIVE, BOOM), ShutdownRequested())
    case.then(A, RollbackAttemptInterrupted(), Interrupt())
    case = case.crash().when(Recovered()).then(StartRun(1, registering=True))
    case.when(asks_do("a", rollback=CONFIG)).then_status(STATUS.ROLLING_BACK)
    rollback = case.state.rollback
    assert rollback is not None
    assert (rollback.attempt, rollback.in_flight) == (1, True)


def test_a_stop_in_good_order_takes_nothing_back_between_a_handler_s_attempts() -> None:
    case = running().when(asks_do("a", rollback=CONFIG), returns("a"), RunRaised(LIVE, BOOM))
    case.when(RollbackRaised(LIVE, A, 1, BOOM)).then_armed(a=100)
    case.when(ShutdownRequested()).then(Interrupt())


def test_a_stop_in_good_order_changes_nothing_after_the_end() -> None:
    running().when(asks_do("a"), RunReturned(LIVE, ONE), ShutdownRequested()).then_nothing()
