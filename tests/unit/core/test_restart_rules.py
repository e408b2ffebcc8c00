"""Restarting: the whole run, or from a step on (specification 4.7, 4.8)."""

from __future__ import annotations

import pytest

from emulator.core.effects import Interrupt, RequestSlot, StartRun
from emulator.core.inputs import (
    AttributesRequested,
    DoRequested,
    EventSent,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    RunParked,
    RunRaised,
    RunReturned,
    TerminateRequested,
    TimerFired,
)
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    SleepStarted,
    StepFailed,
    StepStarted,
    StepSucceeded,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.errors import StepNotFound
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    ONCE,
    ONE,
    Case,
    asks_do,
    asks_sleep,
    asks_sleep_until,
    asks_wait,
    do,
    raises,
    returns,
    running,
    sleep,
    wait,
)

A, B, C = do("a"), do("b"), do("c")
DONE = (StepStarted(CONFIG), AttemptStarted(1), AttemptSucceeded(1), StepSucceeded(ONE))


def finished() -> Case:
    """Three steps, one after the other, and the end."""
    case = running()
    for name in "abc":
        case.when(asks_do(name), returns(name))
    return case.when(RunReturned(LIVE, ONE))


def test_a_restart_leaves_nothing_of_the_old_run() -> None:
    case = finished().at(50).when(RestartRequested())
    case.then(WorkflowQueued(), Interrupt(), RequestSlot(waking=False))
    assert list(case.stored.entries) == [1]
    assert case.state.output is case.state.started_ms is case.state.ended_ms is None
    case.and_slot().then(WorkflowStarted(), WorkflowRunning(), StartRun(4))


def test_a_restart_from_a_step_keeps_the_steps_before_it() -> None:
    case = finished().when(RestartRequested(B))
    assert list(case.state.steps) == [A]
    facts = [entry.fact for _, entry in sorted(case.stored.entries.items())]
    assert facts == [WorkflowQueued(), WorkflowStarted(), *DONE, WorkflowQueued()]
    assert max(case.stored.entries) == 17, "numbers go on"
    case.and_slot().then(WorkflowRunning(), StartRun(4))
    case.when(asks_do("a"))
    assert case.resolved == [A]
    case.when(asks_do("b"))
    assert case.invoked == [(B, 1)]


def test_a_restart_from_the_first_step_keeps_none() -> None:
    assert finished().when(RestartRequested(A)).state.steps == {}


@pytest.mark.parametrize("step", [do("a", 2), do("zzz"), sleep("a"), wait("a"), do("a", 0)])
def test_a_restart_from_a_step_that_is_not_there_changes_nothing(step: StepKey) -> None:
    case = finished().when(RestartRequested(step)).then_refused(StepNotFound)
    case.then_status(InstanceStatus.COMPLETE)


def hint_of(case: Case) -> str:
    """What is told to somebody who restarts from a step "b" that is not there."""
    case.when(RestartRequested(B)).then_refused(StepNotFound)
    assert case.last.refusal is not None
    return case.last.refusal.hint


def test_who_names_no_step_is_told_which_there_are_those_of_that_name_first() -> None:
    twice = do("a", 2)
    case = running().when(asks_do("a"), returns("a"), DoRequested(LIVE, twice, CONFIG, None))
    case.when(asks_sleep("b", 10), asks_wait("b"))
    assert hint_of(case) == (
        'It has these steps: "b" (sleep), "b" (waitForEvent), "a" (do, 2 times). '
        "The type is do unless another is given."
    )


def test_who_names_no_step_is_told_of_twenty_at_most() -> None:
    case = running()
    for number in range(20):
        case.when(asks_do(f"a{number}"), returns(f"a{number}"))
    assert "more" not in hint_of(case)
    for number in range(20, 23):
        case.when(asks_do(f"a{number}"), returns(f"a{number}"))
    told = hint_of(case)
    assert '"a19" (do), 3 more. ' in told
    assert "a20" not in told


def test_where_there_are_no_steps_that_is_told() -> None:
    assert hint_of(running()).startswith("It has these steps: none. ")


def test_the_order_of_starts_decides_what_a_restart_keeps() -> None:
    case = running().when(asks_do("a"), asks_do("b"), asks_do("c"))
    case.when(returns("c"), returns("b"), returns("a"))
    assert list(case.when(RestartRequested(B)).state.steps) == [A]


