"""The timer wheel: what goes out when, in which order, and what is left behind."""

from __future__ import annotations

import pytest

from emulator.timing.wheel import HORIZON_MS, Timer, TimerWheel

NOW_MS = 1_767_225_600_000
YEAR_MS = 365 * 86_400_000


def items(timers: list[Timer[str]]) -> list[str]:
    return [timer.item for timer in timers]


def drain(wheel: TimerWheel[str]) -> list[tuple[int, str]]:
    """Advance from wake to wake: what goes out, and when."""
    gone: list[tuple[int, str]] = []
    while (at_ms := wheel.next_wake_ms()) is not None:
        gone += [(at_ms, timer.item) for timer in wheel.advance(at_ms)]
    return gone


def test_a_timer_goes_out_at_its_due_time_and_not_a_millisecond_before() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS + 1000, "a")
    assert wheel.advance(NOW_MS + 999) == []
    assert items(wheel.advance(NOW_MS + 1000)) == ["a"]
    assert wheel.advance(NOW_MS + 5000) == []


@pytest.mark.parametrize(
    "delay_ms", [0, 1, 63, 64, 65, 4095, 4096, 600_000, YEAR_MS, 900 * YEAR_MS]
)
def test_going_from_wake_to_wake_meets_every_due_time_exactly(delay_ms: int) -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS + delay_ms, "a")
    assert drain(wheel) == [(NOW_MS + delay_ms, "a")]


def test_a_timer_of_a_year_costs_no_more_wakes_than_the_wheel_has_levels() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS + YEAR_MS, "a")
    wakes = 0
    while (at_ms := wheel.next_wake_ms()) is not None:
        wheel.advance(at_ms)
        wakes += 1
    assert 1 < wakes <= 9


def test_timers_go_out_by_due_time_then_in_the_order_of_scheduling() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS + 70_000, "late")
    wheel.schedule(NOW_MS + 5000, "first")
    wheel.schedule(NOW_MS + 5000, "second")
    wheel.schedule(NOW_MS + 10, "early")
    assert items(wheel.advance(NOW_MS + YEAR_MS)) == ["early", "first", "second", "late"]


def test_timers_of_one_due_time_keep_their_order_across_levels() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    due_ms = NOW_MS + 10_000
    wheel.schedule(due_ms, "from afar")
    wheel.advance(due_ms - 100)
    wheel.schedule(due_ms, "from nearby")
    wheel.advance(due_ms - 1)
    wheel.schedule(due_ms, "from next door")
    assert items(wheel.advance(due_ms)) == ["from afar", "from nearby", "from next door"]


def test_a_timer_that_is_already_due_goes_out_with_the_next_advance() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS, "now")
    wheel.schedule(NOW_MS - YEAR_MS, "a year ago")
    wheel.schedule(-1, "before the epoch")
    assert wheel.next_wake_ms() == NOW_MS
    assert items(wheel.advance(NOW_MS)) == ["before the epoch", "a year ago", "now"]


def test_a_cancelled_timer_never_goes_out() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    cancelled = wheel.schedule(NOW_MS + 50, "cancelled")
    wheel.schedule(NOW_MS + 50, "kept")
    wheel.cancel(cancelled)
    assert items(wheel.advance(NOW_MS + 100)) == ["kept"]


def test_cancelling_again_or_after_going_out_changes_nothing() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    gone = wheel.schedule(NOW_MS + 1, "gone")
    kept = wheel.schedule(NOW_MS + 2, "kept")
    wheel.advance(NOW_MS + 1)
    wheel.cancel(gone)
    assert len(wheel) == 1
    wheel.cancel(kept)
    wheel.cancel(kept)
    assert len(wheel) == 0


def test_equal_items_at_one_time_are_timers_of_their_own() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    twin = wheel.schedule(NOW_MS + 1, "twin")
    wheel.schedule(NOW_MS + 1, "twin")
    wheel.cancel(twin)
    assert items(wheel.advance(NOW_MS + 1)) == ["twin"]


def test_a_clock_that_runs_backwards_changes_nothing() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(NOW_MS + 100, "a")
    wheel.advance(NOW_MS + 50)
    wheel.schedule(NOW_MS + 20, "overdue")
    assert wheel.advance(NOW_MS - YEAR_MS) == []
    assert len(wheel) == 2
    assert drain(wheel) == [(NOW_MS + 50, "overdue"), (NOW_MS + 100, "a")]


def test_a_wheel_whose_timers_are_all_cancelled_has_no_wake() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    timers = [wheel.schedule(NOW_MS + 600_000 + number, "timeout") for number in range(1000)]
    for timer in timers:
        wheel.cancel(timer)
    assert wheel.next_wake_ms() is None
    assert len(wheel) == 0


def test_a_time_beyond_the_horizon_is_not_accepted() -> None:
    wheel: TimerWheel[str] = TimerWheel(NOW_MS)
    wheel.schedule(HORIZON_MS - 1, "at the end of time")
    with pytest.raises(AssertionError, match="beyond what the timer wheel can hold"):
        wheel.schedule(HORIZON_MS, "later")
    assert len(wheel) == 1
