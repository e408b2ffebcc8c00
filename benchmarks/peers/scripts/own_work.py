"""This project, on the journal that `workflow-emulator dev` writes; a first argument `full` is its `--durability full`."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from benchmarks.peers.scripts import protocol
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.sqlite import SqliteJournal
from wrangler_compat.config import load_config
from wrangler_compat.project import Project, open_project

WORKER = Path(__file__).parents[2] / "worker"
FULL = "full"


class Engine:
    def __init__(self, project: Project) -> None:
        self.project = project
        self.ends: list[asyncio.Task[bool]] = []  # of those that wait for an event

    async def create(self, ids: list[str], steps: int, seconds: float) -> None:
        create = self.project.worker.env.STEPS.create
        params = {"steps": steps, "seconds": seconds}
        await asyncio.gather(*(create(id=identity, params=params) for identity in ids))

    async def park(self, identity: str) -> None:
        await self.project.worker.env.WAITER.create(id=identity)
        await self.until(identity, InstanceStatus.WAITING)
        self.ends.append(asyncio.create_task(self.until(identity, InstanceStatus.COMPLETE)))

    async def until(self, identity: str, wanted: InstanceStatus) -> bool:
        return await self.project.engine.until(
            InstanceKey("waiter", identity), lambda state: state.status is wanted or None
        )

    async def send(self, identity: str) -> None:
        instance = await self.project.worker.env.WAITER.get(identity)
        await instance.send_event(type="answer", payload={"n": 1})

    async def finished(self, ids: list[str]) -> int:
        if self.ends:
            return sum(end.done() for end in self.ends)
        counts = await self.project.engine.journal.status_counts("steps")
        return counts.get(InstanceStatus.COMPLETE, 0)


@contextlib.asynccontextmanager
async def opened(folder: Path, *, full_durability: bool) -> AsyncGenerator[Engine]:
    journal = SqliteJournal(folder / "journal.sqlite", full_durability=full_durability)
    async with open_project(load_config(WORKER), journal) as project:
        yield Engine(project)


if __name__ == "__main__":
    full = sys.argv[1] == FULL
    if full:
        del sys.argv[1]
    protocol.main(partial(opened, full_durability=full))
