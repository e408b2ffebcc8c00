"""Rollback: which steps, in what order, how often, and after a crash (specification 8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.core.effects import (
    Interrupt,
    InvokeRollback,
    ResolveStep,
    StartRun,
)
from emulator.core.inputs import (
    EventSent,
    PauseRequested,
    Recovered,
    ResumeRequested,
    RollbackRaised,
    RollbackReturned,
    RunParked,
    RunRaised,
    RunReturned,
    SlotGranted,
    TerminateRequested,
    TimerFired,
    UnloadRequested,
)
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import (
    EventReceived,
    RollbackAttemptFailed,
    RollbackAttemptStarted,
    RollbackAttemptSucceeded,
    RollbackCompleted,
    RollbackFailed,
    RollbackStarted,
    RollbackStepFailed,
    RollbackStepStarted,
    RollbackStepSucceeded,
    WorkflowFailed,
    WorkflowTerminated,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from tests.unit.core.vocabulary import (
    AT_ONCE,
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
    wait,
)

A, B = do("a"), do("b")
UNDO = StepConfig(RetryConfig(1, 50), timeout=1_000)
FAIL = RunRaised(LIVE, BOOM)
END = TerminateRequested(rollback=True)
TERMINATED = Failure("Terminated", "Instance terminated during rollback")
INTERRUPTED = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")
S = InstanceStatus


def undone(name: str, attempt: int = 1) -> RollbackReturned:
    return RollbackReturned(LIVE, do(name), attempt)


def not_undone(name: str, attempt: int = 1, *, retryable: bool = True) -> RollbackRaised:
    return RollbackRaised(LIVE, do(name), attempt, BOOM, retryable)


def handled(name: str, attempt: int = 1, error: Failure = BOOM) -> InvokeRollback:
    return InvokeRollback(do(name), attempt, UNDO, error, ONE, 1, CONFIG)


def two_steps(undo: StepConfig = UNDO) -> Case:
    """`a`, `plain` and `b` are done; `a` and `b` have handlers."""
    case = running().when(asks_do("a", rollback=undo), returns("a"))
    case.when(asks_do("plain"), returns("plain"))
    return case.when(asks_do("b", rollback=undo), returns("b"))


def replay(case: Case) -> Case:
    """The code that has been started only to find its handlers asks for its steps again."""
    return case.when(asks_do("a", rollback=UNDO), asks_do("plain"), asks_do("b", rollback=UNDO))


def test_steps_are_compensated_last_first() -> None:
    case = two_steps().when(FAIL)
    case.then(
        RollbackStarted(BOOM, 2),
        B,
        RollbackStepStarted(),
        RollbackAttemptStarted(1),
        Interrupt(keep_handlers=True),
        handled("b"),
    )
    case.when(undone("b"))
    case.then(
        B,
        RollbackAttemptSucceeded(1),
        RollbackStepSucceeded(),
        A,
        RollbackStepStarted(),
        RollbackAttemptStarted(1),
        handled("a"),
    )
    case.when(undone("a"))
    case.then(
        A,
        RollbackAttemptSucceeded(1),
        RollbackStepSucceeded(),
        RollbackCompleted(2, 2),
        WorkflowFailed(BOOM),
        Interrupt(),
    )
    case.then_status(S.ERRORED)
    assert case.state.rollback
    assert case.state.rollback.outcome == "complete"


def test_the_order_of_starts_decides_not_that_of_ends() -> None:
    case = running().when(asks_do("a", rollback=UNDO), asks_do("b", rollback=UNDO))
    case.when(returns("b"), returns("a"), FAIL)
    assert case.last.effects[-1] == handled("b")


def test_a_run_without_handlers_just_fails() -> None:
    running().when(asks_do("a"), returns("a"), FAIL).then(WorkflowFailed(BOOM), Interrupt())


def test_a_run_that_returns_compensates_nothing() -> None:
    two_steps().when(RunReturned(LIVE, ONE)).then_status(S.COMPLETE)


def test_a_step_that_failed_is_compensated_without_a_result() -> None:
    case = running().when(asks_do("a", ONCE, UNDO), raises("a"), FAIL)
    assert case.last.effects[-1] == InvokeRollback(A, 1, UNDO, BOOM, None, 1, ONCE)


def test_a_step_under_way_is_interrupted_and_compensated() -> None:
    case = running().when(asks_do("a", rollback=UNDO), FAIL)
    assert case.last.effects[-1] == InvokeRollback(A, 1, UNDO, BOOM, None, 1, CONFIG)
    case.when(returns("a")).then_nothing()


def test_a_handler_is_tried_again_after_its_delay() -> None:
    case = two_steps().when(FAIL, not_undone("b"))
    case.then(B, RollbackAttemptFailed(1, BOOM, 50)).then_armed(b=50)
    case.at(50).when(TimerFired(B, 50)).then(B, RollbackAttemptStarted(2), handled("b", 2))
    case.then_armed().when(TimerFired(B, 50)).then_nothing()
    case.when(undone("b", 2))
    assert case.last.effects == [handled("a")]
    case.when(undone("a"))
    assert case.state.rollback
    assert case.state.rollback.failure is None, "in the end it succeeded"


def test_a_handlers_error_may_say_when_it_is_tried_again() -> None:
    case = two_steps().when(FAIL, RollbackRaised(LIVE, B, 1, BOOM, retry_after_ms=7))
    case.then_armed(b=7)


def test_a_handlers_timer_that_comes_early_is_set_again() -> None:
    case = two_steps().when(FAIL, not_undone("b")).at(49).when(TimerFired(B, 50))
    case.then().then_armed(b=50)


def test_the_first_handler_that_fails_for_good_ends_the_rollback() -> None:
    case = two_steps().when(FAIL, undone("b"), not_undone("a", retryable=False))
    case.then(
        A,
        RollbackAttemptFailed(1, BOOM),
        RollbackStepFailed(),
        RollbackFailed(2, 1),
        WorkflowFailed(BOOM),
        Interrupt(),
    )
    assert case.state.rollback
    assert case.state.rollback.failure == BOOM
    assert case.state.rollback.pending == [A]


def test_a_handler_is_tried_as_often_as_its_config_says() -> None:
    case = two_steps().when(FAIL, not_undone("b")).at(50).when(TimerFired(B, 50))
    case.when(not_undone("b", 2)).then_status(S.ERRORED)
    assert [type(entry.fact) for _, entry in case.last.entries[:3]] == [
        RollbackAttemptFailed,
        RollbackStepFailed,
        RollbackFailed,
    ]


def test_a_handler_without_delay_is_tried_again_at_once_however_often() -> None:
    often = StepConfig(RetryConfig(2_000, 0), timeout=1_000)
    case = two_steps(often).when(FAIL)
    for attempt in range(1, 200):
        case.when(not_undone("b", attempt))
        case.then_armed()
    assert case.state.rollback
    assert case.state.rollback.attempt == 200


def test_a_handlers_delay_function_that_fails_ends_the_rollback() -> None:
    bad = Failure("NonRetryableDelayError", "threw")
    case = two_steps().when(FAIL, RollbackRaised(LIVE, B, 1, BOOM, delay_error=bad))
    assert case.state.rollback
    assert case.state.rollback.failure == bad


def test_what_another_attempt_of_a_handler_says_is_stale() -> None:
    case = two_steps().when(FAIL)
    case.when(undone("b", 2)).then_nothing()
    case.when(undone("a", 1)).then_nothing()
    case.when(not_undone("b", 2)).then_nothing()
    case.when(undone("b"), undone("b")).then_nothing()
    two_steps().when(FAIL, not_undone("b"), undone("b")).then_nothing()
    two_steps().when(undone("b")).then_nothing()


def test_a_rollback_is_left_alone_by_what_comes_meanwhile() -> None:
    case = two_steps().when(FAIL)
    case.when(EventSent("paid")).then(EventReceived("paid"))
    case.when(TimerFired(A, 0)).then_nothing()
    case.when(TimerFired(B, 0)).then_nothing()
    case.when(SlotGranted()).then_nothing()
    case.when(undone("b"))
    assert case.last.effects == [handled("a")]


STATES: dict[InstanceStatus, Callable[[], Case]] = {
    S.RUNNING: two_steps,
    S.WAITING: lambda: two_steps().when(asks_sleep("s"), RunParked(LIVE)),
    S.WAITING_FOR_PAUSE: lambda: two_steps().when(asks_do("c"), PauseRequested()),
}


@pytest.mark.parametrize("status", STATES)
def test_terminating_live_code_with_rollback_compensates_first(status: InstanceStatus) -> None:
    case = STATES[status]().then_status(status).when(END)
    case.then(
        RollbackStarted(TERMINATED, 2, terminating=True),
        B,
        RollbackStepStarted(),
        RollbackAttemptStarted(1),
        Interrupt(keep_handlers=True),
        handled("b", error=TERMINATED),
    )
    case.when(undone("b"), undone("a"))
    assert [entry.fact for _, entry in case.last.entries[-2:]] == [
        RollbackCompleted(2, 2),
        WorkflowTerminated(),
    ]


def test_the_reason_of_a_termination_outlives_the_rollback_and_a_crash() -> None:
    case = two_steps().when(TerminateRequested(rollback=True, reason="no stock"))
    replay(case.crash().when(Recovered()))
    case.when(undone("b", attempt=2), undone("a"))
    assert case.last.entries[-1][1].fact == WorkflowTerminated("no stock")


ASLEEP: dict[InstanceStatus, Callable[[], Case]] = {
    S.QUEUED: lambda: two_steps().when(PauseRequested(), ResumeRequested()).and_no_slot(),
    S.PAUSED: lambda: two_steps().when(PauseRequested()),
    S.WAITING: lambda: two_steps().when(asks_sleep("s"), RunParked(LIVE), UnloadRequested(LIVE)),
    S.RUNNING: lambda: two_steps().crash(),
}


@pytest.mark.parametrize("status", ASLEEP)
def test_terminating_with_rollback_finds_the_handlers_by_a_replay(status: InstanceStatus) -> None:
    case = ASLEEP[status]().then_status(status).when(END)
    assert case.last.effects[-1] == StartRun(case.state.life.incarnation, registering=True)
    case.when(asks_do("a", rollback=UNDO)).then(ResolveStep(A, ONE, 7))
    replay(case)
    assert case.last.effects[-1] == handled("b", error=TERMINATED)
    case.when(undone("b"), undone("a")).then_status(S.TERMINATED)


def test_a_handler_that_fails_does_not_keep_the_instance_from_being_terminated() -> None:
    case = two_steps().when(END, not_undone("b", retryable=False)).then_status(S.TERMINATED)
    assert case.state.rollback
    assert case.state.rollback.outcome == "failed"


def test_terminating_during_a_rollback_stops_it() -> None:
    case = two_steps().when(FAIL)
    speaker = case.state.life.incarnation
    case.when(TerminateRequested()).then(WorkflowTerminated(), Interrupt())
    case.when(RollbackReturned(speaker, B, 1)).then_nothing()


def test_a_retry_of_a_handler_is_stale_after_the_end() -> None:
    case = two_steps().when(FAIL, not_undone("b"), TerminateRequested())
    case.at(50).when(TimerFired(B, 50)).then_nothing()


def test_a_replay_for_handlers_invokes_and_writes_nothing() -> None:
    case = two_steps().crash().when(END).when(asks_do("a", rollback=UNDO))
    case.when(asks_do("new")).then()
    case.when(asks_sleep("s", 0)).then()
    case.when(asks_wait("w")).then()
    case.when(abandons(wait("w"))).then()
    case.when(TimerFired(wait("w"), 0)).then_nothing()


def test_a_replay_for_handlers_does_not_note_a_cancelled_wait() -> None:
    case = two_steps().when(asks_wait("w")).crash().when(END)
    case.when(asks_wait("w")).then_nothing()
    case.when(abandons(wait("w"))).then_nothing()


@pytest.mark.parametrize(
    "end", [RunReturned(LIVE, ONE), FAIL, RunParked(LIVE)], ids=lambda end: type(end).__name__
)
def test_a_replay_for_handlers_ends_with_the_code(end: RunReturned | RunRaised | RunParked) -> None:
    case = two_steps().crash().when(END, asks_do("b", rollback=UNDO), end)
    case.then(
        B,
        RollbackStepStarted(),
        RollbackAttemptStarted(1),
        Interrupt(keep_handlers=True),
        handled("b", error=TERMINATED),
    )
    missing = Failure("RollbackMissing", "Rollback function not available in registry")
    case.when(undone("b"), RollbackRaised(LIVE, A, 1, missing, retryable=False))
    case.then_status(S.TERMINATED)


def test_the_handlers_of_an_incarnation_die_with_it() -> None:
    case = two_steps().crash().when(Recovered()).and_slot().when(asks_do("b", rollback=UNDO), END)
    assert case.started
    case.when(asks_do("a", rollback=UNDO))
    assert not any(isinstance(effect, InvokeRollback) for effect in case.last.effects)
    case.when(asks_do("b", rollback=UNDO))
    assert case.last.effects[-1] == handled("b", error=TERMINATED)


def test_a_crash_in_a_handler_is_a_failed_attempt() -> None:
    case = two_steps().when(FAIL).crash().at(7).when(Recovered())
    case.then(B, RollbackAttemptFailed(1, INTERRUPTED, 0), StartRun(1, registering=True))
    replay(case).then(
        B,
        RollbackAttemptStarted(2),
        ResolveStep(B, ONE, 15),
        Interrupt(keep_handlers=True),
        handled("b", 2),
    )


def test_a_crash_in_the_last_attempt_of_a_handler_ends_the_rollback() -> None:
    case = two_steps(ONCE).when(FAIL).crash().when(Recovered()).then_status(S.ERRORED)
    assert not case.started


def test_a_crash_between_handlers_goes_on_with_the_next_one() -> None:
    case = two_steps().when(FAIL, undone("b")).crash().when(Recovered())
    case.then(A, RollbackAttemptFailed(1, INTERRUPTED, 0), StartRun(1, registering=True))
    case.when(asks_do("a", rollback=UNDO))
    assert case.last.effects[-1] == handled("a", 2)


def test_the_handlers_of_other_steps_do_not_stand_for_one_that_is_missing() -> None:
    case = two_steps().when(FAIL, undone("b")).crash().when(Recovered())
    case.when(asks_do("b", rollback=UNDO)).then(ResolveStep(B, ONE, 15))
    case.when(asks_do("a", rollback=UNDO))
    assert case.last.effects[-1] == handled("a", 2)


def test_a_crash_during_a_retry_delay_waits_for_its_rest() -> None:
    case = two_steps().when(FAIL, not_undone("b")).crash().at(20).when(Recovered())
    case.when(TimerFired(B, 50)).then_nothing()
    replay(case).then_armed(b=50)
    case.at(50).when(TimerFired(B, 50)).then(B, RollbackAttemptStarted(2), handled("b", 2))


def test_a_retry_that_comes_due_during_the_replay_starts_after_it() -> None:
    case = two_steps().when(FAIL, not_undone("b")).crash().at(50).when(Recovered())
    case.when(TimerFired(B, 50)).then_nothing()
    assert replay(case).last.effects[-1] == handled("b", 2)


def test_a_step_under_way_when_the_process_died_gets_no_entry_in_the_rollback() -> None:
    case = running().when(asks_do("a", rollback=UNDO), asks_do("b"), FAIL)
    case.crash().when(Recovered())
    assert [entry.step for _, entry in case.last.entries] == [A]


def test_a_rollback_that_an_earlier_input_has_taken_up_is_not_recovered_again() -> None:
    case = two_steps().crash().when(END)
    replay(case)
    case.when(Recovered()).then_nothing()
    case.when(undone("b"))
    assert case.last.effects == [handled("a", error=TERMINATED)]


def test_terminating_a_new_instance_with_rollback_just_ends_it() -> None:
    given().when(END).then(WorkflowTerminated(), Interrupt())


def test_a_zero_delay_of_a_handler_does_not_arm_a_timer() -> None:
    case = two_steps(AT_ONCE).when(FAIL, not_undone("b"))
    assert [type(entry.fact) for _, entry in case.last.entries] == [
        RollbackAttemptFailed,
        RollbackAttemptStarted,
    ]
    case.then_armed()
