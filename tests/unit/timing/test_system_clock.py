"""The system clock, on a virtual loop and with a wall clock that the test sets."""

from __future__ import annotations

import asyncio

import pytest

from emulator.testing.loop import run
from emulator.timing import clock as clock_module
from emulator.timing.clock import SystemClock

START_MS = 1_767_225_600_000


class WallClock:
    """The machine's wall clock: goes with the loop, and can be set."""

    def __init__(self) -> None:
        self.set_by_ms = 0
        self.reads_at_s: list[float] = []

    def time_ns(self) -> int:
        loop_s = asyncio.get_running_loop().time()
        self.reads_at_s.append(loop_s)
        return (START_MS + self.set_by_ms) * 1_000_000 + round(loop_s * 1_000_000_000)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    wall = WallClock()
    monkeypatch.setattr(clock_module, "time_ns", wall.time_ns)
    return wall


def test_it_reads_whole_milliseconds_of_the_wall_clock(wall: WallClock) -> None:
    async def main() -> tuple[int, int]:
        clock = SystemClock()
        before_ms = clock.now_ms()
        await asyncio.sleep(1.2345)
        return before_ms, clock.now_ms()

    assert run(main()) == (START_MS, START_MS + 1234)


def test_it_agrees_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before_ms = clock_module.time_ns() // 1_000_000
    assert before_ms <= SystemClock().now_ms() <= clock_module.time_ns() // 1_000_000


def test_it_stands_still_until_a_clock_that_was_set_back_has_caught_up(wall: WallClock) -> None:
    async def main() -> list[int]:
        clock = SystemClock()
        readings = [clock.now_ms()]
        wall.set_by_ms = -5000
        for _ in range(6):
            readings.append(clock.now_ms())
            await asyncio.sleep(1.001)
        return readings

    assert run(main()) == [START_MS] * 6 + [START_MS + 5]


async def call_and_wait(clock: SystemClock, at_ms: int) -> int:
    """When, by the clock, a call for `at_ms` was made."""
    called: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    clock.call_at(at_ms, lambda: called.set_result(clock.now_ms()))
    return await called


@pytest.mark.parametrize("delay_ms", [1, 500, 30_000, 30_001, 600_000])
def test_a_call_is_made_at_its_time_and_never_early(wall: WallClock, delay_ms: int) -> None:
    async def main() -> int:
        return await call_and_wait(SystemClock(), START_MS + delay_ms)

    assert START_MS + delay_ms <= run(main()) <= START_MS + delay_ms + 1


def test_a_call_in_the_past_is_made_soon_but_not_at_once(wall: WallClock) -> None:
    async def main() -> tuple[list[str], float]:
        order: list[str] = []
        SystemClock().call_at(START_MS - 1000, lambda: order.append("called"))
        order.append("scheduled")
        await asyncio.sleep(0.001)
        return order, asyncio.get_running_loop().time()

    assert run(main()) == (["scheduled", "called"], 0.001)


def test_the_wall_clock_is_read_at_least_every_thirty_seconds(wall: WallClock) -> None:
    async def main() -> None:
        await call_and_wait(SystemClock(), START_MS + 3_600_000)

    run(main())
    pauses_s = [b - a for a, b in zip(wall.reads_at_s, wall.reads_at_s[1:], strict=False)]
    assert len(pauses_s) >= 120
    assert max(pauses_s) <= 30


def test_after_a_laptop_slept_a_call_is_at_most_thirty_seconds_late(wall: WallClock) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(10, setattr, wall, "set_by_ms", 7_200_000)
        await call_and_wait(SystemClock(), START_MS + 3_600_000)
        return loop.time()

    assert run(main()) <= 40


def test_when_the_clock_is_set_back_a_call_waits_for_its_wall_clock_time(wall: WallClock) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(1, setattr, wall, "set_by_ms", -60_000)
        await call_and_wait(SystemClock(), START_MS + 10_000)
        return loop.time()

    assert run(main()) == 70


@pytest.mark.parametrize("after_s", [0, 45])
def test_a_cancelled_call_is_not_made_and_leaves_nothing_behind(
    wall: WallClock, after_s: int
) -> None:
    async def main() -> list[str]:
        made: list[str] = []
        call = SystemClock().call_at(START_MS + 60_000, lambda: made.append("called"))
        await asyncio.sleep(after_s)
        call.cancel()
        call.cancel()
        reads = len(wall.reads_at_s)
        await asyncio.sleep(3600)
        assert len(wall.reads_at_s) == reads
        return made

    assert run(main()) == []


def test_cancelling_a_call_that_was_made_changes_nothing(wall: WallClock) -> None:
    async def main() -> list[str]:
        made: list[str] = []
        call = SystemClock().call_at(START_MS + 1, lambda: made.append("called"))
        await asyncio.sleep(1)
        call.cancel()
        return made

    assert run(main()) == ["called"]
