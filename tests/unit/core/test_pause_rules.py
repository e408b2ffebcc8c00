"""Pausing and resuming (specification 4.5, 4.6)."""

from __future__ import annotations

from emulator.core.effects import (
    ArmTimer,
    Interrupt,
    InvokeAttempt,
    RequestSlot,
    ResolveStep,
    StartRun,
)
from emulator.core.inputs import (
    PauseRequested,
    Recovered,
    ResumeRequested,
    RunParked,
    RunRaised,
    RunReturned,
    SlotGranted,
    TimerFired,
    UnloadRequested,
)
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    StepStarted,
    StepSucceeded,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowSucceeded,
    WorkflowWaitingForPause,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from tests.unit.core.vocabulary import (
    AT_ONCE,
    BOOM,
    CONFIG,
    LIVE,
    ONE,
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
    wait,
)

A, B, S, W = do("a"), do("b"), sleep("s"), wait("w")
PAUSED = InstanceStatus.PAUSED
PAUSE, RESUME = PauseRequested(), ResumeRequested()


def test_a_pause_takes_hold_at_once_when_nothing_is_in_flight() -> None:
    case = running().when(asks_sleep("s"), PAUSE)
    case.then(WorkflowWaitingForPause(), WorkflowPaused(), Interrupt()).then_armed()


def test_a_pause_waits_for_the_attempts_that_are_in_flight() -> None:
    case = running().when(asks_do("a"), asks_do("b"), PAUSE).then(WorkflowWaitingForPause())
    case.when(returns("a")).then(
        A, AttemptSucceeded(1), StepSucceeded(ONE), ResolveStep(A, ONE, 10)
    )
    case.when(returns("b"))
    case.then(B, AttemptSucceeded(1), StepSucceeded(ONE), WorkflowPaused(), Interrupt())


def test_a_pause_waits_for_an_attempt_that_the_code_has_given_up() -> None:
    case = running().when(asks_do("a"), abandons(A), PAUSE).then(WorkflowWaitingForPause())
    case.when(returns("a")).then_status(PAUSED)


def test_nothing_new_starts_while_a_pause_is_pending() -> None:
    case = running().when(asks_do("a"), PAUSE)
    case.when(asks_do("b")).then_nothing()
    case.when(asks_sleep("s", 0)).then_nothing()
    case.when(asks_wait("w")).then_nothing()


def test_a_finished_step_still_answers_while_a_pause_is_pending() -> None:
    case = running().when(asks_do("b"), returns("b")).crash().when(Recovered()).and_slot()
    case.when(asks_do("a"), PAUSE, asks_do("b")).then(ResolveStep(B, ONE, 7))


def test_a_sleep_may_end_while_a_pause_is_pending() -> None:
    """The callback that the pause waits for may wait for it; what the code asks for then has to wait itself."""
    case = running().when(asks_do("a"), asks_sleep("s", 10), PAUSE)
    case.at(10).when(TimerFired(S, 10))
    assert case.resolved == [S]
    case.when(asks_do("b")).then_nothing()
    case.when(returns("a")).then_status(InstanceStatus.PAUSED)


def test_a_retry_does_not_start_while_a_pause_is_pending() -> None:
    case = running().when(asks_do("a", AT_ONCE), PAUSE, raises("a"))
    case.then(A, AttemptFailed(1, BOOM, 0), WorkflowPaused(), Interrupt())
    case.at(500).when(RESUME).and_slot().when(asks_do("a", AT_ONCE))
    case.then(A, AttemptStarted(2), InvokeAttempt(A, 2, AT_ONCE))


def test_a_retry_that_comes_due_while_a_pause_is_pending_starts_when_it_is_cancelled() -> None:
    case = running().when(asks_do("a", AT_ONCE), asks_do("b"), PAUSE, raises("a"))
    case.then(A, AttemptFailed(1, BOOM, 0))
    case.when(RESUME).then(WorkflowRunning(), ArmTimer(A, 0))
    case.when(TimerFired(A, 0)).then(A, AttemptStarted(2), InvokeAttempt(A, 2, AT_ONCE))


def test_what_was_held_goes_on_when_the_pause_is_cancelled() -> None:
    case = running().when(asks_do("a"), PAUSE, asks_do("b"), asks_sleep("s", 10))
    case.when(RESUME)
    assert [type(entry.fact) for _, entry in case.last.entries][:3] == [
        WorkflowRunning,
        StepStarted,
        AttemptStarted,
    ]
    assert case.invoked == [(B, 1)]
    case.then_armed(s=10)


