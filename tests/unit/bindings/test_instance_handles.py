"""Pausing, resuming, restarting, terminating and deleting through a handle, at every moment of a life."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bindings import WorkflowInstance, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import (
    CannotTerminate,
    InstanceFinished,
    InstanceNotFound,
    InvalidInput,
    StepNotFound,
)
from tests.unit.bindings.hosts import Way, both_ways
from tests.unit.bindings.project import Project, in_virtual_time, pause_for, refusal_of

FINISHED = ["complete", "errored", "terminated"]


def phases(log: list[str]) -> Any:
    """A step of ten seconds, a sleep of an hour, a wait; every life and every body is logged."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("work")
        async def work() -> str:
            log.append("work")
            await pause_for(10)
            return "worked"

        @step.do("finish")
        async def finish() -> str:
            log.append("finish")
            return "finished"

        result = await work()
        await step.sleep("nap", "1 hour")
        answer = (await step.wait_for_event("answer", "answer", timeout="1 hour"))["payload"]
        return [result, answer, await finish()]

    return run


class Moments:
    """Brings an instance of `phases` to a moment of its life."""

    def __init__(self, project: Project) -> None:
        self._project = project

    async def __call__(self, moment: str) -> WorkflowInstance:
        if moment == "queued":
            await self._project.workflow.create(id="first")
            return await self._project.workflow.create()
        instance = await self._project.workflow.create()
        await pause_for(5)
        match moment:
            case "in a step":
                pass
            case "pausing":
                await instance.pause()
            case "sleeping":
                await pause_for(6)
            case "sleeping, unloaded":
                await pause_for(600)
            case "waiting":
                await pause_for(3_606)
            case "waiting, unloaded":
                await pause_for(4_000)
            case "paused":
                await pause_for(6)
                await instance.pause()
            case "complete":
                await instance.send_event(type="answer", payload=1)
                await pause_for(4_000)
            case "errored":
                await pause_for(10_000)
            case "terminated":
                await instance.terminate()
            case _:
                raise AssertionError(moment)
        return instance


STATUSES = {
    "queued": "queued",
    "in a step": "running",
    "pausing": "waitingForPause",
    "sleeping": "waiting",
    "sleeping, unloaded": "waiting",
    "waiting": "waiting",
    "waiting, unloaded": "waiting",
    "paused": "paused",
    "complete": "complete",
    "errored": "errored",
    "terminated": "terminated",
}
every_moment = pytest.mark.parametrize("moment", STATUSES)


def phased(log: list[str], moment: str) -> Project:
    return Project(phases(log), concurrency_limit=1 if moment == "queued" else None)


@every_moment
@in_virtual_time
async def test_each_moment_has_its_status(moment: str) -> None:
    async with phased([], moment) as project:
        instance = await Moments(project)(moment)
        assert (await instance.status())["status"] == STATUSES[moment]


@every_moment
@in_virtual_time
async def test_pausing_takes_hold_between_steps_and_resuming_ends_it(moment: str) -> None:
    log: list[str] = []
    async with phased(log, moment) as project:
        instance = await Moments(project)(moment)
        before = await instance.status()
        await instance.pause()
        if moment in FINISHED:
            assert await instance.status() == before
            await instance.resume()
            assert await instance.status() == before
            return
        if moment in ("in a step", "pausing"):
            assert (await instance.status())["status"] == "waitingForPause"
            await pause_for(6)
        assert (await instance.status())["status"] == "paused"
        await instance.pause()
        await instance.send_event(type="answer", payload="kept")
        await pause_for(86_400)
        assert (await instance.status())["status"] == "paused"
        assert await project.timers() == 0
        if moment == "queued":
            await project.ended("first")
        await instance.resume()
        assert (await project.ended(instance))["output"] == ["worked", "kept", "finished"]
        assert log.count("finish") == 1


@every_moment
@in_virtual_time
async def test_resuming_what_is_not_paused_changes_nothing(moment: str) -> None:
    async with phased([], moment) as project:
        instance = await Moments(project)(moment)
        before = await instance.status()
        if moment in ("pausing", "paused"):
            return
        await instance.resume()
        assert await instance.status() == before


@every_moment
@in_virtual_time
async def test_terminating_is_final_and_what_has_ended_cannot_be_terminated(moment: str) -> None:
    log: list[str] = []
    async with phased(log, moment) as project:
        instance = await Moments(project)(moment)
        before = await instance.status()
        bodies = list(log)
        if moment in FINISHED:
            error = await refusal_of(instance.terminate())
            assert isinstance(error, CannotTerminate)
            assert error.code == "instance.cannot_terminate"
            assert await instance.status() == before
        else:
            await instance.terminate()
            assert (await instance.status())["status"] == "terminated"
        await instance.pause()
        await instance.resume()
        error = await refusal_of(instance.send_event(type="answer"))
        assert isinstance(error, InstanceFinished)
        after = await instance.status()
        await pause_for(86_400)
        assert await instance.status() == after
        assert moment == "queued" or log == bodies


