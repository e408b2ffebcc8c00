"""`step.wait_for_event` and the mailbox."""

from __future__ import annotations

from typing import NoReturn

import msgspec
import pytest

from emulator.core.decide import decide
from emulator.core.effects import ArmTimer, ReceivedEvent, RequestSlot, ResolveStep
from emulator.core.inputs import (
    CreateRequested,
    EventSent,
    PauseRequested,
    Recovered,
    RestartRequested,
    ResumeRequested,
    RunParked,
    RunReturned,
    TerminateRequested,
    TimerFired,
    UnloadRequested,
)
from emulator.core.state import StepState
from emulator.domain.entries import (
    EventReceived,
    WaitAbandoned,
    WaitCompleted,
    WaitStarted,
    WaitTimedOut,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.errors import InstanceFinished
from tests.unit.core.vocabulary import (
    AT_ONCE,
    LIVE,
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
    wait,
)

W, V = wait("w"), wait("v")
PAID = EventSent("paid", ONE)
RECEIVED = EventReceived("paid", ONE)
TIMEOUT = Failure("WorkflowTimeoutError", "Execution timed out after 1000ms")


def numbered(number: int, event_type: str = "paid") -> EventSent:
    return EventSent(event_type, msgspec.Raw(str(number).encode()))


def delivered(delivery_id: str) -> EventSent:
    return EventSent("paid", ONE, delivery_id)


def taken(case: Case) -> dict[str, int]:
    """Which wait has which event, by its payload."""
    outcomes = {step.key.name: step.outcome for step in case.state.steps.values()}
    return {
        name: int(bytes(outcome.payload or b"0"))
        for name, outcome in outcomes.items()
        if isinstance(outcome, ReceivedEvent)
    }


def test_a_wait_has_its_deadline_from_its_start() -> None:
    case = running().at(5).when(asks_wait("w"))
    case.then(W, WaitStarted("paid", 1_000, 1_005)).then_armed(w=1_005)


def test_an_event_ends_a_live_wait() -> None:
    case = running().when(asks_wait("w")).at(7).when(PAID)
    event = ReceivedEvent(5, "paid", 7, ONE)
    case.then(RECEIVED, W, WaitCompleted(5, 7, ONE), ResolveStep(W, event, 6)).then_armed()
    assert case.stored.taken == [5]


def test_an_event_finds_its_wait_without_a_look_at_the_other_steps() -> None:
    class Unseen(dict[StepKey, StepState]):
        def values(self) -> NoReturn:
            raise AssertionError

        items = __iter__ = values

    case = running().when(*(asks_wait(name, name) for name in "abc"))
    case.state.open = Unseen(case.state.open)
    decision = decide(case.state, EventSent("b", ONE), 0)
    assert [type(entry.fact) for _, entry in decision.entries] == [EventReceived, WaitCompleted]
    assert list(case.state.waits) == ["a", "c"]


def test_an_event_without_a_payload_stays_without_one() -> None:
    case = running().when(asks_wait("w"), EventSent("paid"))
    case.then(
        EventReceived("paid"),
        W,
        WaitCompleted(5, 0),
        ResolveStep(W, ReceivedEvent(5, "paid", 0, None), 6),
    )


def test_an_event_that_came_before_the_wait_is_taken_when_it_starts() -> None:
    case = running().when(PAID).then(RECEIVED)
    case.at(9).when(asks_wait("w"))
    event = ReceivedEvent(4, "paid", 0, ONE)
    case.then(
        W, WaitStarted("paid", 1_000, 1_009), WaitCompleted(4, 0, ONE), ResolveStep(W, event, 6)
    )
    case.then_armed()


def test_events_of_a_type_are_taken_first_in_first_out() -> None:
    case = running().when(numbered(1), numbered(2), numbered(3, "sent"))
    case.when(asks_wait("a"), asks_wait("b"), asks_wait("c"), asks_wait("d", "sent"))
    assert taken(case) == {"a": 1, "b": 2, "d": 3}


def test_the_oldest_of_several_waits_gets_the_first_event() -> None:
    case = running().when(asks_wait("a"), asks_wait("b"), numbered(1))
    assert taken(case) == {"a": 1}
    case.when(numbered(2))
    assert taken(case) == {"a": 1, "b": 2}


def test_an_event_of_another_type_stays_in_the_mailbox() -> None:
    running().when(asks_wait("w"), EventSent("sent")).then(EventReceived("sent"))


@pytest.mark.parametrize("event_type", ["", "a"])
def test_only_waits_take_events(event_type: str) -> None:
    running().when(asks_do("a"), asks_sleep("s"), EventSent(event_type)).then(
        EventReceived(event_type)
    )


def test_no_event_in_time_fails_the_wait() -> None:
    case = running().when(asks_wait("w")).at(1_000).when(TimerFired(W, 1_000))
    case.then(W, WaitTimedOut(TIMEOUT), ResolveStep(W, TIMEOUT, 5)).then_armed()


def test_a_wait_that_timed_out_takes_nothing() -> None:
    case = running().when(asks_wait("w")).at(1_000).when(TimerFired(W, 1_000), numbered(1))
    case.when(asks_wait("v"))
    assert taken(case) == {"v": 1}


def test_a_timeout_wakes_an_instance_that_has_left_memory() -> None:
    case = running().when(asks_wait("w"), RunParked(LIVE), UnloadRequested(LIVE))
    case.at(1_000).when(TimerFired(W, 1_000))
    case.then(W, WaitTimedOut(TIMEOUT), RequestSlot(waking=True)).and_slot().when(asks_wait("w"))
    assert case.resolved == [W]


def test_a_timeout_fails_the_wait_again_in_a_replay() -> None:
    case = running().when(asks_wait("w")).at(1_000).when(TimerFired(W, 1_000))
    case.crash().when(Recovered()).and_slot().when(asks_wait("w")).then(ResolveStep(W, TIMEOUT, 5))


def test_a_timeout_below_zero_is_over_at_once() -> None:
    case = running().when(asks_wait("w", timeout_ms=-1)).then_armed(w=0).when(TimerFired(W, 0))
    assert case.resolved == [W]


def test_a_replay_waits_for_what_is_left() -> None:
    case = running().when(asks_wait("w")).crash().at(400).when(Recovered()).and_slot()
    case.when(asks_wait("w")).then(ArmTimer(W, 1_000)).then_armed(w=1_000)


def test_an_event_that_was_taken_is_handed_over_again_in_a_replay() -> None:
    case = running().when(asks_wait("w"), PAID).crash().when(Recovered()).and_slot()
    event = ReceivedEvent(5, "paid", 0, ONE)
    case.when(asks_wait("w")).then(ResolveStep(W, event, 6))


def test_an_event_for_a_sleeping_instance_is_taken_in_the_replay() -> None:
    case = running().when(asks_wait("w"), RunParked(LIVE), UnloadRequested(LIVE))
    case.when(PAID).then(RECEIVED, RequestSlot(waking=True)).and_slot()
    assert case.started
    case.when(asks_wait("w"))
    assert taken(case) == {"w": 1}
    assert not any(isinstance(effect, ArmTimer) for effect in case.last.effects)


def test_any_event_wakes_a_running_instance_that_is_not_in_memory_if_there_is_a_slot() -> None:
    case = running().when(asks_do("a"), raises("a")).crash()
    case.when(EventSent("other")).then(EventReceived("other"), RequestSlot(waking=True))
    assert case.and_slot().started


def test_an_event_for_an_instance_that_has_lost_its_slot_leaves_it_in_the_queue() -> None:
    case = running().when(asks_do("a")).crash().when(EventSent("other")).and_no_slot()
    case.then_status(InstanceStatus.QUEUED)
    assert not case.when(Recovered()).started


def test_an_event_for_code_at_rest_wakes_it() -> None:
    case = running().when(asks_wait("w"), RunParked(LIVE)).then_status(InstanceStatus.WAITING)
    case.when(PAID).then(RECEIVED, W, WaitCompleted(6, 0, ONE), RequestSlot(waking=True))
    case.and_slot()
    assert case.resolved == [W]


def test_an_event_for_code_at_rest_survives_that_no_slot_is_free() -> None:
    case = running().when(asks_wait("w"), RunParked(LIVE), PAID).and_no_slot()
    case.then_status(InstanceStatus.QUEUED).crash().when(Recovered()).and_slot()
    case.when(asks_wait("w"))
    assert case.resolved == [W]


def test_a_cancelled_wait_takes_nothing() -> None:
    case = running().when(asks_wait("w"), abandons(W)).then(W, WaitAbandoned())
    case.when(PAID).then(RECEIVED)


def test_a_wait_is_cancelled_once() -> None:
    case = running().when(asks_wait("w"), abandons(W)).crash().when(Recovered()).and_slot()
    case.when(asks_wait("w"), abandons(W)).then_nothing()


def test_an_event_passes_over_a_cancelled_wait() -> None:
    case = running().when(asks_wait("w"), abandons(W), asks_wait("v"), numbered(1))
    assert taken(case) == {"v": 1}


def replay_of(*names: str, cancelled: str = "") -> Case:
    """Code that has asked for these waits runs again."""
    case = running().when(*(asks_wait(name) for name in names))
    if cancelled:
        case.when(abandons(wait(cancelled)))
    return case.when(RunParked(LIVE)).crash()


def test_in_a_replay_a_wait_leaves_the_event_to_an_older_one() -> None:
    case = replay_of("w", "v").when(numbered(1)).and_slot()
    case.when(asks_wait("v")).then(ArmTimer(V, 1_000))
    case.when(asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_in_a_replay_an_event_is_left_to_an_older_wait() -> None:
    case = replay_of("w", "v").when(EventSent("other")).and_slot()
    case.when(asks_wait("v"), numbered(1)).then(EventReceived("paid", ONE))
    case.when(asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_once_the_older_wait_has_its_event_the_younger_one_takes_the_next() -> None:
    case = replay_of("w", "v").when(numbered(1)).and_slot().when(numbered(2))
    case.when(asks_wait("v"), asks_wait("w"))
    assert taken(case) == {"w": 1, "v": 2}


def test_a_new_event_does_not_overtake_one_that_was_held_back() -> None:
    case = replay_of("w", "v").when(numbered(1)).and_slot()
    case.when(asks_wait("v")).at(1_000).when(TimerFired(W, 1_000), numbered(2), RunParked(LIVE))
    assert taken(case) == {"v": 1}


def test_an_event_of_before_a_deadline_that_fell_into_a_pause_is_taken() -> None:
    case = running().when(asks_do("a"), asks_wait("w"), PauseRequested())
    case.at(10).when(numbered(1)).at(1_000).when(TimerFired(W, 1_000)).at(2_000).when(returns("a"))
    case.then_status(InstanceStatus.PAUSED).at(2_001).when(ResumeRequested()).and_slot()
    case.when(TimerFired(W, 1_001), asks_do("a"), asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_at_rest_a_wait_takes_what_it_had_left_to_one_that_is_asked_for_no_more() -> None:
    case = replay_of("w", "v").when(numbered(1)).and_slot().when(asks_wait("v"), RunParked(LIVE))
    assert taken(case) == {"v": 1}
    case.then_status(InstanceStatus.RUNNING)


def test_code_at_rest_gets_an_event_whatever_wait_it_has_dropped() -> None:
    case = replay_of("renamed").when(EventSent("other")).and_slot()
    case.when(asks_wait("w"), RunParked(LIVE)).then_status(InstanceStatus.WAITING)
    case.when(numbered(1)).and_slot()
    assert case.resolved == [W]


def test_code_that_rests_on_a_retry_gets_an_event_whatever_wait_it_has_dropped() -> None:
    case = replay_of("renamed").when(EventSent("other")).and_slot()
    case.when(asks_wait("w"), asks_do("a"), raises("a"), RunParked(LIVE))
    case.then_status(InstanceStatus.WAITING).when(numbered(1)).and_slot()
    assert case.resolved == [W]


def rests_on_a_retry() -> Case:
    """A replay has asked for the younger of two waits, and rests until a retry is due."""
    case = replay_of("w", "v").when(EventSent("other")).and_slot()
    return case.when(asks_wait("v"), asks_do("a"), raises("a"), RunParked(LIVE))


def test_code_that_asks_for_more_is_at_rest_no_longer() -> None:
    case = rests_on_a_retry().when(asks_sleep("s")).and_slot().when(numbered(1))
    assert taken(case) == {}
    case.when(asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_code_that_is_told_something_is_at_rest_no_longer() -> None:
    case = rests_on_a_retry().at(100).when(TimerFired(do("a"), 100)).and_slot()
    case.when(returns("a", 2), numbered(1))
    assert taken(case) == {}
    case.when(asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_in_a_replay_a_wait_that_was_cancelled_takes_nothing_before_the_code_rests() -> None:
    case = replay_of("w", cancelled="w").when(Recovered()).and_slot()
    case.when(numbered(1), asks_wait("w"), numbered(2))
    assert taken(case) == {}
    case.when(RunParked(LIVE))
    assert taken(case) == {"w": 1}


def test_at_rest_a_wait_that_was_cancelled_comes_last() -> None:
    case = replay_of("w", "v", cancelled="w").when(numbered(1)).and_slot()
    case.when(asks_wait("w"), asks_wait("v"), RunParked(LIVE))
    assert taken(case) == {"v": 1}


def test_at_rest_a_wait_that_was_cancelled_comes_last_for_an_event_that_comes_then_too() -> None:
    case = replay_of("w", "v", cancelled="w").when(EventSent("other")).and_slot()
    case.when(asks_wait("w"), asks_wait("v"), RunParked(LIVE), numbered(1)).and_slot()
    assert taken(case) == {"v": 1}


def test_of_waits_that_were_cancelled_the_oldest_takes_the_event_that_it_gave_back() -> None:
    case = running().when(asks_wait("w"), asks_wait("v"), numbered(1), abandons(V), abandons(W))
    case.crash().when(Recovered()).and_slot()
    case.when(asks_wait("v"), asks_wait("w"), RunParked(LIVE))
    assert taken(case) == {"w": 1}


def test_events_for_a_queued_instance_are_kept() -> None:
    given().when(PAID).then(RECEIVED).then_status(InstanceStatus.QUEUED)


def test_events_for_a_paused_instance_are_taken_after_it_is_resumed() -> None:
    case = running().when(asks_wait("w"), PauseRequested(), PAID).then(RECEIVED)
    case.when(ResumeRequested()).and_slot().when(asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_events_during_a_pending_pause_are_taken_when_it_is_cancelled() -> None:
    case = running().when(asks_do("a"), asks_wait("w"), PauseRequested())
    case.when(PAID).then(RECEIVED)
    case.when(ResumeRequested())
    assert case.resolved == [W]
    case.then_armed()
    assert not any(isinstance(effect, ArmTimer) for effect in case.last.effects)


def test_when_a_pause_is_cancelled_a_wait_leaves_the_event_to_an_older_one() -> None:
    case = replay_of("w", "v").when(EventSent("other")).and_slot()
    case.when(asks_wait("v"), asks_do("a", AT_ONCE), PauseRequested(), numbered(1))
    case.when(ResumeRequested(), asks_wait("w"))
    assert taken(case) == {"w": 1}


def test_a_wait_of_a_finished_instance_is_dropped() -> None:
    case = running().when(asks_wait("w"), RunReturned(LIVE, ONE))
    case.then_status(InstanceStatus.COMPLETE).then_armed()
    case.when(TimerFired(W, 1_000)).then_nothing()


def test_a_finished_instance_takes_no_event() -> None:
    running().when(TerminateRequested(), PAID).then_refused(InstanceFinished)


def test_a_restart_drops_the_mailbox() -> None:
    case = running().when(PAID, RestartRequested()).and_slot().when(asks_wait("w"))
    assert taken(case) == {}
    case.then_armed(w=1_000)


def test_a_sleep_that_is_cancelled_is_not_noted() -> None:
    running().when(asks_sleep("s"), abandons(sleep("s"))).then_nothing()
    running().when(abandons(W)).then_nothing()


def test_an_event_that_the_code_has_not_seen_goes_back_before_younger_ones() -> None:
    case = running().when(asks_wait("w"), numbered(1), numbered(2))
    assert taken(case) == {"w": 1}
    case.when(abandons(W)).then(W, WaitAbandoned())
    case.when(asks_wait("v"), asks_wait("x"))
    assert taken(case) == {"v": 1, "x": 2}


def test_a_wait_that_ended_without_an_event_has_nothing_to_give_back() -> None:
    case = running().when(asks_wait("w")).at(1_000).when(TimerFired(W, 1_000))
    case.when(abandons(W)).then_nothing()


def test_an_event_that_goes_back_is_taken_by_another_wait_of_its_type() -> None:
    case = running().when(asks_wait("w"), asks_wait("v"), numbered(1)).when(abandons(W))
    assert taken(case) == {"v": 1}
    assert case.resolved == [V]


def test_an_event_that_went_back_survives_a_crash() -> None:
    case = running().when(asks_wait("w"), numbered(1), abandons(W)).crash()
    case.when(Recovered()).and_slot().when(asks_wait("w"), asks_wait("v"))
    assert taken(case) == {"v": 1}


def test_a_crash_before_the_event_went_back_changes_nothing() -> None:
    case = running().when(asks_wait("w"), numbered(1)).crash().when(Recovered()).and_slot()
    case.when(asks_wait("w"), abandons(W), asks_wait("v"))
    assert taken(case) == {"v": 1}


def test_an_event_goes_back_after_a_crash_though_another_branch_went_on() -> None:
    case = running().when(asks_wait("w"), numbered(1), asks_sleep("branch")).crash()
    case.when(Recovered()).and_slot().when(asks_wait("w"), abandons(W), asks_wait("v"))
    assert taken(case) == {"v": 1}


def test_a_wait_that_gave_its_event_back_has_its_deadline_again() -> None:
    case = running().when(asks_wait("w"), numbered(1), abandons(W)).then_armed(w=1_000)
    case.when(asks_wait("v")).crash().when(Recovered()).and_slot().when(asks_wait("w"))
    case.at(1_000).when(TimerFired(W, 1_000))
    assert case.resolved == [W]


def test_a_pause_since_then_has_moved_that_deadline() -> None:
    case = running().when(asks_wait("w"), numbered(1)).at(10).when(PauseRequested())
    case.at(60).when(ResumeRequested()).and_slot().when(asks_wait("w"), abandons(W))
    case.then_armed(w=1_050)


def test_a_wait_may_give_back_two_events() -> None:
    case = running().when(asks_wait("w"), delivered("d1"), abandons(W), asks_wait("v"))
    case.crash().when(Recovered()).and_slot()
    case.when(asks_wait("w"), RunParked(LIVE), delivered("d2")).and_slot().when(abandons(W))
    case.when(RestartRequested(V)).and_slot()
    assert len(case.state.mailbox) == 2
    case.when(delivered("d1"), delivered("d2"))
    assert len(case.state.mailbox) == 2, "they have come before"


def test_a_restart_keeps_an_event_that_a_kept_wait_gave_back() -> None:
    case = running().when(asks_wait("w"), numbered(1), abandons(W), asks_wait("v"))
    assert taken(case) == {"v": 1}
    case.when(RestartRequested(V)).and_slot().when(asks_wait("w"), asks_wait("v"))
    assert taken(case) == {"v": 1}


def test_a_restart_does_not_bring_back_an_event_that_another_kept_wait_took() -> None:
    case = running().when(asks_wait("w"), numbered(1), abandons(W), asks_wait("v"), asks_do("a"))
    assert not case.when(RestartRequested(do("a"))).state.mailbox


def test_a_restart_keeps_events_that_were_given_back_in_the_order_in_which_they_came() -> None:
    case = running().when(asks_wait("w"), abandons(W), asks_wait("v"), numbered(1), numbered(2))
    case.crash().when(Recovered()).and_slot()
    case.when(asks_wait("w"), RunParked(LIVE), abandons(W), asks_wait("v"), abandons(V))
    case.when(asks_do("a"), RestartRequested(do("a"))).and_slot()
    case.when(asks_wait("x"), asks_wait("y"))
    assert taken(case) == {"x": 1, "y": 2}


def test_what_nobody_took_is_dropped_at_the_end() -> None:
    assert not running().when(PAID, RunReturned(LIVE, ONE)).state.mailbox


def test_an_event_that_comes_with_the_creation_is_there_from_the_beginning() -> None:
    case = given().when(CreateRequested(event=PAID)).and_slot().when(asks_wait("w"))
    assert taken(case) == {"w": 1}
