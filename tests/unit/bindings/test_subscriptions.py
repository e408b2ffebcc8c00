"""Following an instance's events, in its process and over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowInstance, WorkflowStep
from emulator.domain.values import JsDict
from emulator.engine.subscription import PAGE_ENTRIES
from emulator.errors import EngineStopped, InstanceNotFound, InvalidSubscription, JournalUnavailable
from tests.unit.bindings.hosts import Way, both_ways
from tests.unit.bindings.project import Project, in_virtual_time, pause_for, refusal_of

TYPES = [
    "workflow_queued",
    "workflow_started",
    "workflow_running",
    "step_started",
    "attempt_started",
    "attempt_completed",
    "step_completed",
    "wait_started",
    "workflow_waiting",
    "wait_completed",
    "workflow_running",
    "workflow_completed",
]


async def answers(event: JsDict, step: WorkflowStep) -> Any:
    @step.do("charge")
    async def charge() -> dict[str, Any]:
        return {"amount": {"cents": 5}}

    await charge()
    return (await step.wait_for_event("answer", "answer", timeout="1 hour"))["payload"]


async def many(event: JsDict, step: WorkflowStep) -> None:
    for number in range(event["payload"]):

        @step.do(f"step {number}")
        async def nothing() -> None:
            pass

        await nothing()


async def finished(project: Project, instance: WorkflowInstance) -> None:
    await project.becomes(instance.id, "waiting")
    await instance.send_event(type="answer", payload="yes")
    await project.ended(instance.id)


async def seen(instance: WorkflowInstance, **options: Any) -> list[Any]:
    return [event async for event in instance.subscribe(**options)]


@both_ways
@in_virtual_time
async def test_a_finished_instance_is_replayed_and_ends(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        await finished(project, instance)
        events = await seen(instance)
        assert [event.type for event in events] == TYPES
        ids = [event.eventId for event in events]
        assert ids == sorted(set(ids))
        assert ids[0] == 1
        assert events[6].output.amount.cents == 5
        assert events[-1] == {
            "instanceId": instance.id,
            "eventId": ids[-1],
            "timestamp": project.now_ms(),
            "type": "workflow_completed",
            "output": "yes",
        }


@both_ways
@in_virtual_time
async def test_events_are_heard_when_they_happen(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        async with instance.subscribe() as events:
            for expected in TYPES[:9]:
                answer = await events.next()
                assert (answer.done, answer.value.type) == (False, expected)
            waiting = asyncio.create_task(events.next())
            await instance.send_event(type="answer", payload=1)
            assert (await waiting).value.type == TYPES[9]
            assert [event.type async for event in events] == TYPES[10:]
            assert await events.next() == {"done": True, "value": None}


@both_ways
@in_virtual_time
async def test_the_cursor_is_exclusive_and_the_filter_lets_types_through(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        await finished(project, instance)
        ids = [event.eventId for event in await seen(instance)]
        assert [event.eventId for event in await seen(instance, cursor=ids[3])] == ids[4:]
        wanted = await seen(instance, cursor=2, filter=["step_completed", "workflow_queued"])
        assert [event.type for event in wanted] == ["step_completed"]
        assert await seen(instance, filter=[]) == []
        assert await seen(instance, cursor=ids[-1]) == []


@both_ways
@pytest.mark.parametrize(
    "options",
    [
        {"cursor": -1},
        {"cursor": True},
        {"cursor": 1.5},
        {"cursor": "1"},
        {"filter": "step_started"},
        {"filter": ["step_begun"]},
        {"filter": [1]},
        {"since": 1},
    ],
)
@in_virtual_time
async def test_other_options_are_refused(way: Way, options: dict[str, Any]) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        for arguments, keywords in (([options], {}), ([], options)):
            with pytest.raises(InvalidSubscription) as caught:
                instance.subscribe(*arguments, **keywords)
            assert str(caught.value) == "Invalid Workflow subscription options"
            assert caught.value.detail


@both_ways
@in_virtual_time
async def test_a_cursor_from_before_a_restart_waits_for_larger_ids(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        await project.becomes(instance.id, "waiting")
        async with instance.subscribe() as events:
            heard = [(await events.next()).value.eventId for _ in TYPES[:6]]
            await instance.restart()
            await finished(project, instance)
            rest = [event async for event in events]
        assert heard[-1] < rest[0].eventId
        assert [event.type for event in rest] == TYPES[6:]
        last = rest[-1].eventId
        async with instance.subscribe(cursor=last + 1) as events:
            waiting = asyncio.create_task(events.next())
            await instance.restart()
            await project.becomes(instance.id, "waiting")
            await instance.restart(from_={"name": "answer", "type": "waitForEvent"})
            await finished(project, instance)
            assert (await waiting).value.eventId > last + 1


@both_ways
@in_virtual_time
async def test_a_wait_that_is_cancelled_loses_no_event(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        heard: list[str] = []
        async with instance.subscribe() as events:
            while len(heard) < len(TYPES):
                try:
                    async with asyncio.timeout(60):
                        heard.append((await events.next()).value.type)
                except TimeoutError:
                    await instance.send_event(type="answer", payload=1)
        assert heard == [event.type for event in await seen(instance)]


@both_ways
@in_virtual_time
async def test_a_wait_ends_when_the_subscription_is_closed(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        events = await (await orders.create()).subscribe(cursor=1_000)
        waiting = asyncio.create_task(events.next())
        await pause_for(1)
        await events.close()
        assert (await waiting).done
        assert (await events.next()).done
        await events.close()


@both_ways
@in_virtual_time
async def test_an_instance_that_is_deleted_says_so(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create(id="a")
        assert type(await refusal_of(seen(project.handle("nobody")))) is InstanceNotFound
        async with instance.subscribe(cursor=1_000) as events:
            waiting = asyncio.create_task(events.next())
            await pause_for(1)
            await instance.delete()
            assert type(await refusal_of(waiting)) is InstanceNotFound


@in_virtual_time
async def test_another_instance_of_the_same_id_is_not_mixed_up_with_the_first() -> None:
    async with Project(answers) as project:
        orders = project.workflow
        instance = await orders.create(id="a", params=1)
        async with instance.subscribe(filter=["workflow_started"]) as events:
            assert (await events.next()).value.params == 1
            await instance.delete()
            await orders.create(id="a", params=2)
            await finished(project, instance)
            assert (await events.next()).done
        assert [event.params for event in await seen(instance, filter=["workflow_started"])] == [2]


@both_ways
@in_virtual_time
async def test_a_stopped_engine_ends_the_wait_and_the_next_one_goes_on(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create(id="a")
        async with instance.subscribe(cursor=1_000) as events:
            waiting = asyncio.create_task(events.next())
            await pause_for(1)
            await project.restart()
            assert type(await refusal_of(waiting)) is EngineStopped
            again = await refusal_of(events.next())
            # Over HTTP too: its server has the engine that has stopped.
            assert isinstance(again, EngineStopped | JournalUnavailable)


@both_ways
@in_virtual_time
async def test_a_log_of_many_pages_is_read_to_its_end(way: Way) -> None:
    steps = PAGE_ENTRIES
    async with Project(many) as project, way(project) as orders:
        instance = await orders.create(params=steps)
        async with instance.subscribe(filter=["step_completed"]) as events:
            names = [event.stepName async for event in events]
        assert names == [f"step {number}-1" for number in range(steps)]


@in_virtual_time
async def test_a_reader_that_stands_still_holds_nothing_of_the_engine() -> None:
    async with Project(many) as project:
        instance = await project.workflow.create(params=3)
        events = await instance.subscribe()
        await events.next()
        await project.ended(instance)
        assert not project.engine.feed._watches  # pyright: ignore[reportPrivateUsage]
        assert (await events.next()).value.type == "workflow_started"


@in_virtual_time
async def test_what_is_redacted_stays_so_behind_a_cursor() -> None:
    async def secretive(event: JsDict, step: WorkflowStep) -> None:
        @step.do("key", config={"sensitive": "output"})
        async def key() -> str:
            return "s3cret"

        await key()

    async with Project(secretive) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        for event in await seen(instance, cursor=5):
            assert event.get("output") in (None, "[REDACTED]")
