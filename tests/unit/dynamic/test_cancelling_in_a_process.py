"""What a tenant's code cancels in its process: an event is not lost, and no step takes another one's place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings.dynamic import create_dynamic_workflow_entrypoint, messages
from bindings.dynamic.processes import TenantProcess
from emulator.core.effects import ReceivedEvent
from emulator.core.state import InstanceState
from emulator.domain.steps import StepKey, StepKind
from emulator.timing.clock import SystemClock
from tests.unit.dynamic.dispatcher import Dispatcher, key, source

CANCEL = 2**50
"""The number of a ping at which the code below cancels its wait: it comes past everything that waits for its turn."""


def dispatcher(max_live: int = 1_000) -> Dispatcher:
    workflow = create_dynamic_workflow_entrypoint(isolation="process")
    return Dispatcher(workflow, clock=SystemClock(), max_live=max_live)


WAITING = """
import asyncio
life = step._context._life
process, loop = life._process, asyncio.get_running_loop()
say, answered = process.say, life._answered

def told(message):
    if getattr(message, "ping", None) == {ping}:
        waiting.cancel()
    say(message)

def crossing(answer):
    life._answered = answered
    {crossing}

process.say, life._answered = told, crossing
waiting = asyncio.ensure_future(step.wait_for_event("wait", "sent"))
await asyncio.wait({{waiting}})
assert waiting.cancelled()
process.say = say
taken = []
while "second" not in taken:
    taken.append((await step.wait_for_event("wait", "sent")).payload)
await step.sleep("nap", 1)
return taken
"""
LATER = """\
waiting.cancel()
    for_later = lambda left: loop.call_soon(for_later, left - 1) if left else answered(answer)
    for_later(8)"""
MOMENTS = {
    "before the answer is read": LATER,
    "with the answer": "waiting.cancel()\n    answered(answer)",
    "after the answer": "answered(answer)\n    waiting.cancel()",
}


def _took(state: InstanceState) -> bool | None:
    step = state.steps.get(StepKey(StepKind.WAIT, "wait", 1))
    return True if step is not None and isinstance(step.outcome, ReceivedEvent) else None


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_event_that_crosses_a_cancellation_is_not_lost(moment: str) -> None:
    code = source(WAITING.format(ping=CANCEL, crossing=MOMENTS[moment]))
    async with dispatcher() as running:
        await running.publish("acme", "v1", code)
        instance = await running.binding("acme").create()
        await running.becomes("acme", instance, "waiting")
        await instance.send_event(type="sent", payload="first")
        await instance.send_event(type="sent", payload="second")
        assert (await running.ended("acme", instance))["output"] == ["first", "second"]


async def test_an_event_whose_answer_waits_for_its_turn_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = asyncio.Event()
    hear = TenantProcess._hear  # pyright: ignore[reportPrivateUsage]

    def hearing(self: TenantProcess, message: Any, size_bytes: int) -> None:
        hear(self, message, size_bytes)
        if isinstance(message, messages.Abandon):
            heard.set()

    monkeypatch.setattr(TenantProcess, "_hear", hearing)
    async with dispatcher() as running:
        code = source(WAITING.format(ping=CANCEL, crossing="answered(answer)"))
        await running.publish("acme", "v1", code)
        instance = await running.binding("acme").create()
        await running.becomes("acme", instance, "waiting")
        process = await running.process_of("acme")
        async with process.turn():  # somebody is saying something long
            await instance.send_event(type="sent", payload="first")
            await running.engine.until(key("acme", instance), _took)
            process.say(messages.Ping(CANCEL))
            await heard.wait()
        await instance.send_event(type="sent", payload="second")
        assert (await running.ended("acme", instance))["output"] == ["first", "second"]


AT_ONCE = """
import asyncio
did = []

def declared(word):
    @step.do("charge")
    async def charge():
        did.append(word)
        return word
    return charge()

cancelled = asyncio.ensure_future(declared("cancelled"))
await asyncio.sleep(0)
cancelled.cancel()
await asyncio.wait({cancelled})
wanted = await declared("wanted")
waits = []
for _ in range(3):
    waiting = asyncio.ensure_future(step.wait_for_event("wait", "sent"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
hook = step.create_hook(token="hook")
await hook.get_conflict()
for _ in range(3):
    waiting = asyncio.ensure_future(hook.receive())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
return [wanted, (await step.wait_for_event("wait", "sent")).payload, await hook]
"""


@pytest.mark.parametrize("max_live", [0, 1_000])
async def test_what_is_cancelled_as_soon_as_it_is_asked_keeps_its_number(max_live: int) -> None:
    async with dispatcher(max_live) as running:
        await running.publish("acme", "v1", source(AT_ONCE))
        binding = running.binding("acme")
        instance = await binding.create()
        await running.becomes("acme", instance, "waiting")
        await instance.send_event(type="sent", payload="event")
        await binding.resume_hook("hook", "payload")
        status = await running.ended("acme", instance)
        assert status["output"] == ["wanted", "event", "payload"], status
        steps = (await running.state("acme", instance)).steps
        assert [each.count for each in steps if each.name == "charge"] == [1, 2]
        assert [each.count for each in steps if each.name == "wait"] == [1, 2, 3, 4]


CANCELLED_INSIDE = """
@step.do("work", config={"retries": {"limit": 0, "delay": 0}})
async def work():
    async def fail():
        raise ValueError("as planned")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(asyncio.sleep(60))
    except ExceptionGroup:
        never = asyncio.get_running_loop().create_future()
        never.cancel()
        await never

try:
    await work()
except Exception as error:
    return error.name
"""


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_step_that_is_cancelled_by_itself_has_failed(isolation: Any) -> None:
    """Whatever a task group has left behind of its own cancellation."""
    workflow = create_dynamic_workflow_entrypoint(isolation=isolation)
    async with Dispatcher(workflow, clock=SystemClock()) as running:
        code = source(CANCELLED_INSIDE, before="import asyncio\n")
        assert await running.result("acme", code) == "CancelledError"
