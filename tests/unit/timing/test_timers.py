"""Timers: the wheel and the clock together."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from emulator.errors import EngineStopped
from emulator.testing.clock import EPOCH_MS, LoopClock, VirtualClock
from emulator.testing.loop import run
from emulator.timing.alarm import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.timing.clock import ScheduledCall


class CountingClock(LoopClock):
    """Counts what is asked of the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_at_ms: list[int] = []

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        self.asked_at_ms.append(at_ms)
        return super().call_at(at_ms, callback)


DELAYS_MS = [0, 5, 1000, 1000, 63_999, 600_000, 86_400_000, 365 * 86_400_000]


def test_every_callback_comes_at_its_due_time() -> None:
    async def main() -> list[tuple[int, int]]:
        timers = Timers(LoopClock())
        came: list[tuple[int, int]] = []
        for number, delay_ms in enumerate(DELAYS_MS):
            due_ms = EPOCH_MS + delay_ms
            timers.schedule(due_ms, lambda number=number: came.append((number, timers.now_ms())))
        await asyncio.sleep(366 * 86_400)
        assert len(timers) == 0
        return came

    expected = [(number, EPOCH_MS + delay_ms) for number, delay_ms in enumerate(DELAYS_MS)]
    assert run(main()) == expected


def test_an_earlier_timer_scheduled_later_comes_first() -> None:
    async def main() -> list[str]:
        timers = Timers(LoopClock())
        came: list[str] = []
        timers.schedule(EPOCH_MS + 60_000, lambda: came.append("late"))
        await asyncio.sleep(1)
        timers.schedule(EPOCH_MS + 2000, lambda: came.append("early"))
        await asyncio.sleep(60)
        return came

    assert run(main()) == ["early", "late"]


def test_a_timer_in_the_past_comes_soon_but_not_at_once() -> None:
    async def main() -> list[str]:
        timers = Timers(LoopClock())
        came: list[str] = []
        timers.schedule(EPOCH_MS - 1, lambda: came.append("callback"))
        came.append("schedule returned")
        await asyncio.sleep(0.001)
        return came

    assert run(main()) == ["schedule returned", "callback"]


def test_the_failure_of_a_callback_is_reported_and_loses_no_other() -> None:
    def fail() -> None:
        raise ValueError("boom")

    async def main() -> tuple[list[str], list[str]]:
        timers = Timers(LoopClock())
        came: list[str] = []
        reported: list[str] = []

        def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            reported.append(str(context["exception"]))

        asyncio.get_running_loop().set_exception_handler(report)
        timers.schedule(EPOCH_MS + 10, lambda: came.append("before"))
        timers.schedule(EPOCH_MS + 10, fail)
        timers.schedule(EPOCH_MS + 10, lambda: came.append("after"))
        timers.schedule(EPOCH_MS + 99_000, lambda: came.append("much later"))
        await asyncio.sleep(100)
        return came, reported

    assert run(main()) == (["before", "after", "much later"], ["boom"])


def test_a_callback_can_cancel_another_of_the_same_instant() -> None:
    async def main() -> list[str]:
        timers = Timers(LoopClock())
        came: list[str] = []
        timers.schedule(EPOCH_MS + 10, lambda: timers.cancel(second))
        second = timers.schedule(EPOCH_MS + 10, lambda: came.append("second"))
        timers.schedule(EPOCH_MS + 10, lambda: came.append("third"))
        await asyncio.sleep(1)
        return came

    assert run(main()) == ["third"]


def test_a_callback_can_schedule_the_next() -> None:
    async def main() -> list[int]:
        timers = Timers(LoopClock())
        came: list[int] = []

        def tick() -> None:
            came.append(timers.now_ms() - EPOCH_MS)
            if len(came) < 3:
                timers.schedule(timers.now_ms() + 1000, tick)

        timers.schedule(EPOCH_MS + 1000, tick)
        await asyncio.sleep(10)
        return came

    assert run(main()) == [1000, 2000, 3000]


def test_a_thousand_cancelled_timeouts_ask_the_clock_once() -> None:
    async def main() -> list[int]:
        clock = CountingClock()
        timers = Timers(clock)
        for number in range(1000):
            timers.cancel(timers.schedule(EPOCH_MS + 600_000 + number, lambda: None))
        return clock.asked_at_ms

    assert len(run(main())) == 1


def test_without_timers_the_clock_is_left_alone() -> None:
    async def main() -> tuple[int, int]:
        clock = CountingClock()
        timers = Timers(clock)
        timers.cancel(timers.schedule(EPOCH_MS + 600_000, lambda: None))
        await asyncio.sleep(86_400)
        asked = len(clock.asked_at_ms)
        await asyncio.sleep(30 * 86_400)
        return asked, len(clock.asked_at_ms)

    asked, asked_a_month_later = run(main())
    assert asked == asked_a_month_later == 1


def test_at_most_one_call_of_the_clock_is_outstanding() -> None:
    class ExclusiveClock(VirtualClock):
        def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
            assert self.next_at_ms() is None
            return super().call_at(at_ms, callback)

    async def main() -> list[int]:
        clock = ExclusiveClock()
        timers = Timers(clock)
        came: list[int] = []
        for delay_ms in (90_000, 5000, 400_000, 20, 7000):
            timers.schedule(EPOCH_MS + delay_ms, lambda delay_ms=delay_ms: came.append(delay_ms))
            await clock.advance(1)
        await clock.advance(500_000)
        return came

    assert run(main()) == [20, 5000, 7000, 90_000, 400_000]


def test_closing_cancels_everything_and_refuses_what_comes_after() -> None:
    async def main() -> list[str]:
        timers = Timers(LoopClock())
        came: list[str] = []
        timers.schedule(EPOCH_MS + 10, timers.close)
        timers.schedule(EPOCH_MS + 10, lambda: came.append("same instant"))
        pending = timers.schedule(EPOCH_MS + 99_000, lambda: came.append("later"))
        await asyncio.sleep(3600)
        assert len(timers) == 0
        timers.close()
        timers.cancel(pending)
        with pytest.raises(EngineStopped):
            timers.schedule(EPOCH_MS, lambda: None)
        return came

    assert run(main()) == []


def test_callbacks_do_not_see_the_context_of_who_scheduled() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")

    async def main() -> list[str]:
        timers = Timers(LoopClock())
        seen: list[str] = []
        name.set("somebody")
        timers.schedule(EPOCH_MS + 10, lambda: seen.append(name.get()))
        await asyncio.sleep(1)
        return seen

    assert run(main()) == ["nobody"]


def test_timers_follow_a_clock_that_is_set() -> None:
    async def main() -> tuple[list[int], float]:
        clock = LoopClock()
        timers = Timers(clock)
        came: list[int] = []
        timers.schedule(EPOCH_MS + 3_600_000, lambda: came.append(timers.now_ms()))
        await asyncio.sleep(1)
        clock.skew(-1_800_000)
        await asyncio.sleep(1)
        clock.skew(7_200_000)
        await asyncio.sleep(0.001)
        return came, asyncio.get_running_loop().time()

    came, loop_s = run(main())
    assert came == [EPOCH_MS + 2000 + 5_400_000]
    assert loop_s == 2.001
