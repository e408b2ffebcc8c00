"""Writing to streams from steps and from `run()`, and reading them, in the engine's process and over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowInstance, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import (
    EngineStopped,
    InstanceNotFound,
    InvalidStream,
    PayloadTooLarge,
    SerializationError,
    StreamError,
    WorkflowContextError,
)
from tests.unit.bindings.hosts import Way, both_ways
from tests.unit.bindings.project import AT_ONCE, Project, in_virtual_time, pause_for, refusal_of

VALUES = ["one", {"two": [2]}, b"\x00\xff", None, 2**70]


async def read(instance: WorkflowInstance, **options: Any) -> list[Any]:
    return [chunk async for chunk in instance.readable(**options)]


async def marks(instance: WorkflowInstance, **options: Any) -> list[tuple[int, Any, str, int]]:
    records = instance.readable(**options).records()
    return [(each.index, each.value, each.step, each.attempt) async for each in records]


async def writes(event: JsDict, step: WorkflowStep) -> None:
    writable = step.get_writable()

    @step.do("write")
    async def write() -> None:
        for value in VALUES:
            await writable.write(value)

    await write()


@both_ways
@in_virtual_time
async def test_what_a_step_writes_is_read_with_its_index_and_its_writer(way: Way) -> None:
    async with Project(writes) as project, way(project) as orders:
        instance = await orders.create()
        await project.ended(instance.id)
        assert await read(instance) == VALUES
        assert await marks(instance, start_index=3) == [
            (3, None, "write-1", 1),
            (4, 2**70, "write-1", 1),
        ]
        assert await read(instance, start_index=-2) == VALUES[-2:]
        assert await read(instance, start_index=-99) == VALUES
        assert await read(instance, startIndex=99) == []
        assert await instance.readable().tail_index() == 4
        assert await instance.stream_info() == {
            "namespace": "default",
            "tailIndex": 4,
            "done": True,
        }
        assert await instance.readable(namespace="other").tail_index() == -1
        assert await read(instance, namespace="other") == []
        assert await instance.list_streams() == [await instance.stream_info("default")]


async def waits(event: JsDict, step: WorkflowStep) -> None:
    writable = step.get_writable("news")

    @step.do("before")
    async def before() -> None:
        await writable.write("before")

    @step.do("after")
    async def after() -> None:
        async with writable:
            await writable.write("after")

    await before()
    await step.wait_for_event("go", "go", timeout="1 hour")
    await after()
    await step.wait_for_event("end", "end", timeout="1 hour")


@both_ways
@in_virtual_time
async def test_a_reader_follows_until_the_stream_is_closed(way: Way) -> None:
    async with Project(waits) as project, way(project) as orders:
        instance = await orders.create()
        async with instance.readable(namespace="news") as news:
            assert await anext(news) == "before"
            waiting = asyncio.create_task(anext(news))
            await project.becomes(instance.id, "waiting")
            assert not (await instance.stream_info("news")).done
            await instance.send_event(type="go")
            assert await waiting == "after"
            assert [chunk async for chunk in news] == []
        assert (await instance.stream_info("news")).done
        assert (await instance.status()).status in ("running", "waiting")


@both_ways
@in_virtual_time
async def test_a_reader_sees_what_a_step_writes_while_that_goes_on(way: Way) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("count")
        async def count() -> None:
            for number in range(3):
                await writable.write(number)
                await pause_for(60)

        await count()

    async with Project(run) as project, way(project) as orders:
        instance = await orders.create()
        began_ms = project.now_ms()
        async for number in instance.readable():
            assert project.now_ms() - began_ms < 60_000 * number + 10_000


@in_virtual_time
async def test_a_reader_is_told_when_the_engine_stops() -> None:
    async with Project(waits) as project:
        instance = await project.workflow.create()
        reading = asyncio.create_task(read(instance, namespace="news"))
        await project.becomes(instance, "waiting")
        await project.engine.close()
        assert isinstance(await refusal_of(reading), EngineStopped)


@both_ways
@in_virtual_time
async def test_a_reader_ends_with_the_instance(way: Way) -> None:
    async with Project(waits) as project, way(project) as orders:
        instance = await orders.create()
        reading = asyncio.create_task(read(instance, namespace="news"))
        await project.becomes(instance.id, "waiting")
        await instance.terminate()
        assert await reading == ["before"]


@both_ways
@in_virtual_time
async def test_a_read_that_is_cancelled_loses_nothing(way: Way) -> None:
    async with Project(waits) as project, way(project) as orders:
        instance = await orders.create()
        async with instance.readable(namespace="news") as news:
            assert await anext(news) == "before"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(news), 1)
            await instance.send_event(type="go")
            assert [chunk async for chunk in news] == ["after"]


@both_ways
@in_virtual_time
async def test_what_cannot_be_read_is_refused(way: Way) -> None:
    async with Project(writes) as project, way(project) as orders:
        instance = await orders.create()
        await project.ended(instance.id)
        for index in ("1", 1.5, True, None):
            with pytest.raises(InvalidStream, match="start_index"):
                instance.readable(start_index=index)
        for name in ("", "a\nb", "x" * 257, 7):
            with pytest.raises(InvalidStream, match="namespace"):
                instance.readable(namespace=name)
        with pytest.raises(TypeError, match="'begin'"):
            instance.readable(begin=1)
        reading = instance.readable()
        await instance.delete()
        for gone in (anext(reading), reading.tail_index(), instance.list_streams()):
            assert isinstance(await refusal_of(gone), InstanceNotFound)


@in_virtual_time
async def test_chunks_of_a_retried_attempt_are_written_again_and_marked() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("flaky", config=AT_ONCE)
        async def flaky(ctx: JsDict) -> None:
            writable = step.get_writable()
            await asyncio.gather(*(writable.write(number) for number in range(2)))
            if ctx["attempt"] < 3:
                raise ValueError("again")

        await flaky()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        assert await marks(instance) == [
            (2 * attempt + number, number, "flaky-1", attempt + 1)
            for attempt in range(3)
            for number in range(2)
        ]


@in_virtual_time
async def test_a_write_in_run_happens_once_in_its_place() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("middle")
        async def middle() -> None:
            await writable.write("middle")

        await writable.write("first")
        await middle()
        await step.sleep("nap", "1 hour")
        await writable.write("last")
        await writable.close()
        await step.sleep("another", "1 hour")

    async with Project(run, max_live=0) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await project.restart()
        instance = project.handle(instance)
        await project.ended(instance)
        assert await marks(instance) == [
            (0, "first", None, None),
            (1, "middle", "middle-1", 1),
            (2, "last", None, None),
        ]


@in_virtual_time
async def test_reading_in_run_is_refused_and_in_a_step_it_is_not() -> None:
    read_in_step: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> str:
        instance = project.handle(event["instanceId"])
        await step.get_writable().write(1)

        @step.do("read")
        async def reads() -> None:
            read_in_step.append(await anext(instance.readable()))

        await reads()
        for reading in (anext(instance.readable()), instance.readable().tail_index()):
            assert isinstance(await refusal_of(reading), WorkflowContextError)
        return "refused"

    async with Project(run) as project:
        assert await project.result() == "refused"
        assert read_in_step == [1]


@in_virtual_time
async def test_a_closed_stream_takes_nothing_and_says_so_the_same_in_a_replay() -> None:
    seen: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("late")
        async def late() -> None:
            await writable.write("late")

        await writable.close()
        await writable.close()
        for writing in (late(), writable.write("late")):
            error = await refusal_of(writing)
            assert isinstance(error, StreamError)
            seen.append(str(error))
        await step.sleep("nap", "1 hour")

    async with Project(run, max_live=0) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).status == "complete"
        assert seen == ['The stream "default" is closed.'] * 4
        assert await read(instance) == []


@in_virtual_time
async def test_a_write_of_run_that_is_refused_holds_up_no_close() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> str:
        writable = step.get_writable()
        await writable.close()
        error = await refusal_of(writable.write("late"))
        await asyncio.wait_for(writable.close(), 60)
        return str(error)

    async with Project(run) as project:
        assert await project.result() == 'The stream "default" is closed.'


@in_virtual_time
async def test_chunks_that_cannot_be_stored_are_refused_with_the_path() -> None:
    refusals: list[Exception] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("write")
        async def write() -> None:
            bad = ({"at": [object()]}, b"x" * (2**20 + 1))
            refusals.extend(
                [await refusal_of(step.get_writable("log").write(each)) for each in bad]
            )
            await step.get_writable("log").write(b"x" * 2**20)

        await write()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        assert [type(each) for each in refusals] == [SerializationError, PayloadTooLarge]
        assert 'a chunk of the stream "log" at at[0]' in str(refusals[0])
        assert await read(instance, namespace="log") == [b"x" * 2**20]


@in_virtual_time
async def test_a_block_that_raises_leaves_the_stream_open_for_the_next_attempt() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("write", config=AT_ONCE)
        async def write(ctx: JsDict) -> None:
            async with step.get_writable() as writable:
                await writable.write(ctx["attempt"])
                if ctx["attempt"] == 1:
                    raise ValueError("again")

        await write()

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).status == "complete"
        assert await read(instance) == [1, 2]


@in_virtual_time
async def test_a_result_waits_for_what_its_step_has_begun_to_write() -> None:
    left: list[asyncio.Task[None]] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("hurry")
        async def hurry() -> None:
            left.extend(asyncio.create_task(writable.write(number)) for number in range(2_500))
            await asyncio.sleep(0)

        await hurry()
        status = await instance_of(event).stream_info()
        assert status.tailIndex == 2_499

    def instance_of(event: JsDict) -> WorkflowInstance:
        return project.handle(event["instanceId"])

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).status == "complete"
        await asyncio.gather(*left)
        assert await read(instance) == list(range(2_500))


@in_virtual_time
async def test_an_attempt_that_has_timed_out_writes_no_more() -> None:
    late: list[Exception] = []
    is_over = asyncio.Event()

    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("slow", config={"retries": {"limit": 1, "delay": 0}, "timeout": 1_000})
        async def slow(ctx: JsDict) -> None:
            await writable.write(ctx["attempt"])
            if ctx["attempt"] == 1:
                await is_over.wait()
                late.append(await refusal_of(writable.write("late")))

        await slow()
        is_over.set()
        await step.sleep("nap", 1_000)

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        assert (
            str(late[0]) == 'Attempt 1 of step "slow-1" is over; what it still writes is not taken.'
        )
        assert await read(instance) == [1, 2]


@in_virtual_time
async def test_a_rollback_handler_writes_too() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        async def release() -> None:
            await writable.write("released")

        @step.do("reserve", rollback=release)
        async def reserve() -> None:
            await writable.write("reserved")

        await reserve()
        raise ValueError("no")

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).status == "errored"
        assert await read(instance) == ["reserved", "released"]


async def phases(event: JsDict, step: WorkflowStep) -> None:
    writable = step.get_writable()

    @step.do("a")
    async def first() -> None:
        await writable.write("a")
        await step.get_writable("of a").close()

    @step.do("b")
    async def second() -> None:
        await writable.write("b")
        await step.get_writable("of b").close()

    await first()
    await second()
    await step.wait_for_event("go", "go", timeout="1 hour")


@both_ways
@in_virtual_time
async def test_a_restart_begins_streams_anew_and_a_reader_sees_it(way: Way) -> None:
    async with Project(phases) as project, way(project) as orders:
        instance = await orders.create()
        records = instance.readable().records()
        assert [(await anext(records)).value for _ in "ab"] == ["a", "b"]
        await project.becomes(instance.id, "waiting")
        await instance.restart()
        assert [(await anext(records)).index for _ in "ab"] == [0, 1]
        await project.becomes(instance.id, "waiting")
        await instance.terminate()
        assert [each async for each in records] == []
        assert await read(instance) == ["a", "b"]


@in_virtual_time
async def test_a_restart_from_a_step_appends_and_opens_what_that_step_had_closed() -> None:
    async with Project(phases) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await instance.terminate()
        await instance.restart(from_={"name": "b"})
        await project.becomes(instance, "waiting")
        assert (await instance.stream_info("of a")).done
        assert (await instance.stream_info("of b")).done
        await instance.terminate()
        assert await read(instance) == ["a", "b", "b"]


@in_virtual_time
async def test_names_of_the_engine_are_not_shown_and_not_allowed() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        await step.get_writable().write(1)
        for name in ("\x1fstream.write", "\x1fcharge-1"):
            with pytest.raises(InvalidStream):
                step.get_writable(name)

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance)).status == "complete"
        shown = [event.get("stepName") async for event in instance.subscribe()]
        assert set(shown) == {None}


@in_virtual_time
async def test_a_write_and_a_close_at_once_leave_all_that_was_acknowledged_before_the_end() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        writable = step.get_writable()
        await asyncio.gather(writable.write(1), writable.close())
        with pytest.raises(StreamError):
            await writable.write(2)
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert await read(instance) == [1]
        await project.ended(instance)
        assert await read(instance) == [1]


@both_ways
@in_virtual_time
async def test_a_slow_reader_is_told_all_of_a_stream_that_has_caught_up_since(way: Way) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        lives.append(len(lives))
        for _ in range(3 + 2 * lives[-1]):
            await step.get_writable().write(f"life {lives[-1]}")
        await step.sleep("nap", "1 hour")

    lives: list[int] = []
    async with Project(run) as project, way(project) as orders:
        instance = await orders.create()
        records = instance.readable().records()
        await project.becomes(instance.id, "waiting")
        assert [(await anext(records)).value for _ in "abc"] == ["life 0"] * 3
        await instance.restart()
        await project.becomes(instance.id, "waiting")
        found = [await anext(records) for _ in "abcde"]
        assert [(each.index, each.value) for each in found] == [(n, "life 1") for n in range(5)]
        await instance.terminate()
        assert [each async for each in records] == []


@in_virtual_time
async def test_a_reader_of_an_instance_that_has_not_begun_keeps_its_index() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.do("work")(lambda: pause_for(60))()
        for value in "abc":
            await step.get_writable().write(value)

    async with Project(run, concurrency_limit=1) as project:
        await project.workflow.create()
        second = await project.workflow.create()
        assert (await second.status())["status"] == "queued"
        assert await read(second, start_index=1) == ["b", "c"]
