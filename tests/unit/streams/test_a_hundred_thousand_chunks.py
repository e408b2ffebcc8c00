"""A long stream in a file: one step writes it, three readers read it at their own speed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bindings import Workflow, WorkflowInstance, WorkflowStep
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from bindings.http import HttpWorkflow
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_PENDING_CHUNKS
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.outputs import PAGE_CHUNKS
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.port import Commit, StreamPage
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock
from tests.unit.bindings.project import AT_ONCE, workflow_class
from tests.unit.streams.served import served

CHUNKS = 100_000
FIRST_TRY = 5_000
"""How many the first attempt writes before it fails."""

BURST = 10_000

Record = tuple[int, int, str, int]
EXPECTED: list[Record] = [
    *((number, number, "write-1", 1) for number in range(FIRST_TRY)),
    *((FIRST_TRY + number, number, "write-1", 2) for number in range(CHUNKS)),
]


async def writes(event: JsDict, step: WorkflowStep) -> None:
    writable = step.get_writable()

    @step.do("write", config=AT_ONCE)
    async def write(ctx: JsDict) -> None:
        fails = ctx["attempt"] == 1
        numbers = iter(range(FIRST_TRY if fails else CHUNKS))

        async def work() -> None:
            for number in numbers:
                await writable.write(number)

        await asyncio.gather(*(work() for _ in range(2 * MAX_PENDING_CHUNKS)))
        if fails:
            raise OSError("the line is dead")

    await write()


class Observed(SqliteJournal):
    """Knows the size of what goes to the file and what comes from it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.written: Counter[int] = Counter()
        self.read: Counter[int] = Counter()

    async def commit(self, commit: Commit) -> None:
        self.written[len(commit.streams.chunks) if commit.streams else 0] += 1
        await super().commit(commit)

    async def chunks(
        self, key: InstanceKey, stream: str, first: int, limit: int, most_bytes: int
    ) -> StreamPage | None:
        page = await super().chunks(key, stream, first, limit, most_bytes)
        self.read[len(page.chunks) if page else 0] += 1
        return page


class Reader:
    """Reads a stream and checks it against what must be there, one after the other."""

    def __init__(self) -> None:
        self.expected: Iterator[Record] = iter(EXPECTED)
        self.next = 0
        self.moved = asyncio.Event()

    async def read(self, instance: WorkflowInstance) -> None:
        """Go on where it was, to the end."""
        async with instance.readable(start_index=self.next) as readable:
            async for each in readable.records():
                assert tuple(each.values()) == next(self.expected)
                self.next += 1
                self.moved.set()
                await self.rest()

    async def reaches(self, index: int) -> None:
        """Wait until it has read so far."""
        while self.next < index:
            self.moved.clear()
            await self.moved.wait()

    async def rest(self) -> None:
        """Wait before the next chunk: not at all."""


class SlowReader(Reader):
    """Lets another one get ahead, again and again."""

    def __init__(self, other: Reader) -> None:
        super().__init__()
        self._other = other

    async def rest(self) -> None:
        if self.next % BURST == 0:
            await self._other.reaches(min(self.next + 3 * BURST, len(EXPECTED)))


async def killed_and_resumed(url: str, instance_id: str, reader: Reader) -> None:
    """Read from another connection, which is dropped in the middle; a new one goes on."""
    async with HttpWorkflow(url, "writes") as binding:
        first = asyncio.create_task(reader.read(await binding.get(instance_id)))
        await reader.reaches(FIRST_TRY + 777)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
    async with HttpWorkflow(url, "writes") as binding:
        await reader.read(await binding.get(instance_id))


async def test_a_hundred_thousand_chunks_reach_three_readers_once(
    tmp_path: Path,
) -> None:
    journal = Observed(tmp_path / "journal.db")
    program = program_of(workflow_class(writes), None, None)
    engine = Engine(journal, SystemClock(), [WorkflowDefinition("writes", program)])
    await engine.start()
    try:
        async with served(engine) as port, asyncio.timeout(120):
            fast, other = Reader(), Reader()
            slow = SlowReader(fast)
            instance = await Workflow(EngineHost(engine), "writes").create()
            async with asyncio.TaskGroup() as readers:
                readers.create_task(fast.read(instance))
                readers.create_task(slow.read(instance))
                readers.create_task(
                    killed_and_resumed(f"http://127.0.0.1:{port}", instance.id, other)
                )
            assert (await instance.status()).status == "complete"
    finally:
        await engine.close()
    assert [fast.next, slow.next, other.next] == [len(EXPECTED)] * 3
    assert max(journal.written) <= MAX_PENDING_CHUNKS
    assert journal.written.total() < len(EXPECTED) / 50
    assert max(journal.read) <= PAGE_CHUNKS