@every_moment
@in_virtual_time
async def test_restarting_runs_everything_again_with_the_same_id_and_no_old_events(
    moment: str,
) -> None:
    log: list[str] = []
    async with phased(log, moment) as project:
        instance = await Moments(project)(moment)
        if moment not in FINISHED:
            await instance.send_event(type="other", payload="old")
        log.clear()
        await instance.restart()
        cleared = await instance.status()
        assert (cleared["error"], cleared["output"]) == (None, None)
        assert cleared["status"] in ("queued", "running")
        await instance.send_event(type="answer", payload="new")
        assert (await project.ended(instance))["output"] == ["worked", "new", "finished"]
        own = log[1:] if moment == "queued" else log
        assert own.count("finish") == 1
        assert ("EventReceived", "") not in (await project.history(instance))[:3]


@every_moment
@in_virtual_time
async def test_deleting_removes_it_and_frees_its_id(moment: str) -> None:
    log: list[str] = []
    async with phased(log, moment) as project:
        instance = await Moments(project)(moment)
        await instance.delete()
        calls: list[Callable[[], Awaitable[Any]]] = [
            instance.status,
            instance.pause,
            instance.resume,
            instance.terminate,
            instance.restart,
            instance.delete,
            lambda: instance.send_event(type="answer"),
            lambda: project.workflow.get(instance.id),
        ]
        for call in calls:
            assert isinstance(await refusal_of(call()), InstanceNotFound)
        log.clear()
        again = await project.workflow.create(id=instance.id)
        await again.send_event(type="answer", payload=1)
        assert (await project.ended(again))["output"] == ["worked", 1, "finished"]


@in_virtual_time
async def test_deadlines_stand_still_during_a_pause() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        match event["payload"]:
            case "sleep":
                await step.sleep("nap", "100 seconds")
            case "wait":
                await refusal_of(step.wait_for_event("w", "a", timeout="100 seconds"))
            case "until":
                await step.sleep_until("nap", began_ms + 100_000)
            case _:

                @step.do("retried", config={"retries": {"limit": 1, "delay": "100 seconds"}})
                async def retried(ctx: JsDict) -> None:
                    if ctx.attempt == 1:
                        raise RuntimeError

                await retried()

    expected_s = {"sleep": 400, "wait": 400, "retry": 400, "until": 330}
    for kind, seconds in expected_s.items():
        async with Project(run) as project:
            began_ms = project.now_ms()
            instance = await project.workflow.create(params=kind)
            await pause_for(30)
            await instance.pause()
            await pause_for(300)
            await instance.resume()
            assert (await project.ended(instance))["status"] == "complete"
            assert (project.now_ms() - began_ms) // 1000 == seconds, kind


def lettered(log: list[str]) -> Any:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for letter in "abb":

            @step.do(letter)
            async def write() -> None:
                log.append(letter)  # noqa: B023 - called within the loop

            await write()
        await step.sleep("nap", "1 minute")
        await step.wait_for_event("answer", "answer", timeout="1 minute")
        await step.do("c")(lambda: log.append("c"))()

    return run


@pytest.mark.parametrize(
    ("target", "again"),
    [
        ({"name": "a"}, "abbc"),
        ({"name": "b"}, "bbc"),
        ({"name": "b", "count": 2}, "bc"),
        ({"name": "b", "count": 2, "type": "do"}, "bc"),
        ({"name": "nap", "type": "sleep"}, "c"),
        ({"name": "answer", "type": "waitForEvent"}, "c"),
        ({"name": "c"}, "c"),
        (None, "abbc"),
    ],
)
@in_virtual_time
async def test_restarting_from_a_step_keeps_what_started_before_it(target: Any, again: str) -> None:
    log: list[str] = []
    async with Project(lettered(log)) as project:
        instance = await project.workflow.create()
        await instance.send_event(type="answer")
        await project.ended(instance)
        log.clear()
        await instance.restart({"from": target})
        await instance.send_event(type="answer")
        assert (await project.ended(instance))["status"] == "complete"
        assert "".join(log) == again


@pytest.mark.parametrize(
    ("target", "kind", "text"),
    [
        ({"name": "zzz"}, StepNotFound, 'Step "zzz" not found in execution history'),
        ({"name": "nap"}, StepNotFound, 'Step "nap" not found'),
        ({"name": "b", "count": 3}, StepNotFound, 'Step "b" not found'),
        ({"name": "b", "count": 0}, StepNotFound, 'Step "b" not found'),
        ({}, StepNotFound, 'Step "undefined" not found'),
        ({"name": "b", "count": "2"}, InvalidInput, "from.count must be a whole number, not '2'"),
        ({"name": "b", "count": True}, InvalidInput, "from.count must be a whole number"),
        ({"name": "b", "type": "rollback"}, InvalidInput, "from.type must be one of do, sleep"),
        ({"name": "b", "type": []}, InvalidInput, "from.type must be one of"),
        ({"name": "b", "kind": "do"}, InvalidInput, "from must be a dictionary of name, count"),
        ("b", InvalidInput, "from must be a dictionary of name, count and type, not 'b'"),
    ],
)
@in_virtual_time
async def test_restarting_from_what_is_not_there_changes_nothing(
    target: Any, kind: type[Exception], text: str
) -> None:
    async with Project(lettered([])) as project:
        instance = await project.workflow.create()
        await instance.send_event(type="answer")
        before = await project.ended(instance), await project.history(instance)
        error = await refusal_of(instance.restart(from_=target))
        assert isinstance(error, kind)
        assert text in str(error)
        assert (await instance.status(), await project.history(instance)) == before


