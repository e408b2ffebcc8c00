"""Waits for payloads: what ends them, and coming back to one that was cancelled, whose timeout is the new one in every replay."""

from __future__ import annotations

import pytest

from emulator.core.inputs import (
    EventSent,
    HookRequested,
    PauseRequested,
    ReceiveRequested,
    Recovered,
    ResumeRequested,
    TimerFired,
)
from emulator.domain.entries import HookDisposed, WaitAbandoned, WaitStarted
from emulator.domain.failure import Failure
from emulator.domain.steps import StepKey, StepKind
from tests.unit.core.test_hook_rules import (
    CHANNEL,
    disposes,
    hook,
    opened,
    opens,
    receives,
    resumes,
    take,
    wants,
)
from tests.unit.core.vocabulary import LIVE, ONE, Case, abandons, asks_sleep, asks_wait

NAME = hook().label


def cancelled(timeout_ms: int | None) -> Case:
    """A wait that the code has cancelled."""
    case = opened().when(receives(timeout_ms=timeout_ms), abandons(take(1)))
    return case.then(take(1), WaitAbandoned())


@pytest.mark.parametrize("before", [None, 50])
def test_the_timeout_of_the_new_asking_holds(before: int | None) -> None:
    case = cancelled(before).at(20).when(receives(timeout_ms=100, again=1))
    case.then_armed(**{NAME: 120})
    assert case.last.entries[0][1].fact == WaitStarted(CHANNEL, 100, 120, 1)
    case.at(50).when(TimerFired(take(1), 50))
    assert not case.resolved
    case.at(120).when(TimerFired(take(1), 120))
    assert case.resolved == [take(1)]


def test_a_new_asking_without_a_timeout_has_none() -> None:
    case = cancelled(50).when(receives(again=1)).then(take(1), WaitStarted(CHANNEL, 0, None, 1))
    case.then_armed()
    case.at(50).when(TimerFired(take(1), 50)).then_nothing()
    assert case.when(resumes()).state.mailbox, "taken at rest: others may have waited longer"


def test_without_timeouts_nothing_is_written() -> None:
    cancelled(None).when(receives(again=1)).then_nothing()


def test_a_replay_comes_back_to_what_was_said_last() -> None:
    case = cancelled(50).at(20).when(receives(timeout_ms=100, again=1), abandons(take(1)))
    case.at(30).when(receives(timeout_ms=100, again=2)).then_armed(**{NAME: 130})
    case.crash().when(Recovered()).and_slot().at(40).when(opens(), receives(timeout_ms=50))
    assert not case.last.entries
    for again in (1, 2):
        case.when(abandons(take(1)), receives(timeout_ms=100, again=again))
        assert not case.last.entries
    case.then_armed(**{NAME: 130})


def test_what_came_before_the_end_of_a_hook_is_taken_by_a_wait_that_was_cancelled_before() -> None:
    case = cancelled(None).when(resumes(), disposes(), receives(again=1))
    assert case.resolved == [take(1)]
    assert not case.state.mailbox


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_replay_ends_no_wait_before_it_comes_to_the_end_of_the_hook(*, is_loaded: bool) -> None:
    case = cancelled(None).when(disposes())
    if is_loaded:
        case.when(PauseRequested(), ResumeRequested()).and_slot()
    else:
        case.crash().when(Recovered()).and_slot()
    case.when(opens(), receives()).then_nothing()
    case.when(abandons(take(1)), disposes()).then_nothing()


def test_disposing_of_a_hook_ends_no_wait_but_its_own() -> None:
    other = hook(1, "b")
    case = opened().when(HookRequested(LIVE, other, wants("hb", "b")))
    case.when(asks_wait("w", "payment"), asks_sleep("s"))
    case.when(ReceiveRequested(LIVE, StepKey(StepKind.WAIT, other.label, 1), "hb"))
    case.when(disposes()).then(hook(), HookDisposed())


def test_disposing_of_a_hook_gives_its_wait_nothing_that_came_for_others() -> None:
    case = opened().when(EventSent("payment", ONE), receives(), disposes())
    assert isinstance(case.state.steps[take(1)].outcome, Failure)
    assert len(case.state.mailbox) == 1


def test_a_payload_stays_with_the_wait_that_took_it_though_that_is_cancelled() -> None:
    opened().when(receives(), resumes(), abandons(take(1))).then_nothing()


def test_disposing_of_a_hook_does_not_end_a_wait_that_was_cancelled() -> None:
    cancelled(None).when(disposes()).then(hook(), HookDisposed())
