"""Firing the ticks of schedules: those of workflows, and the Worker's cron triggers.

Theory of operation
===================
Each schedule has one timer, for its next tick. A timer may go off late, after a machine has slept or its clock was set:
then the last tick that is over is fired, once, whatever their number, and the next timer is for the next tick to come.

A tick is admitted once, though the process may die at that very moment. The journal knows until when the ticks of a
schedule are settled, and moves that mark in the same transaction that admits a tick: for a workflow the one that creates
the instance, whose id is made of the expression and the tick, so that not even a doubt could make a second one. A start
looks at the last tick since the mark. When it has been missed only just, it is fired late, as Cloudflare's are; otherwise
it is passed over, or fired where that is asked for. The marks outlive the instances, which may be deleted.

A mark in the future is of a clock that ran ahead. It holds for a day at most, so that a clock that is set back by some hours
repeats no tick; one beyond that would silence the schedule until then, and counts as now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from emulator.domain import values
from emulator.domain.cron import Cron
from emulator.domain.instance import Creation, Schedule, TriggerSource
from emulator.domain.limits import DAY_MS
from emulator.engine.engine import Engine
from emulator.errors import EmulatorError, EngineStopped, InstanceAlreadyExists
from emulator.journal.port import Commit, TickRow
from emulator.timing.alarm import Timers
from emulator.timing.clock import Clock

log = logging.getLogger("workflow_emulator")

GRACE_MS: Final = 60_000
"""How late a tick is still fired at a start (Cloudflare fires up to half a minute late): a restart loses none."""

MOST_AHEAD_MS: Final = DAY_MS
"""How far ahead of the clock a mark may be and still hold."""

WORKER: Final = ""
"""What stands for the Worker itself where a workflow is named."""

WorkerTick = Callable[[Schedule], None]


@dataclass(frozen=True, slots=True)
class Trigger:
    """A schedule of a workflow, or of the Worker (`WORKER`)."""

    workflow: str
    cron: Cron


class Schedules:
    """The schedules of an engine. `on_worker_tick` starts the Worker's handler, after the tick is settled.

    `catch_up` is to fire at the start the last tick that was missed, however long ago.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        triggers: Iterable[Trigger],
        on_worker_tick: WorkerTick,
        *,
        catch_up: bool = False,
    ) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))
        self._engine = engine
        self._timers = Timers(clock)
        self._on_worker_tick = on_worker_tick
        self._catch_up = catch_up
        self._firing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Fire what was missed only just, or all the same, and wait for the next ticks. The engine must have started.

        Raises:
            StorageError: the journal cannot be used.
        """
        if not self.triggers:
            return
        now_ms = self._timers.now_ms()
        settled = await self._engine.journal.last_ticks()
        unseen = [
            TickRow(each.workflow, each.cron.text, now_ms)
            for each in self.triggers
            if (each.workflow, each.cron.text) not in settled
        ]
        if unseen:
            await self._engine.journal.commit(Commit(ticks=unseen))
        for trigger in self.triggers:
            settled_ms = settled.get((trigger.workflow, trigger.cron.text), now_ms)
            if settled_ms > now_ms:
                settled_ms = _settled_ahead(trigger, settled_ms, now_ms)
            last_ms = trigger.cron.last_until(now_ms)
            if last_ms > settled_ms and (self._catch_up or now_ms - last_ms < GRACE_MS):
                self._fire(trigger, last_ms)
            self._arm(trigger, trigger.cron.next_after(max(now_ms, settled_ms)))

    async def close(self) -> None:
        """Wait for no more ticks. Those that are being admitted will be."""
        self._timers.close()
        if self._firing:
            await asyncio.wait(self._firing)

    def _arm(self, trigger: Trigger, due_ms: int) -> None:
        self._timers.schedule(due_ms, lambda: self._ring(trigger, due_ms))

    def _ring(self, trigger: Trigger, due_ms: int) -> None:
        now_ms = self._timers.now_ms()
        following_ms = trigger.cron.next_after(due_ms)
        if following_ms <= now_ms:  # this one is very late
            due_ms = trigger.cron.last_until(now_ms)
            following_ms = trigger.cron.next_after(now_ms)
        self._fire(trigger, due_ms)
        self._arm(trigger, following_ms)

    def _fire(self, trigger: Trigger, tick_ms: int) -> None:
        task = asyncio.create_task(self._admit(trigger, Schedule(trigger.cron.text, tick_ms)))
        self._firing.add(task)
        task.add_done_callback(self._firing.discard)

    async def _admit(self, trigger: Trigger, tick: Schedule) -> None:
        try:
            if trigger.workflow == WORKER:
                row = TickRow(WORKER, tick.cron, tick.scheduled_ms)
                await self._engine.journal.commit(Commit(ticks=[row]))
                self._on_worker_tick(tick)
            else:
                await create_scheduled(self._engine, trigger.workflow, tick)
        except EngineStopped:
            pass  # which has said why; the tick is not settled
        except EmulatorError as error:
            log.error("the tick of %s (%s) failed: %s", trigger.workflow, tick.cron, error)


def _settled_ahead(trigger: Trigger, settled_ms: int, now_ms: int) -> int:
    """Until when a schedule is settled that was last fired by a clock that ran ahead; the log says so."""
    is_far = settled_ms - now_ms > MOST_AHEAD_MS
    log.warning(
        "the schedule %s of %s was fired last at %s, which is still to come: the clock ran ahead. %s",
        trigger.cron.text,
        trigger.workflow or "the Worker",
        datetime.fromtimestamp(settled_ms // 1000, UTC).isoformat(),
        "It is fired from now on." if is_far else "It is not fired before then.",
    )
    return now_ms if is_far else settled_ms


async def create_scheduled(engine: Engine, workflow: str, tick: Schedule) -> str:
    """Create the instance of a tick, unless there is one; its id (Cloudflare: Trigger Workflows, schedules).

    Raises:
        WorkflowNotFound: there is no such workflow.
        EngineStopped: nothing was committed.
    """
    instance_id = f"{tick.cron}-{tick.scheduled_ms}"
    creation = Creation(
        workflow,
        instance_id,
        values.encode({}, "params"),
        engine.now_ms(),
        TriggerSource.CRON,
        tick,
    )
    [refusal] = await engine.create([creation], may_be_taken=True)
    if isinstance(refusal, InstanceAlreadyExists):
        log.info("the instance %s of %s was there already", instance_id, workflow)
    return instance_id
