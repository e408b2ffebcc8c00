"""What a turn takes out of the buffer of streams, and whose instance a reader reads."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from bindings import WorkflowStep
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.values import JsDict
from emulator.engine import streams as buffer
from emulator.engine.reading import StreamReader
from emulator.engine.streams import Streams, Writer, Writing
from emulator.errors import EngineStopped, InstanceNotFound, StreamError
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, Cut, InstanceRow
from tests.unit.bindings.project import NAME, Project, in_virtual_time

MADE = Creation(NAME, "a", msgspec.Raw(b"null"), 1)


async def test_what_an_attempt_has_not_stored_when_its_time_is_up_goes() -> None:
    journal = MemoryJournal()
    await journal.commit(Commit(created=[InstanceRow(1, MADE, InstanceStatus.RUNNING, 1)]))
    streams = Streams(journal, lambda: None)
    writer = Writer(Writing(streams, MADE.key, 1), "slow-1", 1)
    reply = await streams.put(writer, "default", b"late")
    writer.void()
    await streams.load()
    assert streams.take(Commit(), ()) is None
    streams.settle([])
    with pytest.raises(StreamError, match="is over"):
        await reply


async def test_the_buffer_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_PENDING_CHUNK_BYTES", 10)
    streams = Streams(MemoryJournal(), lambda: None)
    writer = Writer(Writing(streams, MADE.key, 1), "large-1", 1)
    await streams.put(writer, "default", 1_234_567)
    second = asyncio.ensure_future(streams.put(writer, "default", 1_234_567))
    assert not (await asyncio.wait({second}, timeout=0))[0]
    await streams.load()
    streams.take(Commit(), ())
    streams.settle([])
    await second


@pytest.mark.parametrize("what", [Commit(deleted=[1]), Commit(cuts=[Cut(1, None)])])
async def test_what_comes_together_with_the_end_of_what_it_is_for_goes(what: Commit) -> None:
    """It would come back in the streams of the restarted instance, or belong to none."""
    journal = MemoryJournal()
    await journal.commit(Commit(created=[InstanceRow(1, MADE, InstanceStatus.RUNNING, 1)]))
    streams = Streams(journal, lambda: None)
    reply = await streams.put(Writer(Writing(streams, MADE.key, 1), "a-1", 1), "default", b"old")
    await streams.load()
    assert streams.take(what, ()) is None
    streams.settle([])
    with pytest.raises(StreamError, match="is over"):
        await reply


async def test_code_that_outlives_its_incarnation_or_the_engine_writes_nothing() -> None:
    streams = Streams(MemoryJournal(), lambda: None)
    dead, living = Writing(streams, MADE.key, 1), Writing(streams, MADE.key, 1)
    dead.close()
    with pytest.raises(StreamError, match="is over"):
        await streams.put(Writer(dead, "a-1", 1), "default", b"late")
    streams.close(EngineStopped("closed"))
    with pytest.raises(EngineStopped):
        await streams.put(Writer(living, "a-1", 1), "default", b"late")


@in_virtual_time
async def test_a_reader_is_told_that_its_instance_is_gone_though_another_has_its_id() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        await step.get_writable().write(event["payload"])
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create(id="a", params=1)
        reader = StreamReader(project.engine, InstanceKey(NAME, "a"), "default")
        assert len(await reader.more()) == 1
        await instance.delete()
        await project.becomes(await project.workflow.create(id="a", params=2), "waiting")
        with pytest.raises(InstanceNotFound):
            await reader.more()
