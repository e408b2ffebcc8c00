"""`step.do`: attempts, retries, results."""

from __future__ import annotations

import pytest

from emulator.core.effects import InvokeAttempt, RequestSlot, ResolveStep
from emulator.core.inputs import (
    AttemptRaised,
    AttemptReturned,
    EventSent,
    PauseRequested,
    Recovered,
    ResumeRequested,
    RunParked,
    TimerFired,
)
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    RetriesAbandoned,
    StepFailed,
    StepStarted,
    StepSucceeded,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
    WorkflowWaiting,
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
    abandons,
    asks_do,
    asks_sleep,
    do,
    given,
    raises,
    returns,
    running,
    sleep,
)

A = do("a")
LIFE = (WorkflowQueued(), WorkflowStarted(), WorkflowRunning())
INTERRUPTED = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")


def test_a_new_step_starts_with_its_first_attempt() -> None:
    case = running().when(asks_do("a"))
    case.then(A, StepStarted(CONFIG), AttemptStarted(1), InvokeAttempt(A, 1, CONFIG))
    case.then_armed()


def test_a_result_is_stored_and_handed_to_the_code() -> None:
    case = running().when(asks_do("a"), returns("a"))
    case.then(A, AttemptSucceeded(1), StepSucceeded(ONE), ResolveStep(A, ONE, 7))


def test_a_finished_step_is_never_invoked_again() -> None:
    done = (A, StepStarted(CONFIG), AttemptStarted(1), AttemptSucceeded(1), StepSucceeded(ONE))
    given(*LIFE, *done).when(Recovered()).and_slot().when(asks_do("a")).then(ResolveStep(A, ONE, 7))


def test_a_failed_step_fails_again_in_a_replay() -> None:
    failed = (A, StepStarted(ONCE), AttemptStarted(1), AttemptFailed(1, BOOM), StepFailed())
    case = given(*LIFE, *failed).when(Recovered()).and_slot().when(asks_do("a"))
    case.then(ResolveStep(A, BOOM, 7))


def test_no_attempt_follows_a_limit_of_zero() -> None:
    case = running().when(asks_do("a", ONCE), raises("a"))
    case.then(A, AttemptFailed(1, BOOM), StepFailed(), ResolveStep(A, BOOM, 7)).then_armed()


@pytest.mark.parametrize(
    ("backoff", "delays_ms"),
    [
        ("constant", [100, 100, 100]),
        ("linear", [100, 200, 300]),
        ("exponential", [100, 200, 400]),
    ],
)
def test_retries_follow_their_backoff_until_the_limit(backoff: str, delays_ms: list[int]) -> None:
    config = StepConfig(RetryConfig(3, 100, backoff), timeout=1_000)
    case = running().when(asks_do("a", config))
    for attempt, delay_ms in enumerate(delays_ms, start=1):
        case.when(raises("a", attempt)).then(A, AttemptFailed(attempt, BOOM, delay_ms))
        due_ms = case.now_ms + delay_ms
        case.then_armed(a=due_ms).at(due_ms).when(TimerFired(A, due_ms))
        case.then(A, AttemptStarted(attempt + 1), InvokeAttempt(A, attempt + 1, config))
        case.then_armed()
    case.when(raises("a", 4))
    case.then(A, AttemptFailed(4, BOOM), StepFailed(), ResolveStep(A, BOOM, 13))


def test_a_retry_without_delay_starts_at_once() -> None:
    case = running().when(asks_do("a", AT_ONCE), raises("a"))
    case.then(A, AttemptFailed(1, BOOM, 0), AttemptStarted(2), InvokeAttempt(A, 2, AT_ONCE))
    case.then_armed()


def test_a_timer_that_comes_twice_starts_one_retry() -> None:
    case = running().when(asks_do("a"), raises("a")).at(100).when(TimerFired(A, 100))
    assert case.invoked == [(A, 2)]
    case.when(TimerFired(A, 100)).then_nothing()


def test_an_error_may_say_when_the_next_attempt_comes_but_not_that_one_comes() -> None:
    def busy(attempt: int) -> AttemptRaised:
        return AttemptRaised(LIVE, A, attempt, BOOM, base_delay_ms=10, retry_after_ms=7)

    case = running().when(asks_do("a"), busy(1)).then(A, AttemptFailed(1, BOOM, 7))
    case.at(7).when(TimerFired(A, 7), busy(2)).then_armed(a=14)
    case.at(14).when(TimerFired(A, 14), busy(3))
    case.then(A, AttemptFailed(3, BOOM), StepFailed(), ResolveStep(A, BOOM, case.state.seq))


