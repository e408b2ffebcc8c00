"""`asyncio.sleep` and `asyncio.timeout` in `run()`: the journal knows nothing of them, so the code stays in memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import WorkflowTimeoutError
from tests.unit.bindings.project import Project, in_virtual_time, pause_for

BOTH_MEMORIES = pytest.mark.parametrize("max_live", [0, 1_000])


@BOTH_MEMORIES
@in_virtual_time
async def test_a_branch_that_sleeps_by_itself_goes_on_beside_one_that_waits(max_live: int) -> None:
    reminded: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("remind")
        async def remind() -> None:
            reminded.append(project.now_ms())

        async def remind_later() -> None:
            await pause_for(30)
            await remind()

        answer = step.wait_for_event("answer", "answer", timeout="7 days")
        await asyncio.gather(remind_later(), answer)

    async with Project(run, max_live=max_live) as project:
        began_ms = project.now_ms()
        instance = await project.workflow.create()
        await pause_for(5 * 86_400)
        assert reminded == [began_ms + 30_000]
        await instance.send_event(type="answer")
        assert (await project.ended(instance))["status"] == "complete"


@BOTH_MEMORIES
@pytest.mark.parametrize("limit_s", [5, 15, 3_600])
@in_virtual_time
async def test_a_timeout_around_a_wait_comes_when_it_says(limit_s: int, max_live: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        try:
            async with asyncio.timeout(limit_s):
                await step.wait_for_event("never", "never", timeout="1 day")
        except TimeoutError as error:
            return isinstance(error, WorkflowTimeoutError)

    async with Project(run, max_live=max_live) as project:
        began_ms = project.now_ms()
        assert await project.result() is False
        assert project.now_ms() - began_ms == limit_s * 1_000


@pytest.mark.parametrize("rests_s", [0, 2, 20])
@in_virtual_time
async def test_a_timeout_begins_anew_after_a_crash(rests_s: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        try:
            async with asyncio.timeout(30):
                return await step.create_hook(token="approval")
        except TimeoutError:
            return "nobody"

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(rests_s)
        await project.crash()
        crashed_ms = project.now_ms()
        assert (await project.ended(instance.id))["output"] == "nobody"
        assert project.now_ms() - crashed_ms == 30_000


@in_virtual_time
async def test_an_event_that_came_while_the_code_had_to_get_to_it_outlasts_a_crash() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                await step.sleep("long", "30 days")
        return (await step.wait_for_event("answer", "answer", timeout="1 day")).payload

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(60)
        await instance.send_event(type="answer", payload="yes")  # the code has left memory
        await pause_for(1)
        await project.crash()
        crashed_ms = project.now_ms()
        assert (await project.ended(instance.id))["output"] == "yes"
        assert project.now_ms() - crashed_ms == 30_000


@in_virtual_time
async def test_what_only_waits_is_not_taken_up_after_a_crash() -> None:
    begun: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        begun.append(1)
        async with asyncio.timeout(60):
            await step.sleep("short", "1 second")
        await step.wait_for_event("answer", "answer", timeout="1 day")

    async with Project(run) as project:
        await project.workflow.create()
        await pause_for(5)
        begun.clear()
        await project.crash()
        await pause_for(3_600)
        assert begun == []


@BOTH_MEMORIES
@in_virtual_time
async def test_code_leaves_memory_when_its_timers_are_over(max_live: int) -> None:
    begun: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        begun.append(1)
        async with asyncio.timeout(None) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + 3_600)
            await step.wait_for_event("first", "first", timeout="1 day")
        await step.wait_for_event("second", "second", timeout="1 day")

    async with Project(run, max_live=max_live) as project:
        instance = await project.workflow.create()
        await pause_for(1_800)
        await instance.send_event(type="first")
        await pause_for(1_800)
        assert len(begun) == 1
        await instance.send_event(type="second")
        assert (await project.ended(instance))["status"] == "complete"
        assert len(begun) == 2


@pytest.mark.parametrize("is_unloaded", [False, True])
@in_virtual_time
async def test_a_rollback_finds_handlers_beyond_a_timeout(is_unloaded: bool) -> None:
    refunded: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        try:
            async with asyncio.timeout(5):
                await step.wait_for_event("coupon", "coupon")
        except TimeoutError:
            pass

        async def refund() -> None:
            refunded.append("refund")

        @step.do("charge", rollback=refund)
        async def charge() -> str:
            return "charged"

        await charge()
        await step.sleep("ship", "1 day")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(60 if is_unloaded else 6)
        await instance.terminate(rollback=True)
        assert (await project.ended(instance))["rollback"]["outcome"] == "complete"
        assert refunded == ["refund"]


@in_virtual_time
async def test_a_rollback_does_not_wait_for_ever_for_code_that_keeps_itself_busy() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def beat() -> None:
            while True:
                await pause_for(30)

        @step.do("charge", rollback=lambda: None)
        async def charge() -> None: ...

        beating = asyncio.create_task(beat())
        await charge()
        await step.sleep("ship", "1 day")
        beating.cancel()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(60)
        await project.crash()
        await project.handle(instance).terminate(rollback=True)
        assert (await project.ended(instance.id))["status"] == "terminated"
