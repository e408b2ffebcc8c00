"""Steps that return a stream of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bindings import Workflow, WorkflowStep
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from emulator.domain import values
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_OUTPUT_CHUNK_BYTES, OUTPUT_PIECE_BYTES
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.outputs import PAGE_CHUNKS
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.archive import from_document, to_document
from emulator.journal.looking import look
from emulator.journal.sqlite import SqliteJournal
from emulator.testing.loop import run
from emulator.testing.replay import Returned, replay
from emulator.timing.clock import SystemClock
from tests.unit.bindings.project import (
    AT_ONCE,
    Project,
    in_virtual_time,
    pause_for,
    workflow_class,
)

MANY = 3 * PAGE_CHUNKS + 1


async def numbers(many: int) -> AsyncIterator[bytes]:
    for number in range(many):
        yield str(number).encode()


async def collected(chunks: Any) -> list[bytes]:
    return [chunk async for chunk in chunks]


@in_virtual_time
async def test_a_generator_is_stored_and_read_again_in_every_life() -> None:
    calls: list[str] = []
    read: list[list[bytes]] = []

    async def run(event: JsDict, step: WorkflowStep) -> int:
        @step.do("count")
        async def count() -> Any:
            calls.append("count")
            async for each in numbers(MANY):
                yield each

        read.append(await collected(await count()))
        await step.sleep("nap", "1 hour")
        return len(read[-1])

    async with Project(run, max_live=0) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await project.restart()
        assert (await project.ended(instance)).output == MANY
        assert calls == ["count"]
        assert len(read) > 1
        assert all(each == [str(number).encode() for number in range(MANY)] for each in read)
        assert await project.handle(instance).list_streams() == []


@in_virtual_time
async def test_every_reader_of_a_result_reads_from_its_beginning() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def letters() -> Any:
            return numbers(3)

        @step.do()
        async def first(letters: Any) -> list[bytes]:
            return await collected(letters)

        @step.do()
        def kind(letters: Any) -> str:
            return type(letters).__name__

        result = await letters()
        assert await anext(result) == b"0"
        assert await anext(result) == b"1"
        return [await first(), await first(), await collected(result), await kind()]

    async with Project(run) as project:
        whole = [b"0", b"1", b"2"]
        assert await project.result() == [whole, whole, whole, "StoredOutput"]


@in_virtual_time
async def test_large_chunks_are_stored_in_pieces_and_a_plain_function_may_return_them() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def large() -> AsyncIterator[Any]:
            yield bytearray(2 * OUTPUT_PIECE_BYTES + 1)
            yield b""
            yield memoryview(b"end")

        @step.do("large")
        def makes() -> Any:
            return large()

        return [len(each) async for each in await makes()]

    async with Project(run) as project:
        assert await project.result() == [OUTPUT_PIECE_BYTES, OUTPUT_PIECE_BYTES, 1, 3]


@in_virtual_time
async def test_a_retry_begins_from_nothing() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("flaky", config=AT_ONCE)
        async def flaky(ctx: JsDict) -> Any:
            for number in range(4):
                yield f"{ctx['attempt']}.{number}".encode()
                if ctx["attempt"] < 3 and number == ctx["attempt"]:
                    raise OSError("the line is dead")

        return await collected(await flaky())

    async with Project(run) as project:
        assert await project.result() == [b"3.0", b"3.1", b"3.2", b"3.3"]


@pytest.mark.parametrize(
    ("bad", "kind"), [("text", "str"), (None, "NoneType"), ([b"list"], "list")]
)
def test_a_chunk_that_is_not_bytes_fails_the_step(bad: Any, kind: str) -> None:
    @in_virtual_time
    async def test() -> None:
        calls: list[int] = []

        async def run(event: JsDict, step: WorkflowStep) -> Any:
            @step.do("photos", config=AT_ONCE)
            async def photos(ctx: JsDict) -> Any:
                calls.append(ctx["attempt"])
                yield b"good"
                yield bad

            await photos()

        async with Project(run) as project:
            assert await project.error() == (
                "SerializationError",
                f'the result of step "photos-1", chunk 1: a stream yields bytes only, and this is of type {kind}',
            )
            assert calls == [1]

    test()


@in_virtual_time
async def test_a_chunk_that_is_too_large_fails_the_step() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("photos")
        async def photos() -> Any:
            yield bytes(MAX_OUTPUT_CHUNK_BYTES + 1)

        await photos()

    async with Project(run) as project:
        _, message = await project.error()
        assert message == (
            'the result of step "photos-1", chunk 0 has 16777217 bytes; 16777216 (16 MiB) are allowed.'
        )


@in_virtual_time
async def test_a_stream_that_takes_too_long_is_given_up() -> None:
    goes_on = asyncio.Event()
    unwound: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        config = {"retries": {"limit": 1, "delay": 0}, "timeout": 1_000}

        @step.do("slow", config=config)
        async def slow(ctx: JsDict) -> Any:
            try:
                yield str(ctx["attempt"]).encode()
                if ctx["attempt"] == 1:
                    await goes_on.wait()
                    yield b"late"
            finally:
                unwound.append(ctx["attempt"])

        result = await slow()
        goes_on.set()
        await step.sleep("nap", 1_000)
        return await collected(result)

    async with Project(run) as project:
        assert await project.result() == [b"2"]
        assert sorted(unwound) == [1, 2]


@in_virtual_time
async def test_a_rollback_handler_gets_the_stream() -> None:
    read: list[list[bytes]] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        async def undo(output: Any) -> None:
            read.append(await collected(output))

        @step.do("write", rollback=undo)
        async def write() -> Any:
            return numbers(2)

        await write()
        raise ValueError("no")

    async with Project(run) as project:
        await project.error()
        assert read == [[b"0", b"1"]]


@in_virtual_time
async def test_a_restart_from_the_step_makes_it_anew() -> None:
    lives: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("first")
        async def first() -> Any:
            yield b"first"

        @step.do("second")
        async def second() -> Any:
            lives.append("life")
            for each in lives:
                yield each.encode()

        return [await collected(await first()), await collected(await second())]

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).output == [[b"first"], [b"life"]]
        await instance.restart(from_={"name": "second"})
        assert (await project.ended(instance)).output == [[b"first"], [b"life", b"life"]]


@in_virtual_time
async def test_an_instance_is_not_at_rest_while_its_code_reads() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("count")
        async def count() -> Any:
            return numbers(MANY)

        async def read() -> int:
            many = len(await collected(await count()))
            await pause_for(0)
            return many

        many, _ = await asyncio.gather(read(), step.sleep("nap", "1 hour"))
        return many

    async with Project(run, max_live=0) as project:
        assert await project.result() == MANY


@in_virtual_time
async def test_what_is_shown_of_a_stream_is_its_size() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("count")
        async def count() -> Any:
            return numbers(11)

        await count()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        shown = [event async for event in instance.subscribe(filter=["step_completed"])]
        assert [event.output for event in shown] == ["[ReadableStream: 12 bytes]"]


async def copies(event: JsDict, step: WorkflowStep) -> list[bytes]:
    @step.do("count")
    async def count() -> Any:
        return numbers(3)

    await step.get_writable().write("beside")
    return await collected(await count())


async def test_a_replay_of_a_recorded_journal_reads_the_stream_too(tmp_path: Path) -> None:
    definition = WorkflowDefinition("copies", program_of(workflow_class(copies), None, None))
    path = tmp_path / "journal.db"
    engine = Engine(SqliteJournal(path), SystemClock(), [definition])
    await engine.start()
    await Workflow(EngineHost(engine), "copies").create(id="one")
    key = InstanceKey("copies", "one")
    await engine.until(key, lambda state: state.is_terminal or None)
    await engine.close()
    [stored] = look(path)
    assert len(stored.outputs) == 3
    recorded = from_document(to_document(stored), "a document")
    replayed = await asyncio.to_thread(lambda: run(replay(recorded, definition)))
    assert isinstance(replayed.end, Returned)
    assert values.decode(replayed.end.output) == [b"0", b"1", b"2"]