def test_an_error_that_forbids_retries_ends_the_step() -> None:
    case = running().when(asks_do("a"), raises("a", retryable=False))
    case.then(A, AttemptFailed(1, BOOM), StepFailed(), ResolveStep(A, BOOM, 7))


def test_backoff_applies_to_what_a_delay_function_answers() -> None:
    config = StepConfig(RetryConfig(5, "[dynamic]", "exponential"), timeout=1_000)
    case = running().when(asks_do("a", config))
    case.when(AttemptRaised(LIVE, A, 1, BOOM, base_delay_ms=10)).then(A, AttemptFailed(1, BOOM, 10))
    case.at(10).when(TimerFired(A, 10))
    case.when(AttemptRaised(LIVE, A, 2, BOOM, base_delay_ms=10)).then(A, AttemptFailed(2, BOOM, 20))


def test_a_delay_function_that_fails_ends_the_step_with_its_own_error() -> None:
    bad = Failure("NonRetryableDelayError", "threw")
    case = running().when(asks_do("a"), AttemptRaised(LIVE, A, 1, BOOM, delay_error=bad))
    case.then(A, AttemptFailed(1, BOOM), StepFailed(bad), ResolveStep(A, bad, 7))


@pytest.mark.parametrize("attempt", [0, 2])
def test_what_another_attempt_says_is_stale(attempt: int) -> None:
    case = running().when(asks_do("a"))
    case.when(returns("a", attempt)).then_nothing()
    case.when(raises("a", attempt)).then_nothing()


def test_an_attempt_speaks_once() -> None:
    case = running().when(asks_do("a"), returns("a"))
    case.when(returns("a")).then_nothing()
    case.when(raises("a")).then_nothing()


def test_a_late_result_of_an_attempt_that_has_failed_is_dropped() -> None:
    case = running().when(asks_do("a"), raises("a"))
    case.when(returns("a", 1)).then_nothing()


def test_what_a_dead_incarnation_says_is_stale() -> None:
    case = running().when(asks_do("a"))
    old = case.state.life.incarnation
    case.crash().when(Recovered()).and_slot()
    case.state.life.incarnation = old + 1
    case.when(AttemptReturned(old, A, 1, ONE)).then_nothing()


def test_a_replay_waits_for_the_rest_of_a_retry_delay() -> None:
    case = running().when(asks_do("a"), raises("a")).crash().at(40).when(Recovered()).and_slot()
    case.when(asks_do("a")).then().then_armed(a=100)
    case.at(100).when(TimerFired(A, 100)).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_a_replay_starts_a_retry_that_is_due() -> None:
    case = running().when(asks_do("a"), raises("a")).crash().at(500).when(Recovered()).and_slot()
    case.when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG)).then_armed()


def test_the_config_of_the_first_time_of_asking_holds() -> None:
    case = running().when(asks_do("a"), raises("a")).crash().at(500).when(Recovered()).and_slot()
    case.when(asks_do("a", ONCE))
    case.then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_a_due_retry_waits_for_code_that_asks_for_it() -> None:
    case = running().when(asks_do("a"), raises("a")).crash().at(40).when(Recovered()).and_slot()
    case.at(100).when(TimerFired(A, 100)).then().then_armed()
    case.when(asks_do("a")).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))


def test_nothing_retries_a_step_that_the_code_has_given_up() -> None:
    case = running().when(asks_do("a"), raises("a"), abandons(A), asks_sleep("s"))
    case.at(100).when(TimerFired(A, 100)).then().then_armed(s=1_000)


def test_the_result_of_a_step_that_the_code_has_given_up_is_stored() -> None:
    case = running().when(asks_do("a"), abandons(A), returns("a"))
    case.then(A, AttemptSucceeded(1), StepSucceeded(ONE))


def test_a_retry_without_delay_is_not_started_for_code_that_has_given_up() -> None:
    case = running().when(asks_do("a", AT_ONCE), abandons(A), raises("a"))
    case.then(A, AttemptFailed(1, BOOM, 0))


def test_parallel_steps_answer_in_the_order_of_their_ends() -> None:
    case = running().when(asks_do("a"), asks_do("b"), returns("b"))
    assert case.resolved == [do("b")]
    case.when(returns("a"))
    assert case.resolved == [A]


def test_an_attempt_that_a_dead_process_left_has_failed_once_the_step_is_asked_for() -> None:
    case = running().when(asks_do("a")).crash().when(EventSent("paid")).and_slot()
    assert case.started
    case.when(asks_do("a"))
    case.then(A, AttemptFailed(1, INTERRUPTED, 0), AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))
    case.when(Recovered()).then_nothing()


