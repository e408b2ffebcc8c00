"""What a test has arranged for an instance: the rules obey, and the journal reads like any other."""

from __future__ import annotations

import msgspec
import pytest

from emulator.core.effects import InvokeAttempt, ResolveStep
from emulator.core.inputs import CreateRequested, EventSent, RestartRequested, RunReturned
from emulator.core.modifiers import TIMED_OUT, Modifiers, ModifiersChanged
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    EventReceived,
    SleepCompleted,
    SleepStarted,
    StepStarted,
    WaitStarted,
    WaitTimedOut,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
)
from emulator.domain.failure import Failure
from emulator.errors import InvalidInput
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    NULL,
    ONE,
    Case,
    asks_do,
    asks_sleep,
    asks_sleep_until,
    asks_wait,
    do,
    given,
    raises,
    running,
    sleep,
    wait,
)

D, S, W = do("d"), sleep("s"), wait("w")
NOTHING = Modifiers()
PAID = NOTHING.with_event("paid", ONE)
MONTH_MS = 30 * 86_400_000


def modified(modifiers: Modifiers) -> Case:
    """An instance that runs, for which this is arranged."""
    return running().when(ModifiersChanged(modifiers))


@pytest.mark.parametrize(
    "modifiers", [NOTHING.with_skipped_sleeps(None), NOTHING.with_skipped_sleeps(frozenset({S}))]
)
def test_a_skipped_sleep_is_over_at_once_and_keeps_its_end_in_the_journal(
    modifiers: Modifiers,
) -> None:
    case = modified(modifiers).when(asks_sleep("s", MONTH_MS))
    case.then(S, SleepStarted(MONTH_MS, MONTH_MS), SleepCompleted(), ResolveStep(S, None, 5))
    case.then_armed()


def test_a_sleep_until_an_instant_is_skipped_too() -> None:
    case = modified(NOTHING.with_skipped_sleeps(None)).when(asks_sleep_until("s", 700))
    case.then(S, SleepStarted(700, 700, until=True), SleepCompleted(), ResolveStep(S, None, 5))


def test_a_sleep_that_is_not_listed_takes_its_time() -> None:
    modified(NOTHING.with_skipped_sleeps(frozenset({S}))).when(asks_sleep("t", 9)).then_armed(t=9)


def test_listing_steps_does_not_take_back_that_all_are_meant() -> None:
    assert NOTHING.with_skipped_sleeps(None).with_skipped_sleeps(frozenset({S})).skips_sleep(W)


def test_a_skipped_delay_lets_the_retry_follow_at_once_and_stays_in_the_journal() -> None:
    case = modified(NOTHING.with_skipped_delays(None)).when(asks_do("d"), raises("d"))
    case.then(D, AttemptFailed(1, BOOM, 100), AttemptStarted(2), InvokeAttempt(D, 2, CONFIG))
    case.then_armed()


def test_a_delay_of_a_step_that_is_not_listed_is_waited_for() -> None:
    case = modified(NOTHING.with_skipped_delays(frozenset({do("e")})))
    case.when(asks_do("d"), raises("d")).then(D, AttemptFailed(1, BOOM, 100)).then_armed(d=100)
    case.when(asks_do("e"), raises("e"))
    assert case.invoked == [(do("e"), 2)]


def test_a_mocked_result_comes_with_the_attempt() -> None:
    case = modified(NOTHING.with_result(D, NULL)).when(asks_do("d"))
    case.then(D, StepStarted(CONFIG), AttemptStarted(1), InvokeAttempt(D, 1, CONFIG, NULL))


def test_failures_are_for_the_attempts_from_the_first_on_and_add_up() -> None:
    modifiers = NOTHING.with_error(D, BOOM, 1).with_timeout(D, 2)
    outcomes = [modifiers.verdict(D, attempt) for attempt in (1, 2, 3, 4)]
    assert outcomes == [BOOM, TIMED_OUT, TIMED_OUT, None]


def test_a_failure_without_a_number_is_for_every_attempt() -> None:
    modifiers = NOTHING.with_error(D, BOOM, None)
    assert [modifiers.verdict(D, attempt) for attempt in (1, 1000)] == [BOOM, BOOM]


