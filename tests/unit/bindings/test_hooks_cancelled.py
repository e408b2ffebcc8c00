"""A payload is never lost, however the wait for it is cancelled; and races with hooks have one winner (10.8 k, o)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from bindings import Hook, WorkflowStep, resume_hook
from emulator.domain.values import JsDict
from emulator.errors import WorkflowTimeoutError
from tests.unit.bindings.project import Project, in_virtual_time, pause_for

T = "order:1"
Found = list[Any]


async def with_wait_for(hook: Hook, found: Found, delay_s: float) -> None:
    with suppress(TimeoutError):
        found.append(await asyncio.wait_for(hook, delay_s))


async def with_timeout(hook: Hook, found: Found, delay_s: float) -> None:
    try:
        async with asyncio.timeout(delay_s):
            found.append(await hook)
    except TimeoutError:
        pass


async def with_a_task(hook: Hook, found: Found, delay_s: float) -> None:
    async def take() -> None:
        found.append(await hook)

    task = asyncio.create_task(take())
    await pause_for(delay_s)
    task.cancel()
    await asyncio.wait([task])


async def with_next(hook: Hook, found: Found, delay_s: float) -> None:
    with suppress(TimeoutError):
        found.append(await asyncio.wait_for(anext(aiter(hook)), delay_s))


async def with_wait(hook: Hook, found: Found, delay_s: float) -> None:
    task = asyncio.ensure_future(hook)
    await asyncio.wait([task], timeout=delay_s)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        found.append(task.result())


async def with_a_group(hook: Hook, found: Found, delay_s: float) -> None:
    async def take() -> None:
        found.append(await hook)

    async def end() -> None:
        await pause_for(delay_s)
        raise TimeoutError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            group.create_task(end())
    except* TimeoutError:
        pass


WAYS = [with_wait_for, with_timeout, with_a_task, with_next, with_wait, with_a_group]


@pytest.mark.parametrize("way", WAYS)
def test_a_payload_that_comes_in_the_tick_of_a_cancellation_is_not_lost(
    way: Callable[[Hook, Found, float], Awaitable[None]],
) -> None:
    """Every number of passes of the loop between the payload and the cancellation."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        await hook.get_conflict()
        found: list[Any] = []
        await way(hook, found, 1.0)
        while len(found) < 2:
            found.append(await hook)
        return found

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            for passes in range(-25, 25):
                instance = await project.workflow.create(hook=T)
                begun_ms = project.now_ms()
                await pause_for(0.999 if passes < 0 else 1.0)
                for _ in range(abs(passes)):
                    await asyncio.sleep(0)
                if passes < 0:
                    await pause_for((begun_ms + 1_000 - project.now_ms()) / 1_000)
                await resume_hook(T, "first")
                await resume_hook(T, "second")
                assert (await project.ended(instance))["output"] == ["first", "second"]

    test()