@both_ways
@in_virtual_time
async def test_a_restart_from_what_is_not_there_has_a_note_of_what_is(way: Way) -> None:
    async with Project(lettered([])) as project, way(project) as orders:
        instance = await orders.create()
        await instance.send_event(type="answer")
        await project.ended(instance)
        error = await refusal_of(instance.restart({"from": {"name": "nap"}}))
        [note] = error.__notes__
        assert note.startswith('It has these steps: "nap" (sleep), ')
        assert note.endswith("The type is do unless another is given.")


@in_virtual_time
async def test_restart_names_options_that_it_does_not_take() -> None:
    async with Project(lettered([])) as project:
        instance = await project.workflow.create()
        error = await refusal_of(instance.restart(step="b"))
        assert isinstance(error, TypeError)
        assert "restart() does not take 'step'" in str(error)
        error = await refusal_of(instance.restart({"from": {"name": "a"}}, from_={"name": "b"}))
        assert isinstance(error, TypeError)


@in_virtual_time
async def test_a_restart_keeps_params_and_timestamp() -> None:
    seen: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        seen.append([event.payload, event.timestamp])

    async with Project(run) as project:
        instance = await project.workflow.create(params={"n": 1})
        await project.ended(instance)
        await pause_for(60)
        await instance.restart()
        await project.ended(instance)
        assert len(seen) == 2
        assert seen[0] == seen[1]


@pytest.mark.parametrize("place", ["run", "step", "blocking step"])
@pytest.mark.parametrize("operation", ["terminate", "delete", "pause", "restart"])
@in_virtual_time
async def test_an_instance_may_end_itself(place: str, operation: str) -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        lives.append(None)
        if len(lives) > 1:
            return "second life"
        instance = await project.workflow.get(event.instanceId)

        @step.do("end")
        async def end() -> None:
            await getattr(instance, operation)()
            log.append("after the call")

        if place == "run":
            await getattr(instance, operation)()
        elif place == "step":
            await end()
        else:
            loop = asyncio.get_running_loop()

            @step.do("blocking")
            def blocking() -> None:
                asyncio.run_coroutine_threadsafe(getattr(instance, operation)(), loop)

            await blocking()
        await step.sleep("nap", "1 second")
        log.append("went on")
        return "first life"

    lives: list[None] = []
    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(60)
        if operation == "delete":
            assert await project.listed() == set()
        else:
            expected = {"terminate": "terminated", "pause": "paused", "restart": "complete"}
            assert (await instance.status())["status"] == expected[operation]
        assert "went on" not in log
        if operation in ("terminate", "delete"):
            assert log == []


@in_virtual_time
async def test_terminating_unwinds_a_callback_and_starts_no_further_attempt() -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("work")
        async def work() -> None:
            log.append("begun")
            try:
                await pause_for(60)
            finally:
                log.append("unwound")

        await work()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(1)
        await instance.terminate()
        await pause_for(3_600)
        assert log == ["begun", "unwound"]
        kinds = {kind for kind, _ in await project.history(instance)}
        assert "AttemptFailed" not in kinds
        assert await project.timers() == 0


@in_virtual_time
async def test_closing_the_engine_during_a_step_uses_up_no_attempt() -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("work", config={"retries": {"limit": 1, "delay": "1 hour"}})
        async def work(ctx: JsDict) -> Any:
            attempts.append(ctx.attempt)
            await pause_for(60)
            return ctx.attempt

        return await work()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(1)
        await project.restart()
        assert (await project.ended(instance))["output"] == 1
        assert attempts == [1, 1]


@in_virtual_time
async def test_finished_instances_do_not_stay_in_memory_for_being_looked_at() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", event["payload"])

    async with Project(run) as project:
        done = await project.workflow.create(params=0)
        await project.ended(done)
        asleep = await project.workflow.create(params="1 day")
        await pause_for(600)
        for _ in range(3):
            assert (await done.status())["status"] == "complete"
            assert isinstance(await refusal_of(done.terminate()), CannotTerminate)
            assert (await asleep.status())["status"] == "waiting"
        assert not project.engine._actors  # pyright: ignore[reportPrivateUsage]
        assert (await project.ended(asleep))["status"] == "complete"


@in_virtual_time
async def test_instances_live_on_when_nobody_holds_their_handles() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return (await step.wait_for_event("w", "a"))["payload"]

    async with Project(run) as project:
        ids = [(await project.workflow.create()).id for _ in range(50)]
        for instance_id in ids:
            gc.collect()
            await (await project.workflow.get(instance_id)).send_event(type="a", payload=1)
        assert [(await project.ended(each))["output"] for each in ids] == [1] * 50
