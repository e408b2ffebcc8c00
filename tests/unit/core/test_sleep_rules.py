"""`step.sleep` and `step.sleep_until`."""

from __future__ import annotations

import pytest

from emulator.core.effects import ArmTimer, RejectStep, ResolveStep
from emulator.core.inputs import (
    PauseRequested,
    Recovered,
    ResumeRequested,
    RunParked,
    RunRaised,
    TimerFired,
    WakeUpRequested,
)
from emulator.domain.entries import SleepCompleted, SleepStarted
from emulator.domain.limits import MAX_SLEEP_MS
from emulator.domain.status import InstanceStatus
from emulator.errors import InvalidDuration, PastWakeTime
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    abandons,
    asks_do,
    asks_sleep,
    asks_sleep_until,
    asks_wait,
    raises,
    running,
    sleep,
)

S = sleep("s")


def test_a_sleep_has_its_end_from_its_start() -> None:
    running().at(5).when(asks_sleep("s", 100)).then(S, SleepStarted(100, 105)).then_armed(s=105)


def test_a_sleep_ends_at_its_instant() -> None:
    case = running().when(asks_sleep("s", 100)).at(100).when(TimerFired(S, 100))
    case.then(S, SleepCompleted(), ResolveStep(S, None, 5)).then_armed()


@pytest.mark.parametrize("duration_ms", [0, -5])
def test_no_duration_ends_at_once(duration_ms: int) -> None:
    case = running().when(asks_sleep("s", duration_ms))
    case.then(S, SleepStarted(duration_ms, 0), SleepCompleted(), ResolveStep(S, None, 5))
    case.then_armed()


def test_a_replay_sleeps_for_what_is_left() -> None:
    case = running().when(asks_sleep("s", 100)).crash().at(60).when(Recovered()).and_slot()
    case.when(asks_sleep("s", 700)).then(ArmTimer(S, 100)).then_armed(s=100)


def test_a_sleep_that_ended_while_nobody_ran_ends_in_the_replay() -> None:
    case = running().when(asks_sleep("s", 100)).crash().at(160).when(Recovered()).and_slot()
    case.when(asks_sleep("s", 100)).then(S, SleepCompleted(), ResolveStep(S, None, 5)).then_armed()


def test_a_timer_that_comes_early_is_set_again() -> None:
    case = running().when(asks_sleep("s", 100)).at(99).when(TimerFired(S, 100))
    case.then(ArmTimer(S, 100)).then_armed(s=100)


def test_a_timer_of_a_step_that_has_ended_is_stale() -> None:
    case = running().when(asks_sleep("s", 100)).at(100).when(TimerFired(S, 100))
    case.when(TimerFired(S, 100)).then_nothing()
    case.when(TimerFired(sleep("other"), 100)).then_nothing()


def test_an_abandoned_sleep_ends_in_the_journal_alone() -> None:
    case = running().when(asks_sleep("s", 100), abandons(S)).then()
    case.at(100).when(TimerFired(S, 100)).then(S, SleepCompleted())


def test_sleep_until_has_the_instant_for_its_end() -> None:
    case = running().at(5).when(asks_sleep_until("s", 50))
    case.then(S, SleepStarted(45, 50, until=True)).then_armed(s=50)


def test_sleep_until_now_ends_at_once() -> None:
    case = running().at(50).when(asks_sleep_until("s", 50))
    case.then(S, SleepStarted(0, 50, until=True), SleepCompleted(), ResolveStep(S, None, 5))


def test_sleep_until_an_instant_that_is_past_is_refused() -> None:
    case = running().at(51).when(asks_sleep_until("s", 50))
    (effect,) = case.last.effects
    assert isinstance(effect, RejectStep)
    assert effect.step == S
    assert isinstance(effect.error, PastWakeTime)
    assert not case.last.entries


@pytest.mark.parametrize(("over_ms", "is_refused"), [(0, False), (1, True)])
def test_sleep_until_an_instant_beyond_the_maximum_is_refused(
    *, over_ms: int, is_refused: bool
) -> None:
    case = running().at(5).when(asks_sleep_until("s", 5 + MAX_SLEEP_MS + over_ms))
    assert (S not in case.state.steps) == is_refused
    if is_refused:
        (effect,) = case.last.effects
        assert isinstance(effect, RejectStep)
        assert isinstance(effect.error, InvalidDuration)
        assert str(effect.error).endswith("the maximum is 365 days")


def test_code_that_goes_on_after_a_refusal_can_rest() -> None:
    case = running().at(51).when(asks_sleep_until("past", 50), asks_sleep("s"))
    case.when(RunParked(LIVE)).then_status(InstanceStatus.WAITING)


def test_a_sleep_until_that_has_ended_is_not_past_in_a_replay() -> None:
    case = running().when(asks_sleep_until("s", 50)).at(50).when(TimerFired(S, 50))
    case.crash().at(900).when(Recovered()).and_slot()
    case.when(asks_sleep_until("s", 50)).then(ResolveStep(S, None, 5))


def test_a_sleep_until_that_is_open_is_not_past_in_a_replay() -> None:
    case = running().when(asks_sleep_until("s", 50)).crash().at(900).when(Recovered()).and_slot()
    case.when(asks_sleep_until("s", 50)).then(S, SleepCompleted(), ResolveStep(S, None, 5))


def test_a_pause_moves_the_end_of_a_sleep_and_not_of_a_sleep_until() -> None:
    case = running().when(asks_sleep("s", 100), asks_sleep_until("u", 100))
    case.at(30).when(PauseRequested()).then_status(InstanceStatus.PAUSED).then_armed()
    case.at(1_030).when(ResumeRequested()).then_armed(s=1_100, u=100)
    case.and_slot().when(asks_sleep_until("u", 100))
    assert case.resolved == [sleep("u")]
    case.when(asks_sleep("s", 100)).then(ArmTimer(S, 1_100))


def test_waking_up_ends_neither_a_wait_nor_the_delay_of_a_retry() -> None:
    case = running().when(asks_sleep("s"), asks_wait("w"), asks_do("a"), raises("a"))
    assert case.when(WakeUpRequested()).last.told == 1
    case.then_armed(w=1_000, a=100)


def test_waking_up_wakes_nothing_during_a_rollback() -> None:
    case = running().when(asks_do("a", rollback=CONFIG), asks_sleep("s"), RunRaised(LIVE, BOOM))
    assert case.when(WakeUpRequested()).last.told == 0
    case.then_nothing()