def test_a_restart_works_from_a_sleep_and_from_a_wait() -> None:
    case = running().when(asks_sleep("s", 0), asks_wait("w"), asks_do("a"))
    case.when(RestartRequested(wait("w")))
    assert list(case.state.steps) == [sleep("s")]
    case.when(RestartRequested(sleep("s")))
    assert case.state.steps == {}


def test_a_step_that_a_restart_keeps_goes_on_where_it_was() -> None:
    case = running().when(asks_sleep("s", 100), asks_do("r"), raises("r"), asks_do("a"))
    case.then_armed(s=100, r=100).at(10).when(RestartRequested(A)).then_armed(s=100, r=100)


def test_a_kept_deadline_keeps_what_earlier_pauses_moved() -> None:
    case = running().when(asks_sleep("s", 100), asks_sleep_until("u", 100))
    case.at(10).when(PauseRequested()).at(60).when(ResumeRequested()).and_slot()
    case.when(asks_do("a")).then_armed(s=150, u=100)
    case.when(RestartRequested(A)).then_armed(s=150, u=100)
    facts = [entry.fact for entry in case.stored.entries.values()]
    assert WorkflowQueued(shift_ms=50) in facts
    case.crash()
    assert case.state.open[sleep("s")].due_ms == 150


def test_a_restart_of_a_paused_instance_moves_nothing() -> None:
    case = running().when(asks_sleep("s", 100), asks_do("a"), returns("a"), PauseRequested())
    case.at(50).when(RestartRequested(A)).then_armed(s=100).then_status(InstanceStatus.QUEUED)


def test_a_restart_fails_the_attempts_that_it_interrupts() -> None:
    error = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")
    case = running().when(asks_do("a"), asks_do("b", ONCE), asks_do("c"))
    case.at(30).when(RestartRequested(C))
    case.then(
        A,
        AttemptFailed(1, error, 0),
        B,
        AttemptFailed(1, error),
        StepFailed(),
        WorkflowQueued(),
        Interrupt(),
        RequestSlot(waking=False),
    )
    case.and_slot().when(returns("a")).then_nothing()
    case.when(asks_do("a"))
    assert case.invoked == [(A, 2)]


def test_a_restart_drops_events_and_keeps_those_that_were_taken() -> None:
    case = running().when(asks_wait("w"), EventSent("paid", ONE), EventSent("paid"), asks_do("a"))
    case.when(RestartRequested(A))
    assert not case.state.mailbox
    case.and_slot().when(asks_wait("w"))
    assert case.resolved == [wait("w")]


def test_a_restart_ends_a_rollback() -> None:
    case = running().when(asks_do("a", rollback=CONFIG), returns("a"), asks_do("b"))
    case.when(RunRaised(LIVE, BOOM)).when(RestartRequested(B))
    assert case.state.rollback is None
    case.then_status(InstanceStatus.QUEUED)


def test_a_restart_of_a_finished_rollback_forgets_it() -> None:
    case = running().when(asks_do("a"), returns("a"), TerminateRequested(), RestartRequested(A))
    assert case.state.error is case.state.rollback is None


def test_a_deadline_of_the_old_run_is_stale() -> None:
    case = running().when(asks_sleep("s", 100), RunParked(LIVE), RestartRequested()).and_slot()
    case.at(100).when(TimerFired(sleep("s"), 100)).then_nothing()
    case.when(asks_sleep("s", 100)).then(sleep("s"), SleepStarted(100, 200)).then_armed(s=200)


@pytest.mark.parametrize("step", [None, B])
def test_a_restarted_instance_is_found_by_the_same_attributes(step: StepKey | None) -> None:
    case = finished_with_attributes().when(RestartRequested(step))
    assert case.state.attributes == {"who": "me"}
    assert case.crash().state.attributes == {"who": "me"}


def finished_with_attributes() -> Case:
    case = running().when(AttributesRequested({"who": "me", "what": "this"}))
    case.when(AttributesRequested({"what": None}))
    return case.when(asks_do("a"), returns("a"), asks_do("b"), returns("b"), RunReturned(LIVE, ONE))
