"""A stream that is larger than what may be in memory, and a client that does not read it."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

from bindings import Workflow, WorkflowStep, wire
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from emulator.domain.limits import MAX_PENDING_CHUNK_BYTES
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock
from tests.unit.bindings.project import workflow_class
from tests.unit.streams.served import served

CHUNKS = 4_000
FILLING = "." * 40_000
MOST_GROWTH_BYTES = 8 * MAX_PENDING_CHUNK_BYTES
"""The buffer, what goes from it to the file in several forms, and a page for each who reads; all is 160 MB."""


async def writes(event: JsDict, step: WorkflowStep) -> None:
    writable = step.get_writable()

    @step.do("write")
    async def write() -> None:
        async with asyncio.TaskGroup() as writers:
            for number in range(CHUNKS):
                writers.create_task(writable.write([number, FILLING]))

    await write()


async def test_neither_a_hasty_writer_nor_a_client_that_does_not_read_fills_memory(
    tmp_path: Path,
) -> None:
    program = program_of(workflow_class(writes), None, None)
    journal = SqliteJournal(tmp_path / "journal.db")
    engine = Engine(journal, SystemClock(), [WorkflowDefinition("writes", program)])
    await engine.start()
    try:
        async with served(engine) as port, asyncio.timeout(120):
            tracemalloc.start()
            instance = await Workflow(EngineHost(engine), "writes").create(id="one")
            client, hanging_up = await asyncio.open_connection("127.0.0.1", port)
            path = f"{wire.PREFIX}/writes/instances/one/streams/default"
            hanging_up.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            head = await client.readuntil(b"\r\n\r\n")
            numbers = [chunk[0] async for chunk in instance.readable()]
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            lines = [int(line[1:].partition(b",")[0]) async for line in client]
            hanging_up.close()
    finally:
        await engine.close()
    assert b" 200 OK" in head
    assert numbers == lines == list(range(CHUNKS))
    assert peak < MOST_GROWTH_BYTES
