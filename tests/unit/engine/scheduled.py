"""An engine with schedules, over a journal that outlives it."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.domain.cron import parse_cron
from emulator.domain.instance import Schedule
from emulator.engine.engine import Engine
from emulator.engine.programs import Program, RunEvent, WorkflowDefinition
from emulator.engine.schedules import WORKER, Schedules, Trigger
from emulator.engine.steps import StepContext
from emulator.errors import JournalUnavailable
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, InstanceQuery, InstanceRow
from emulator.timing.clock import Clock

NAME = "report"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class MortalJournal(MemoryJournal):
    """A journal that fails at a commit of a tick when it is told to, before or after it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: str | None = None

    async def commit(self, commit: Commit) -> None:
        """Write, unless it is time to fail."""
        fails = self.fails if commit.created else None
        if fails == "before":
            raise JournalUnavailable("The disk is full.")
        await super().commit(commit)
        if fails == "after":
            raise JournalUnavailable("The disk has gone.")


class _Report(Program):
    async def run(self, event: RunEvent, step: StepContext) -> object:
        """Give what a user sees of the tick."""
        assert event.schedule is not None
        return {
            "cron": event.schedule.cron,
            "at": event.schedule.scheduled_ms,
            "got": event.payload,
        }


class Scheduled:
    """One process after another: each is a `start`, and a `stop` or a death."""

    def __init__(self, clock: Clock, *crons: str, worker_crons: Sequence[str] = ()) -> None:
        self.clock = clock
        self.journal = MortalJournal()
        self.worker_ticks: list[Schedule] = []
        self._triggers = [Trigger(NAME, parse_cron(each)) for each in crons]
        self._triggers += [Trigger(WORKER, parse_cron(each)) for each in worker_crons]

    async def start(self, *, catch_up: bool = False) -> None:
        """Begin a process."""
        self.journal.fails = None
        self.engine = Engine(self.journal, self.clock, [WorkflowDefinition(NAME, _Report)])
        await self.engine.start()
        self._schedules = Schedules(
            self.engine, self.clock, self._triggers, self.worker_ticks.append, catch_up=catch_up
        )
        await self._schedules.start()

    async def stop(self) -> None:
        """End the process, in good order unless its journal has failed."""
        await self._schedules.close()
        await self.engine.close()

    async def rows(self) -> list[InstanceRow]:
        """The instances, oldest first."""
        return await self.journal.rows(InstanceQuery(NAME, ascending=True, limit=1_000_000))

    async def ticks(self, cron: str) -> list[int]:
        """The ticks that have an instance, in the order of their creation."""
        schedules = [row.creation.schedule for row in await self.rows()]
        return [each.scheduled_ms for each in schedules if each is not None and each.cron == cron]
