"""Stored timers: each is loaded once, whether its instance can be woken or not, and none is forgotten."""

from __future__ import annotations

from asyncio import Task, create_task

import msgspec
import pytest

from emulator.core.inputs import TimerFired
from emulator.core.state import InstanceState, StepState
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.engine import sleepers
from emulator.engine.sleepers import HORIZON_MS, Sleepers
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, InstanceRow, TimerRow
from emulator.testing.clock import EPOCH_MS, LoopClock
from emulator.timing.alarm import Timers
from tests.unit.bindings.project import in_virtual_time, pause_for

HOUR_MS = 60 * 60_000
NAP = StepKey(StepKind.SLEEP, "nap", 1)


class Bed:
    """Sleepers over a journal that nothing is ever done to: as if none of the instances could be woken."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.fired: list[tuple[str, int]] = []
        self.looks: list[Task[None]] = []
        self._journal = MemoryJournal()
        self.timers = Timers(self.clock)
        self.sleepers = Sleepers(self._journal, self.timers, self._fire, self.look)

    async def lay(self, *dues_ms: int) -> None:
        """Store an instance for each, with a timer that is due so long after the beginning."""
        first = await self._journal.last_number() + 1
        for number, due_ms in enumerate(dues_ms, first):
            made = Creation("orders", str(number), msgspec.Raw(b"null"), 1)
            row = InstanceRow(number, made, InstanceStatus.WAITING, 1)
            timer = TimerRow(number, NAP, EPOCH_MS + due_ms)
            await self._journal.commit(Commit(created=[row], armed=[timer]))

    def look(self) -> None:
        self.looks.append(create_task(self.sleepers.look_ahead()))

    async def at(self, now_ms: int) -> None:
        """Wait until so long after the beginning."""
        await pause_for((EPOCH_MS + now_ms - self.clock.now_ms()) / 1_000)

    def _fire(self, key: InstanceKey, item: TimerFired) -> None:
        assert self.clock.now_ms() >= item.due_ms
        self.fired.append((key.id, item.due_ms - EPOCH_MS))


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleepers, "ROWS_PER_LOAD", 10)


@pytest.mark.usefixtures("few_at_a_time")
@pytest.mark.parametrize("many", [9, 10, 11, 85])
@pytest.mark.parametrize("due_ms", [0, HORIZON_MS, 5 * HOUR_MS])
@in_virtual_time
async def test_timers_of_one_instant_go_off_once_each(many: int, due_ms: int) -> None:
    bed = Bed()
    await bed.lay(*[due_ms] * many, due_ms + 1)
    bed.look()
    await bed.at(due_ms + HOUR_MS)
    ids = [str(number) for number in range(1, many + 2)]
    assert sorted(bed.fired, key=lambda each: int(each[0])) == [
        *[(each, due_ms) for each in ids[:-1]],
        (ids[-1], due_ms + 1),
    ]
    assert len(bed.looks) <= many // 10 + 4


@pytest.mark.usefixtures("few_at_a_time")
@in_virtual_time
async def test_instances_that_cannot_be_woken_hold_up_no_other() -> None:
    bed = Bed()
    await bed.lay(*[1_000] * 30)
    bed.look()
    await bed.at(HOUR_MS)
    looks = len(bed.looks)
    await bed.lay(2 * HOUR_MS)
    bed.sleepers.watch(InstanceKey("orders", "31"), NAP, EPOCH_MS + 2 * HOUR_MS)
    await bed.at(9 * HOUR_MS)
    assert bed.fired[30:] == [("31", 2 * HOUR_MS)]
    assert len(bed.looks) - looks <= 2


@pytest.mark.usefixtures("few_at_a_time")
@pytest.mark.parametrize("due_ms", [1, HORIZON_MS, HORIZON_MS + 1, 2 * HORIZON_MS, HOUR_MS])
@in_virtual_time
async def test_a_clock_that_is_set_back_lets_nobody_sleep_for_ever(due_ms: int) -> None:
    bed = Bed()
    await bed.lay(2 * HOUR_MS)
    bed.clock.skew(2 * HOUR_MS)
    bed.look()
    await pause_for(1)
    bed.clock.skew(-2 * HOUR_MS)
    bed.look()
    await pause_for(0)
    await bed.lay(due_ms)
    bed.sleepers.watch(InstanceKey("orders", "2"), NAP, EPOCH_MS + due_ms)
    await bed.at(3 * HOUR_MS)
    assert ("2", due_ms) in bed.fired


@pytest.mark.parametrize("is_armed", [True, False])
@in_virtual_time
async def test_a_deadline_that_came_during_the_decision_is_met_unless_its_timer_has_gone_off(
    *, is_armed: bool
) -> None:
    bed = Bed()
    bed.look()
    await bed.at(10)
    due_ms = EPOCH_MS + 10
    nap = StepState(NAP, 1, due_ms=due_ms)
    made = Creation("orders", "1", msgspec.Raw(b"null"), 1)
    state = InstanceState(made, InstanceStatus.WAITING, open={NAP: nap})
    armed = frozenset({NAP}) if is_armed else frozenset[StepKey]()
    bed.sleepers.take(state, armed, due_ms + 1)
    await bed.at(HOUR_MS)
    assert bed.fired == ([("1", 10)] if is_armed else [])


@in_virtual_time
async def test_an_instance_that_leaves_memory_often_has_one_timer() -> None:
    bed = Bed()
    bed.look()
    await bed.at(10)
    made = Creation("orders", "1", msgspec.Raw(b"null"), 1)
    nap = StepState(NAP, 1, due_ms=EPOCH_MS + 1_000)
    state = InstanceState(made, InstanceStatus.WAITING, open={NAP: nap})
    for _ in range(50):
        bed.sleepers.take(state, frozenset({NAP}), EPOCH_MS + 10)
    assert len(bed.timers) == 1
    await bed.at(2_000)
    assert bed.fired == [("1", 1_000)]