def test_a_failure_wins_over_a_result() -> None:
    modifiers = NOTHING.with_error(D, BOOM, 1).with_result(D, ONE)
    assert [modifiers.verdict(D, attempt) for attempt in (1, 2)] == [BOOM, ONE]


@pytest.mark.parametrize("result", [b"null", b"0", b'""', b"false", b"[]"])
def test_a_falsy_result_is_mocked_like_any_other(result: bytes) -> None:
    modifiers = NOTHING.with_result(D, msgspec.Raw(result))
    assert modifiers.verdict(D, 1) == msgspec.Raw(result)


def test_a_step_has_one_mocked_result_and_no_failure_after_it() -> None:
    mocked = NOTHING.with_result(D, ONE)
    with pytest.raises(InvalidInput, match="Trying to mock step 'd' multiple times!"):
        mocked.with_result(D, NULL)
    with pytest.raises(InvalidInput, match="to mock error on step 'd' after mocking its result!"):
        mocked.with_error(D, BOOM, None)
    with pytest.raises(InvalidInput, match="force timeout on step 'd' after mocking its result!"):
        mocked.with_timeout(D, 1)


def test_a_wait_that_is_forced_to_time_out_takes_no_event() -> None:
    case = modified(NOTHING.with_event_timeout(W)).when(EventSent("paid", ONE), asks_wait("w"))
    late = Failure("WorkflowTimeoutError", "Execution timed out after 1000ms")
    case.then(W, WaitStarted("paid", 1_000, 1_000), WaitTimedOut(late), ResolveStep(W, late, 6))


def test_a_mocked_event_is_there_from_the_beginning() -> None:
    case = given()
    case.state.modifiers = PAID
    facts = [entry.fact for _, entry in case.when(CreateRequested()).last.entries]
    assert facts == [WorkflowQueued(), EventReceived("paid", ONE, "mocked event 1")]


def test_a_mocked_event_is_there_once_however_often_something_is_arranged() -> None:
    case = modified(PAID).when(ModifiersChanged(PAID.with_skipped_sleeps(None)))
    case.then_nothing()


def test_a_restart_keeps_what_is_arranged_and_brings_mocked_events_back() -> None:
    case = modified(PAID.with_skipped_sleeps(None)).when(asks_wait("w"))
    assert case.resolved == [W]
    case.when(RestartRequested())
    facts = [entry.fact for _, entry in case.last.entries]
    assert facts == [WorkflowQueued(), EventReceived("paid", ONE, "mocked event 1")]
    case.and_slot().when(asks_wait("w"), asks_sleep("s", MONTH_MS))
    assert case.resolved == [S]


def test_a_restart_from_a_later_step_does_not_bring_back_an_event_that_was_taken() -> None:
    case = modified(PAID).when(asks_wait("w"), asks_sleep("s", 5))
    case.when(RestartRequested(S))
    assert [entry.fact for _, entry in case.last.entries] == [WorkflowQueued()]


def test_nothing_of_it_is_in_the_journal() -> None:
    case = modified(PAID.with_skipped_sleeps(None)).when(asks_do("d"))
    assert case.crash().state.modifiers is None


def test_the_steps_that_are_named_are_known() -> None:
    modifiers = NOTHING.with_result(D, ONE).with_error(do("e"), BOOM, 1).with_event_timeout(W)
    modifiers = modifiers.with_skipped_delays(frozenset({do("f")}))
    named = modifiers.with_skipped_sleeps(frozenset({S})).named_steps()
    assert named == [D, do("e"), W, S, do("f")]
    assert NOTHING.with_skipped_sleeps(None).with_event("paid", None).named_steps() == []


def test_an_instance_that_is_not_modified_starts_as_ever() -> None:
    case = given().when(CreateRequested()).and_slot()
    case.then(WorkflowStarted(), WorkflowRunning(), *case.last.effects)
    assert case.state.modifiers is None


def test_events_that_are_arranged_after_the_end_come_with_a_restart() -> None:
    case = running().when(RunReturned(LIVE, ONE))
    case.when(ModifiersChanged(PAID)).then_nothing()
    case.when(RestartRequested()).and_slot().when(asks_wait("w"))
    assert case.resolved == [W]