def test_the_last_attempt_that_a_dead_process_left_has_failed_the_step() -> None:
    case = running().when(asks_do("a", ONCE)).crash().when(EventSent("paid")).and_slot()
    case.when(asks_do("a"))
    case.then(A, AttemptFailed(1, INTERRUPTED), StepFailed(), ResolveStep(A, INTERRUPTED, 8))


def test_a_retry_that_was_due_before_the_clock_was_set_back_is_armed_anew() -> None:
    case = running().when(asks_do("a"), raises("a")).crash().at(90).when(Recovered()).and_slot()
    case.at(100).when(TimerFired(A, 100)).then_armed()
    case.at(60).when(asks_do("a")).then().then_armed(a=100)


def test_a_cancelled_step_is_not_tried_again() -> None:
    case = running().when(asks_do("a"), asks_sleep("s"), abandons(A)).then(A, RetriesAbandoned())
    case.when(raises("a")).then(A, AttemptFailed(1, BOOM, 100)).then_armed(s=1_000)


def test_a_step_that_is_cancelled_before_its_retry_has_no_timer() -> None:
    case = running().when(asks_do("a"), asks_sleep("s"), raises("a")).then_armed(a=100, s=1_000)
    case.when(abandons(A)).then(A, RetriesAbandoned()).then_armed(s=1_000)


def test_a_slot_for_another_reason_starts_no_retry_of_a_cancelled_step() -> None:
    case = running().when(asks_do("a"), asks_sleep("s"), raises("a"), abandons(A), RunParked(LIVE))
    case.at(1_000).when(TimerFired(sleep("s"), 1_000)).and_slot()
    assert case.resolved == [sleep("s")]
    assert case.invoked == []


def test_no_pause_gives_a_cancelled_step_its_timer_back() -> None:
    case = running().when(asks_do("a"), asks_sleep("s"), raises("a"), abandons(A))
    case.when(PauseRequested()).at(10).when(ResumeRequested()).then_armed(s=1_010)


def test_a_step_that_is_cancelled_after_its_end_stays_as_it_is() -> None:
    running().when(asks_do("a"), returns("a"), abandons(A)).then_nothing()


def test_code_at_rest_that_cancels_a_step_runs_again() -> None:
    case = running().when(asks_do("a"), raises("a"), RunParked(LIVE)).when(abandons(A))
    case.then(A, RetriesAbandoned(), RequestSlot(waking=True)).and_slot()
    case.then_status(InstanceStatus.RUNNING).then_armed()
    assert case.crash().when(Recovered()).and_slot().started


def test_a_cancelled_step_that_succeeds_has_its_result() -> None:
    case = running().when(asks_do("a"), abandons(A), returns("a"))
    case.then(A, AttemptSucceeded(1), StepSucceeded(ONE))
    case.crash().when(Recovered()).and_slot().when(asks_do("a")).then(ResolveStep(A, ONE, 8))


def test_a_cancelled_step_is_not_tried_in_a_replay_that_cancels_it_again() -> None:
    case = running().when(asks_do("a"), abandons(A), raises("a")).crash()
    case.at(500).when(Recovered()).and_slot().when(asks_do("a")).then_nothing()
    case.when(abandons(A)).then_nothing()


def test_a_cancelled_step_on_which_the_code_comes_to_rest_is_tried_again_when_it_is_due() -> None:
    case = running().when(asks_do("a"), abandons(A), raises("a")).crash()
    case.at(50).when(Recovered()).and_slot().when(asks_do("a"))
    case.when(RunParked(LIVE)).then(WorkflowWaiting()).then_armed(a=100)
    case.at(100).when(TimerFired(A, 100)).and_slot()
    assert case.invoked[-1] == (A, 2)


def test_a_cancelled_step_on_which_the_code_comes_to_rest_after_its_delay_starts_at_once() -> None:
    case = running().when(asks_do("a"), abandons(A), raises("a")).crash()
    case.at(500).when(Recovered()).and_slot().when(asks_do("a"))
    case.when(RunParked(LIVE)).then(A, AttemptStarted(2), InvokeAttempt(A, 2, CONFIG))
    case.when(raises("a", 2)).then_armed(a=600)
    case.at(600).when(TimerFired(A, 600), returns("a", 3)).then(
        A, AttemptSucceeded(3), StepSucceeded(ONE), ResolveStep(A, ONE, case.state.seq)
    )
