"""Firing ticks: each once, at its time; what happens when the process or the clock was not there."""

from __future__ import annotations

import asyncio

import pytest

from emulator.core.inputs import DeleteRequested
from emulator.domain import values
from emulator.domain.instance import Schedule, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.engine.schedules import GRACE_MS
from emulator.testing.clock import EPOCH_MS, LoopClock, VirtualClock
from emulator.testing.loop import run as run_in_virtual_time
from tests.unit.engine.scheduled import DAY_MS, MINUTE_MS, NAME, Scheduled

EVERY_MINUTE = "* * * * *"
DAILY = "0 0 * * *"


def after(*minutes: int) -> list[int]:
    """Instants that are so many minutes after the beginning."""
    return [EPOCH_MS + each * MINUTE_MS for each in minutes]


async def test_a_tick_creates_an_instance_with_cloudflares_id_source_and_schedule() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, "*/30 * * * *")
    await scheduled.start()
    await clock.advance(30 * MINUTE_MS)
    [row] = await scheduled.rows()
    tick_ms = EPOCH_MS + 30 * MINUTE_MS
    assert row.creation.id == f"*/30 * * * *-{tick_ms}"
    assert row.creation.source is TriggerSource.CRON
    assert row.creation.created_ms == tick_ms
    assert row.status is InstanceStatus.COMPLETE
    output = await scheduled.engine.read(row.creation.key, lambda state: state.output)
    assert output is not None
    assert values.decode(output) == {"cron": "*/30 * * * *", "at": tick_ms, "got": {}}
    await scheduled.stop()


async def test_two_expressions_that_are_due_together_make_two_instances() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE, "*/2 * * * *", EVERY_MINUTE)
    await scheduled.start()
    await clock.advance(2 * MINUTE_MS)
    assert await scheduled.ticks(EVERY_MINUTE) == after(1, 2)
    assert await scheduled.ticks("*/2 * * * *") == after(2)
    await scheduled.stop()


async def test_a_daily_schedule_is_due_once_a_day_however_the_clock_is_looked_at() -> None:
    clock = VirtualClock(EPOCH_MS + MINUTE_MS)
    scheduled = Scheduled(clock, DAILY)
    await scheduled.start()
    for _ in range(3 * 24 * 60 // 7):
        await clock.advance(7 * MINUTE_MS)
    assert await scheduled.ticks(DAILY) == after(1440, 2880, 4320)
    await scheduled.stop()


def test_a_clock_that_jumps_ahead_makes_one_tick_and_then_every_minute_again() -> None:
    async def jump() -> None:
        clock = LoopClock()
        scheduled = Scheduled(clock, EVERY_MINUTE, DAILY)
        await scheduled.start()
        await asyncio.sleep(90)
        clock.skew(78 * MINUTE_MS)
        await asyncio.sleep(120)
        assert await scheduled.ticks(EVERY_MINUTE) == after(1, 79, 80, 81)
        clock.skew(40 * DAY_MS)
        await asyncio.sleep(1)
        assert await scheduled.ticks(DAILY) == [EPOCH_MS + 40 * DAY_MS]
        await scheduled.stop()

    run_in_virtual_time(jump())


def test_a_clock_that_is_set_back_repeats_no_tick() -> None:
    async def set_back() -> None:
        clock = LoopClock()
        scheduled = Scheduled(clock, EVERY_MINUTE, worker_crons=[EVERY_MINUTE])
        await scheduled.start()
        await asyncio.sleep(125)
        clock.skew(-2 * MINUTE_MS)
        await asyncio.sleep(185)
        await scheduled.stop()
        scheduled.clock = LoopClock(EPOCH_MS - 10 * MINUTE_MS)
        await scheduled.start()
        await asyncio.sleep(8 * 60)
        await scheduled.stop()
        assert await scheduled.ticks(EVERY_MINUTE) == after(1, 2, 3)
        assert [each.scheduled_ms for each in scheduled.worker_ticks] == after(1, 2, 3)

    run_in_virtual_time(set_back())


async def test_ticks_of_the_time_without_a_process_are_passed_over() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE, DAILY)
    await scheduled.start()
    await scheduled.stop()
    await clock.advance_to(EPOCH_MS + 3 * DAY_MS + GRACE_MS)
    await scheduled.start()
    await clock.advance(MINUTE_MS)
    assert await scheduled.ticks(DAILY) == []
    # The minute that is just over is fired late, and no other.
    assert await scheduled.ticks(EVERY_MINUTE) == after(3 * 1440 + 1, 3 * 1440 + 2)
    await scheduled.stop()


