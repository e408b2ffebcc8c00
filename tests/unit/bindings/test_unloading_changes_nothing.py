"""Whether parked instances stay in memory, are unloaded at once, or the engine restarts: the outcome is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import AT_ONCE, Project, in_virtual_time, pause_for, refusal_of

Answer = list[Any]


async def one_after_the_other(event: JsDict, step: WorkflowStep) -> Answer:
    log: Answer = []
    for number in range(4):

        @step.do("count")
        async def count(ctx: JsDict) -> Any:
            return [number, ctx.step.count, ctx.attempt]  # noqa: B023 - called within the loop

        log.append(await count())
        await step.sleep("nap", "20 seconds")
    return log


async def retries(event: JsDict, step: WorkflowStep) -> Answer:
    @step.do("fragile", config={"retries": {"limit": 3, "delay": "20 seconds"}})
    async def fragile(ctx: JsDict) -> int:
        if ctx.attempt < 4:
            raise RuntimeError(f"attempt {ctx.attempt}")
        return ctx.attempt

    @step.do("hopeless", config={"retries": {"limit": 2, "delay": "20 seconds"}})
    async def hopeless(ctx: JsDict) -> int:
        raise LookupError(f"attempt {ctx.attempt}")

    error = await refusal_of(hopeless())
    return [await fragile(), type(error).__name__, str(error), str(await refusal_of(hopeless()))]


async def events(event: JsDict, step: WorkflowStep) -> Answer:
    taken = [(await step.wait_for_event("w", "number", timeout="1 hour"))["payload"] for _ in "123"]
    await step.sleep("nap", "30 seconds")
    taken.append((await step.wait_for_event("other", "text"))["payload"])
    error = await refusal_of(step.wait_for_event("none", "none", timeout="20 seconds"))
    return [*taken, str(error)]


async def side_by_side(event: JsDict, step: WorkflowStep) -> Answer:
    async def branch(name: str, seconds: int) -> Any:
        @step.do(name)
        def label(ctx: JsDict) -> Any:
            return [name, ctx.step.count]

        await step.sleep(f"before {name}", f"{seconds} seconds")
        result = await label()
        await step.sleep(f"after {name}", f"{20 - seconds} seconds")
        return result

    async def waiting() -> Any:
        return (await step.wait_for_event("w", "text", timeout="1 hour"))["payload"]

    return list(await asyncio.gather(branch("a", 15), branch("b", 5), branch("c", 10), waiting()))


async def race(event: JsDict, step: WorkflowStep) -> Answer:
    async def named(name: str, awaitable: Awaitable[Any]) -> str:
        await awaitable
        return name

    racers = [
        asyncio.create_task(named("event", step.wait_for_event("w", "never", timeout="1 day"))),
        asyncio.create_task(named("slow", step.sleep("slow", "2 minutes"))),
        asyncio.create_task(named("quick", step.sleep("quick", "1 minute"))),
    ]
    done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    await step.sleep("after", "5 minutes")
    return [task.result() for task in done]


async def dependencies(event: JsDict, step: WorkflowStep) -> Answer:
    @step.do(config=AT_ONCE)
    async def root(ctx: JsDict) -> int:
        return ctx.step.count

    @step.do()
    async def left(root: int) -> int:
        return root + 1

    @step.do()
    def right(root: int) -> int:
        return root + 2

    @step.do(concurrent=True)
    async def tip(left: int, right: int) -> list[int]:
        return [left, right]

    await step.sleep("nap", "1 minute")
    first = await tip()
    await step.sleep("nap", "1 minute")
    return [first, await tip()]


PROGRAMS = [one_after_the_other, retries, events, side_by_side, race, dependencies]


async def play(program: Any, max_live: int, *, restart: bool) -> Any:
    async with Project(program, max_live=max_live) as project:
        began_ms = project.now_ms()
        instance = await project.workflow.create(id="a")
        for moment in range(6):
            await pause_for(7)
            if moment < 3:
                await project.handle(instance).send_event(type="number", payload=moment)
            else:
                payload = f"text {moment}"
                if (await project.handle(instance).status())["status"] != "complete":
                    await project.handle(instance).send_event(type="text", payload=payload)
            if restart:
                await project.restart()
        status = await project.ended(instance)
        history = await project.history(instance)
        finished = [
            entry
            for entry in history
            if entry[0] in ("StepStarted", "StepSucceeded", "StepFailed", "AttemptStarted")
        ]
        return status, finished, project.now_ms() - began_ms


@pytest.mark.parametrize("program", PROGRAMS)
@in_virtual_time
async def test_the_outcome_is_the_same_however_often_the_code_is_replayed(program: Any) -> None:
    kept = await play(program, 1_000, restart=False)
    assert kept[0]["status"] == "complete"
    assert await play(program, 0, restart=False) == kept
    assert await play(program, 1_000, restart=True) == kept
    assert await play(program, 0, restart=True) == kept


@in_virtual_time
async def test_stopping_in_good_order_uses_up_no_attempt() -> None:
    attempts: list[int] = []

    async def run(event: Any, step: WorkflowStep) -> Any:
        @step.do("slow", config={"retries": {"limit": 0, "delay": 1}})
        async def slow(ctx: Any) -> str:
            attempts.append(ctx.attempt)
            await pause_for(3 if len(attempts) == 1 else 0)
            return "done"

        return await slow()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "running")
        await pause_for(1)
        await project.restart()
        assert (await project.ended(project.handle(instance)))["output"] == "done"
        assert attempts == [1, 1]


@pytest.mark.parametrize("nap", [9_990, 9_995, 10_000, 10_005, "10 seconds"])
@in_virtual_time
async def test_code_that_rests_again_when_it_was_to_be_unloaded_is_seen_to_wait(nap: Any) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", nap)
        return (await step.wait_for_event("answer", "answer")).payload

    async with Project(run, concurrency_limit=1) as project:
        first = await project.workflow.create()
        await pause_for(60)
        assert (await first.status())["status"] == "waiting"
        await first.send_event(type="answer", payload=1)
        assert (await project.ended(first))["output"] == 1