@pytest.mark.parametrize("way", WAYS)
def test_a_payload_that_comes_after_a_cancellation_goes_to_the_next_wait(
    way: Callable[[Hook, Found, float], Awaitable[None]],
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        found: list[Any] = []
        for _ in range(5):
            await way(hook, found, 0.2)
        while len(found) < 2:
            found.append(await hook)
        return found

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            instance = await project.workflow.create(hook=T)
            await pause_for(0.5)
            await resume_hook(T, "first")
            await pause_for(1)
            await project.restart()
            await resume_hook(T, "second")
            assert (await project.ended(instance))["output"] == ["first", "second"]

    test()


@in_virtual_time
async def test_an_iteration_goes_on_after_a_cancelled_wait() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        payloads = aiter(step.create_hook(token=T))
        found: list[Any] = []
        while len(found) < 2:
            try:
                found.append(await asyncio.wait_for(anext(payloads), 1))
            except TimeoutError:
                continue
        return found

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        for payload in "ab":
            await pause_for(3.5)
            await resume_hook(T, payload)
        assert (await project.ended(instance))["output"] == ["a", "b"]


@in_virtual_time
async def test_who_has_waited_longest_is_served_first_when_another_is_cancelled() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        first, second = (asyncio.ensure_future(hook.receive()) for _ in range(2))
        await pause_for(1)
        first.cancel()
        await pause_for(1)
        third = asyncio.ensure_future(hook.receive())
        return await asyncio.gather(second, third)

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        await pause_for(3)
        await resume_hook(T, "a")
        await resume_hook(T, "b")
        assert (await project.ended(instance))["output"] == ["a", "b"]


@pytest.mark.parametrize(
    ("first", "second"), [(None, "1 minute"), ("1 hour", "1 minute"), ("1 minute", None)]
)
def test_a_wait_has_its_own_timeout_and_not_that_of_one_that_was_cancelled(
    first: str | None, second: str | None
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        wait = asyncio.ensure_future(hook.receive(timeout=first))
        await step.sleep("nap", "10 seconds")
        wait.cancel()
        await asyncio.wait([wait])
        try:
            return await hook.receive(timeout=second)
        except WorkflowTimeoutError:
            return "timed out"

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            instance = await project.workflow.create(hook=T)
            begun_ms = project.now_ms()
            if second is None:
                await pause_for(120)
                await resume_hook(T, "late")
            output = (await project.ended(instance))["output"]
            took_s = (project.now_ms() - begun_ms) // 1_000
            assert (output, took_s) == (("late", 120) if second is None else ("timed out", 70))

    test()


@pytest.mark.parametrize("at_ms", [0, 999, 1_000, 1_001])
@pytest.mark.parametrize("rival", ["sleep", "step"])
@pytest.mark.parametrize("cancels", [False, True])
def test_a_race_with_a_hook_has_the_same_winner_in_every_replay(
    rival: str, cancels: bool, at_ms: int
) -> None:
    winners: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("work")
        async def work() -> str:
            await pause_for(1)
            return "worked"

        async def nap() -> str:
            await step.sleep("nap", "1 second")
            return "slept"

        hook = step.create_hook(token=T)
        runners = [
            asyncio.ensure_future(hook.receive()),
            asyncio.ensure_future(nap() if rival == "sleep" else work()),
        ]
        await asyncio.wait(runners, return_when=asyncio.FIRST_COMPLETED)
        winner = "hook" if runners[0].done() else rival
        if cancels:
            for runner in runners:
                runner.cancel()
        winners.append(winner)
        await step.sleep("until the end", "1 day")
        if winner == rival:
            return await hook if cancels else await runners[0]
        return runners[0].result()

    @in_virtual_time
    async def test() -> None:
        async with Project(run, max_live=0) as project:
            instance = await project.workflow.create(hook=T)
            await pause_for(at_ms / 1_000)
            await resume_hook(T, "a payload")
            await pause_for(60)
            for _ in range(100):
                await project.restart()
                await project.workflow.resume_hook(T, "wakes it, and is not taken")
                await pause_for(1)
            assert (await project.ended(instance))["output"] == "a payload"

    test()
    assert len(winners) > 100
    assert len(set(winners)) == 1


@pytest.mark.parametrize("ends", ["returns", "is terminated", "is killed"])
def test_a_task_that_waits_for_a_registration_goes_with_its_run(ends: str) -> None:
    left: list[asyncio.Task[Any]] = []
    has_begun = asyncio.Event()

    async def run(event: JsDict, step: WorkflowStep) -> None:
        hook = step.create_hook(token=T)
        left.append(asyncio.ensure_future(hook.get_conflict()))
        await asyncio.sleep(0)
        has_begun.set()
        if ends != "returns":
            await step.sleep("nap", "1 hour")

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            call = asyncio.ensure_future(project.workflow.create())
            await has_begun.wait()
            if ends == "is killed":
                await project.engine.kill()
            elif ends == "is terminated":
                await (await call).terminate()
            await asyncio.wait([call, *left], timeout=1)
            assert all(task.done() for task in left)

    test()
