"""The clocks of tests: one goes with the loop, one stands until it is moved."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from emulator.errors import InvalidInput
from emulator.testing.clock import EPOCH_MS, LoopClock, VirtualClock
from emulator.testing.loop import run

if TYPE_CHECKING:
    from emulator.timing.clock import Clock


async def wait_until(clock: Clock, at_ms: int) -> int:
    """Wait on a clock; the time by it at which the wait ended."""
    reached: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    clock.call_at(at_ms, lambda: reached.set_result(clock.now_ms()))
    return await reached


def test_the_loop_clock_meets_every_millisecond_exactly() -> None:
    async def main() -> list[int]:
        clock = LoopClock()
        return [await wait_until(clock, EPOCH_MS + at_ms) - EPOCH_MS for at_ms in instants_ms]

    instants_ms = [*range(1000), *range(10**9, 10**9 + 1000), *range(10**12, 10**12 + 1000)]
    assert run(main()) == instants_ms


def test_the_loop_clock_stands_still_after_it_was_set_back() -> None:
    async def main() -> list[int]:
        clock = LoopClock()
        await asyncio.sleep(5)
        clock.skew(-2000)
        readings: list[int] = []
        for _ in range(4):
            readings.append(clock.now_ms() - EPOCH_MS)
            await asyncio.sleep(1)
        return readings

    assert run(main()) == [5000, 5000, 5000, 6000]


@pytest.mark.parametrize(("step_ms", "expected_s"), [(4000, 6), (-4000, 14), (60_000, 1), (0, 10)])
def test_a_call_of_the_loop_clock_follows_steps_of_the_clock(
    step_ms: int, expected_s: float
) -> None:
    async def main() -> float:
        clock = LoopClock()
        loop = asyncio.get_running_loop()
        loop.call_later(1, clock.skew, step_ms)
        assert await wait_until(clock, EPOCH_MS + 10_000) >= EPOCH_MS + 10_000
        return loop.time()

    assert run(main()) == expected_s


def test_calls_that_a_step_makes_due_come_in_their_order() -> None:
    async def main() -> list[str]:
        clock = LoopClock()
        came: list[str] = []
        clock.call_at(EPOCH_MS + 3000, lambda: came.append("later"))
        clock.call_at(EPOCH_MS + 2000, lambda: came.append("sooner"))
        cancelled = clock.call_at(EPOCH_MS + 1000, lambda: came.append("cancelled"))
        cancelled.cancel()
        cancelled.cancel()
        clock.skew(5000)
        await asyncio.sleep(0)
        return came

    assert run(main()) == ["sooner", "later"]


async def test_the_virtual_clock_stands_until_it_is_moved() -> None:
    clock = VirtualClock(1000)
    assert clock.now_ms() == 1000
    await clock.advance(500)
    assert clock.now_ms() == 1500
    await clock.advance_to(2000)
    assert clock.now_ms() == 2000


async def test_moving_the_clock_stops_at_each_call_in_order() -> None:
    clock = VirtualClock(0)
    came: list[tuple[str, int]] = []
    for name, at_ms in (("b", 20), ("a", 10), ("b too", 20), ("beyond", 31)):
        clock.call_at(at_ms, lambda name=name: came.append((name, clock.now_ms())))
    assert clock.next_at_ms() == 10
    await clock.advance(30)
    assert came == [("a", 10), ("b", 20), ("b too", 20)]
    assert clock.next_at_ms() == 31
    assert clock.now_ms() == 30


async def test_what_a_call_leads_to_happens_at_its_own_time() -> None:
    clock = VirtualClock(0)

    async def sleep_three_times() -> list[int]:
        return [await wait_until(clock, clock.now_ms() + 1000) for _ in range(3)]

    sleeper = asyncio.create_task(sleep_three_times())
    await clock.advance(3500)
    assert await sleeper == [1000, 2000, 3000]


async def test_a_call_that_is_due_comes_soon_without_moving_the_clock() -> None:
    clock = VirtualClock(1000)
    assert await wait_until(clock, 1000) == 1000
    assert clock.next_at_ms() is None


async def test_a_cancelled_call_of_the_virtual_clock_is_not_made() -> None:
    clock = VirtualClock(0)
    came: list[str] = []
    second = clock.call_at(20, lambda: came.append("second"))
    clock.call_at(20, lambda: came.append("third")).cancel()
    clock.call_at(10, second.cancel)
    await clock.advance(100)
    second.cancel()
    assert came == []
    assert clock.next_at_ms() is None


async def test_calls_of_one_instant_can_cancel_each_other() -> None:
    clock = VirtualClock(0)
    came: list[str] = []
    clock.call_at(10, lambda: second.cancel())
    second = clock.call_at(10, lambda: came.append("second"))
    await clock.advance(100)
    assert came == []


async def test_the_virtual_clock_waits_for_what_settle_waits_for() -> None:
    loop = asyncio.get_running_loop()
    jobs: list[asyncio.Future[None]] = []

    async def settle() -> None:
        while jobs:
            await jobs.pop()

    clock = VirtualClock(0, settle=settle)
    done_at_ms: list[int] = []

    def start_a_job() -> None:
        def note() -> None:
            done_at_ms.append(clock.now_ms())

        jobs.append(loop.run_in_executor(None, note))

    clock.call_at(10, start_a_job)
    clock.call_at(20, start_a_job)
    await clock.advance(1000)
    assert done_at_ms == [10, 20]


async def test_an_exception_of_a_call_goes_to_the_loop_and_stops_nothing() -> None:
    def fail() -> None:
        raise ValueError("boom")

    reported: list[str] = []

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        reported.append(str(context["exception"]))

    asyncio.get_running_loop().set_exception_handler(report)
    clock = VirtualClock(0)
    came: list[str] = []
    clock.call_at(10, fail)
    clock.call_at(10, lambda: came.append("after"))
    await clock.advance(10)
    assert (came, reported) == (["after"], ["boom"])


async def test_two_tasks_may_move_the_clock() -> None:
    clock = VirtualClock(0)
    readings: list[int] = []
    for at_ms in range(0, 100, 10):
        clock.call_at(at_ms, lambda: readings.append(clock.now_ms()))
    await asyncio.gather(clock.advance_to(35), clock.advance_to(90))
    assert readings == sorted(readings)
    assert clock.now_ms() == 90


async def test_the_virtual_clock_does_not_run_backwards() -> None:
    clock = VirtualClock(1000)
    with pytest.raises(InvalidInput, match="stands at 1000 ms, and was asked to move to 999 ms"):
        await clock.advance(-1)