async def test_a_catch_up_fires_the_last_missed_tick_and_no_other() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, DAILY, worker_crons=[DAILY])
    await scheduled.start(catch_up=True)
    await clock.advance(10)
    assert await scheduled.rows() == []  # a schedule that is new has missed nothing
    await scheduled.stop()
    await clock.advance_to(EPOCH_MS + 3 * DAY_MS + 5 * 60 * MINUTE_MS)
    for _ in range(3):
        await scheduled.start(catch_up=True)
        await clock.advance(10)
        await scheduled.stop()
    missed_ms = EPOCH_MS + 3 * DAY_MS
    assert await scheduled.ticks(DAILY) == [missed_ms]
    assert scheduled.worker_ticks == [Schedule(DAILY, missed_ms)]


@pytest.mark.parametrize("starts", [1, 20])
async def test_restarts_within_a_tick_fire_it_once(starts: int) -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE, worker_crons=[EVERY_MINUTE])
    await scheduled.start()
    await clock.advance(MINUTE_MS - 1)
    await scheduled.stop()
    await clock.advance_to(EPOCH_MS + MINUTE_MS)
    for _ in range(starts):
        await scheduled.start()
        await scheduled.stop()
    await scheduled.start()
    await clock.advance(1_000)
    await scheduled.stop()
    assert await scheduled.ticks(EVERY_MINUTE) == after(1)
    assert scheduled.worker_ticks == [Schedule(EVERY_MINUTE, EPOCH_MS + MINUTE_MS)]


async def test_a_tick_whose_instance_was_deleted_is_not_fired_again() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE)
    await scheduled.start()
    await clock.advance(MINUTE_MS)
    [row] = await scheduled.rows()
    await scheduled.engine.ask(row.creation.key, DeleteRequested())
    await scheduled.stop()
    await scheduled.start(catch_up=True)
    await clock.advance(1_000)
    await scheduled.stop()
    assert row.creation.key.workflow == NAME
    assert await scheduled.rows() == []


async def test_a_schedule_that_starts_at_its_own_minute_waits_for_the_next() -> None:
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE)
    await scheduled.start()
    await clock.advance(MINUTE_MS - 1)
    assert await scheduled.rows() == []
    await scheduled.stop()


@pytest.mark.parametrize("ahead_days", [2, 365])
def test_a_clock_that_ran_far_ahead_once_silences_no_schedule(
    ahead_days: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def put_right() -> None:
        scheduled = Scheduled(
            LoopClock(EPOCH_MS + ahead_days * DAY_MS), EVERY_MINUTE, worker_crons=[EVERY_MINUTE]
        )
        await scheduled.start()
        await asyncio.sleep(61)
        await scheduled.stop()
        early = ahead_days * 1440 + 1
        scheduled.clock = LoopClock()
        for _ in range(2):
            await scheduled.start()
            await asyncio.sleep(90)
            await scheduled.stop()
        assert await scheduled.ticks(EVERY_MINUTE) == after(2, 3, 4, early)
        assert [each.scheduled_ms for each in scheduled.worker_ticks] == after(early, 2, 3, 4)

    run_in_virtual_time(put_right())
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert all("the clock ran ahead. It is fired from now on." in each for each in told)


def test_a_clock_that_ran_ahead_a_little_repeats_no_tick_and_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def put_right() -> None:
        scheduled = Scheduled(LoopClock(EPOCH_MS + 10 * MINUTE_MS), EVERY_MINUTE)
        await scheduled.start()
        await asyncio.sleep(61)
        await scheduled.stop()
        scheduled.clock = LoopClock()
        await scheduled.start()
        await asyncio.sleep(11 * 60)
        await scheduled.stop()
        assert await scheduled.ticks(EVERY_MINUTE) == after(11, 12)

    run_in_virtual_time(put_right())
    [record] = caplog.records
    assert "T00:11:00+00:00" in record.getMessage()
    assert "It is not fired before then." in record.getMessage()
