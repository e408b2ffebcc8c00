"""No event is lost, however and whenever the wait for it is cancelled; and no step is repeated because it was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import Project, in_virtual_time, pause_for
from tests.unit.bindings.test_hooks_cancelled import (
    with_a_group,
    with_a_task,
    with_timeout,
    with_wait,
    with_wait_for,
)

Way = Callable[[Any, list[Any], float], Awaitable[None]]


class Waiting:
    """Each `await` waits for the next event."""

    def __init__(self, step: WorkflowStep) -> None:
        self._step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._payload().__await__()

    async def _payload(self) -> Any:
        return (await self._step.wait_for_event("wait", "sent", timeout="1 day"))["payload"]


async def with_a_sleep(waiting: Waiting, found: list[Any], delay_s: float) -> None:
    step: WorkflowStep = waiting._step  # pyright: ignore[reportPrivateUsage]
    racers = [
        asyncio.ensure_future(waiting),
        asyncio.ensure_future(step.sleep("rival", delay_s * 1000)),
    ]
    done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    if racers[0] in done:
        found.append(racers[0].result())
    for each in racers:
        each.cancel()
    await asyncio.wait(racers)


@pytest.mark.parametrize("max_live", [0, 1_000])
@pytest.mark.parametrize(
    "way", [with_wait_for, with_timeout, with_a_task, with_wait, with_a_group, with_a_sleep]
)
def test_an_event_that_comes_in_the_tick_of_a_cancellation_is_not_lost(
    way: Way, max_live: int
) -> None:
    """Every number of passes of the loop between the event and the cancellation; and the replay finds the same."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        waiting = Waiting(step)
        found: list[Any] = []
        await way(waiting, found, 1.0)
        while len(found) < 2:
            found.append(await waiting)
        await step.sleep("a while", "1 hour")
        return found

    @in_virtual_time
    async def test() -> None:
        async with Project(run, max_live=max_live) as project:
            for passes in range(-12, 12):
                instance = await project.workflow.create()
                begun_ms = project.now_ms()
                await pause_for(0.999 if passes < 0 else 1.0)
                for _ in range(abs(passes)):
                    await asyncio.sleep(0)
                if passes < 0:
                    await pause_for((begun_ms + 1_000 - project.now_ms()) / 1_000)
                await instance.send_event(type="sent", payload="first")
                await instance.send_event(type="sent", payload="second")
                assert (await project.ended(instance))["output"] == ["first", "second"]

    test()


@pytest.mark.parametrize("max_live", [0, 1_000])
@in_virtual_time
async def test_a_step_that_was_cancelled_is_not_repeated_by_a_replay(max_live: int) -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("charge", config={"retries": {"limit": 5, "delay": "1 hour"}})
        async def charge(ctx: JsDict) -> None:
            attempts.append(ctx.attempt)
            raise OSError("the bank is down")

        charging = asyncio.ensure_future(charge())
        deadline = asyncio.ensure_future(step.sleep("deadline", "10 minutes"))
        await asyncio.wait({charging, deadline}, return_when=asyncio.FIRST_COMPLETED)
        charging.cancel()
        for day in range(3):
            await step.sleep(f"day {day}", "1 day")
        return "not charged"

    async with Project(run, max_live=max_live) as project:
        assert await project.result() == "not charged"
        assert attempts == [1]


@in_virtual_time
async def test_an_event_goes_back_also_in_the_replay_after_a_crash() -> None:
    """The life ends when the event is taken, and before it is known that the code has cancelled the wait."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("rival")
        async def rival() -> str:
            await pause_for(10)
            return "rival"

        async def branch() -> None:
            await step.sleep("first", 10_000)
            await step.sleep("then", "1 hour")

        branching = asyncio.create_task(branch())
        waiting = asyncio.ensure_future(Waiting(step))
        racing = asyncio.ensure_future(rival())
        await asyncio.wait({waiting, racing}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        await asyncio.wait({waiting})
        found = await Waiting(step)
        await branching
        return found

    for passes in range(30):
        async with Project(run) as project:
            instance = await project.workflow.create()
            await pause_for(10)
            sending = asyncio.ensure_future(instance.send_event(type="sent", payload=1))
            for _ in range(passes):
                await asyncio.sleep(0)
            was_told = sending.done()
            await project.crash()
            await asyncio.wait({sending})
            if not was_told:
                await project.handle(instance.id).send_event(type="sent", payload=1)
            assert (await project.ended(instance.id))["output"] == 1