def test_what_was_held_and_given_up_does_not_start_when_the_pause_is_cancelled() -> None:
    case = running().when(asks_do("a"), PAUSE, asks_do("b"), abandons(B))
    case.when(RESUME).then(WorkflowRunning())


def test_what_was_held_is_asked_for_again_after_the_pause() -> None:
    case = running().when(asks_do("a"), PAUSE, asks_do("b"), returns("a")).then_status(PAUSED)
    case.when(RESUME).and_slot()
    assert case.invoked == []
    case.when(asks_do("b"))
    assert case.invoked == [(B, 1)]


def test_a_run_may_end_while_a_pause_is_pending() -> None:
    case = running().when(asks_do("a"), PAUSE, RunReturned(LIVE, ONE))
    case.then(WorkflowSucceeded(ONE), Interrupt())
    case = running().when(asks_do("a", rollback=CONFIG), PAUSE, RunRaised(LIVE, BOOM))
    case.then_status(InstanceStatus.ROLLING_BACK)


def test_a_queued_instance_pauses_and_does_not_start_when_its_turn_comes() -> None:
    case = given().when(PAUSE).then(WorkflowPaused())
    case.when(SlotGranted()).then_nothing()
    case.when(RESUME).then(WorkflowQueued(), RequestSlot(waking=True))


def test_a_queued_instance_with_deadlines_pauses_without_them() -> None:
    case = running().when(asks_sleep("s", 100), PAUSE).at(10).when(RESUME).and_no_slot()
    case.then_armed(s=110).at(20).when(PAUSE).then_armed()
    case.at(50).when(RESUME).then_armed(s=140)


def test_resuming_asks_for_a_slot_before_new_instances() -> None:
    case = running().when(PAUSE).at(7).when(RESUME)
    case.then(WorkflowQueued(shift_ms=7), RequestSlot(waking=True))
    case.when(SlotGranted()).then(WorkflowRunning(), StartRun(3))


def test_a_pause_moves_every_deadline() -> None:
    case = running().when(asks_sleep("s", 100), asks_wait("w", timeout_ms=200), asks_do("a"))
    case.when(raises("a")).then_armed(s=100, w=200, a=100)
    case.at(50).when(PAUSE).then_armed().at(1_050).when(RESUME).then_armed(
        s=1_100, w=1_200, a=1_100
    )


def test_two_pauses_move_a_deadline_twice() -> None:
    case = running().when(asks_sleep("s", 100)).at(10).when(PAUSE).at(20).when(RESUME).and_slot()
    case.at(30).when(PAUSE).at(50).when(RESUME).then_armed(s=130)


def test_a_deadline_of_before_the_pause_is_stale() -> None:
    case = running().when(asks_sleep("s", 100)).at(50).when(PAUSE)
    case.at(100).when(TimerFired(S, 100)).then_nothing()
    case.at(150).when(RESUME).and_slot().when(TimerFired(S, 100)).then(ArmTimer(S, 200))


def test_a_waiting_instance_pauses_at_once() -> None:
    case = running().when(asks_sleep("s"), RunParked(LIVE), PAUSE)
    case.then(WorkflowWaitingForPause(), WorkflowPaused(), Interrupt())


def test_an_instance_that_is_not_in_memory_pauses_and_resumes() -> None:
    case = running().when(asks_sleep("s", 100), RunParked(LIVE), UnloadRequested(LIVE)).crash()
    case.at(10).when(PAUSE).then_status(PAUSED).crash()
    case.at(60).when(RESUME).then_armed(s=150)


def test_a_process_that_died_before_the_pause_took_hold_leaves_a_paused_instance() -> None:
    case = running().when(asks_do("a"), PAUSE).crash().at(30).when(Recovered())
    error = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")
    case.then(A, AttemptFailed(1, error, 0), WorkflowPaused(), Interrupt()).then_armed()
    case.at(90).when(RESUME).then_armed(a=90).and_slot().when(asks_do("a"))
    assert case.invoked == [(A, 2)]


def test_a_pause_before_an_instance_is_taken_up_again_leaves_the_attempt_to_the_resume() -> None:
    case = running().when(asks_do("a")).crash().when(PAUSE).then_status(PAUSED)
    case.crash().when(Recovered()).then_nothing()
    case.when(RESUME).and_slot().when(asks_do("a"))
    assert case.invoked == [(A, 2)]
