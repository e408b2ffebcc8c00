"""Every tick once, though the process ends and dies at any moment, also at that of a tick."""

from __future__ import annotations

import logging
import random
from collections import Counter

import pytest

from emulator.errors import EngineStopped
from emulator.testing.clock import EPOCH_MS, VirtualClock
from tests.unit.engine.scheduled import DAY_MS, MINUTE_MS, Scheduled

EVERY_MINUTE = "* * * * *"
RESTARTS = 50
DAYS = 1


def moments(rng: random.Random) -> list[int]:
    """When the process ends: at a tick, a millisecond before or after, or any time."""
    found: set[int] = set()
    while len(found) < RESTARTS:
        at_ms = EPOCH_MS + rng.randrange(DAYS * DAY_MS)
        tick_ms = at_ms - at_ms % MINUTE_MS + MINUTE_MS
        found.add(rng.choice((at_ms, tick_ms, tick_ms, tick_ms - 1, tick_ms + 1)))
    return sorted(found)


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_minute_of_simulated_days_is_fired_once_across_fifty_restarts(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="workflow_emulator")
    rng = random.Random(seed)
    clock = VirtualClock()
    scheduled = Scheduled(clock, EVERY_MINUTE, worker_crons=[EVERY_MINUTE])
    await scheduled.start()
    ends: Counter[str] = Counter()
    for at_ms in moments(rng):
        await clock.advance_to(max(at_ms - 1, clock.now_ms()))
        end = rng.choice(("stops", "is away", "dies before", "dies after"))
        ends[end] += 1
        if end == "stops":
            await clock.advance(1)
        elif end != "is away":
            scheduled.journal.fails = end.removeprefix("dies ")
            await clock.advance(MINUTE_MS - clock.now_ms() % MINUTE_MS)
            with pytest.raises(EngineStopped):
                await scheduled.engine.closed()
        await scheduled.stop()
        await clock.advance(rng.choice((0, 1, 1_000)))
        await scheduled.start()
    await clock.advance_to(EPOCH_MS + DAYS * DAY_MS)
    await scheduled.stop()
    every = [EPOCH_MS + each * MINUTE_MS for each in range(1, DAYS * 24 * 60 + 1)]
    assert len(ends) == 4, "the process has ended in every way"
    assert await scheduled.ticks(EVERY_MINUTE) == every
    assert [each.scheduled_ms for each in scheduled.worker_ticks] == every
