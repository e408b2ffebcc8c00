"""Events whose sender names them: a repetition is not taken in, whatever has become of the first."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from emulator.core.inputs import EventSent, RestartRequested, RunReturned, TerminateRequested
from emulator.domain.entries import EventReceived, WaitCompleted
from emulator.errors import InstanceFinished
from tests.unit.core.vocabulary import LIVE, NULL, ONE, Case, asks_do, asks_wait, do, running, wait

W = wait("w")
PAID = EventSent("paid", ONE, "evt_1")


def with_event_taken() -> Case:
    return running().when(asks_wait("w"), PAID)


def test_an_event_keeps_its_name_in_the_mailbox_and_with_the_wait_that_takes_it() -> None:
    case = running().when(PAID).then(EventReceived("paid", ONE, "evt_1")).when(asks_wait("w"))
    assert case.stored.entries[case.state.seq].fact == WaitCompleted(4, 0, ONE, "evt_1")


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_a_repetition_changes_nothing(taken: bool, crashes: bool) -> None:
    case = with_event_taken() if taken else running().when(PAID)
    if crashes:
        case.crash()
    case.when(PAID).then_nothing()


def test_a_repetition_with_another_body_changes_nothing() -> None:
    with_event_taken().when(EventSent("paid", NULL, "evt_1")).then_nothing()


def test_another_name_or_none_is_another_event() -> None:
    for event in (EventSent("paid", ONE, "evt_2"), EventSent("paid", ONE)):
        case = with_event_taken().when(event)
        case.then(EventReceived("paid", ONE, event.delivery_id))


def test_events_without_a_name_are_all_different() -> None:
    event = EventSent("paid", ONE)
    running().when(event, event).then(EventReceived("paid", ONE))


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("end", [RunReturned(LIVE, msgspec.Raw(b"1")), TerminateRequested()])
@pytest.mark.parametrize("first", [with_event_taken, lambda: running().when(PAID)])
def test_a_repetition_is_known_for_one_after_the_end(
    first: Callable[[], Case], end: RunReturned | TerminateRequested, crashes: bool
) -> None:
    case = first().when(end)
    if crashes:
        case.crash()
    case.when(PAID).then_nothing()
    case.when(EventSent("paid", ONE, "evt_2")).then_refused(InstanceFinished)


def test_a_restart_forgets_what_it_removes_and_nothing_else() -> None:
    taken, left = PAID, EventSent("paid", ONE, "evt_2")
    case = with_event_taken().when(asks_do("a"), left, RestartRequested(do("a")))
    assert case.state.deliveries == {"evt_1"}
    case.when(taken).then_nothing()
    case.when(left).then(EventReceived("paid", ONE, "evt_2"))
    case.when(RestartRequested(W))
    assert not case.state.deliveries


def test_a_restart_of_the_whole_forgets_every_name() -> None:
    case = with_event_taken().when(RestartRequested(), PAID)
    case.then(EventReceived("paid", ONE, "evt_1"))
