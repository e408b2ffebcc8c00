"""Workflows that get into every state there is, and leave a trace of each call outside the emulator.

A `Life` goes round as often as its params say. Each round begins with an event `go`, and then does what the life's kind
does; so whoever sends the events decides when what happens. What it returns follows from its params and its events.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from effects import EffectLog
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

MANY = 200
"""More retries than there are kills: an attempt that a kill interrupts has failed."""

undone_badly: set[tuple[str, str]] = set()
"""The handlers that have failed once in this process."""

blocked = threading.Event()


def retries(limit: int, delay: str) -> dict[str, Any]:
    return {"retries": {"limit": limit, "delay": delay, "backoff": "constant"}}


class Unlucky(Exception):
    """A callback fails on purpose."""


class Life(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        params = event["payload"]
        self.calls = Calls(EffectLog(self.env.EFFECTS, event["instanceId"]), step)
        taken: list[Any] = []
        done: list[Any] = []
        for number in range(params["rounds"]):
            go = await step.wait_for_event(f"go {number}", "go")
            taken.append(go["payload"])
            done.append(await ROUNDS[params["kind"]](self.calls, number))
        if ending := ENDINGS.get(params["kind"]):
            taken += await ending(self.calls, params["rounds"])
        return {"taken": taken, "done": done}


class NarrowLife(Life):
    """A life of a workflow with few slots."""


class Calls:
    """The steps of a life, each with a trace in the effects file."""

    def __init__(self, log: EffectLog, step: Any) -> None:
        self.log = log
        self.step = step

    async def on_the_loop(self, name: str, seconds: float, *, failures: int = 0) -> str:
        @self.step.do(name, config=retries(MANY, "150 milliseconds"))
        async def call(ctx: Any) -> str:
            with self.log.call(name, ctx["attempt"]):
                await asyncio.sleep(seconds)
                if ctx["attempt"] <= failures:
                    raise Unlucky(name)
            return f"{name} is done"

        return await call()

    async def in_a_thread(self, name: str, seconds: float) -> str:
        @self.step.do(name, config=retries(MANY, "50 milliseconds"))
        def call(ctx: Any) -> str:
            with self.log.call(name, ctx["attempt"]):
                time.sleep(seconds)
            return f"{name} is done"

        return await call()

    async def undoable(self, name: str) -> str:
        async def undo() -> None:
            with self.log.undoing(name):
                await asyncio.sleep(0.05)
                call = (self.log.instance, name)
                if name.endswith("0") and call not in undone_badly:
                    undone_badly.add(call)
                    raise Unlucky(name)

        patient = retries(MANY, "100 milliseconds")

        @self.step.do(name, config=patient, rollback=undo, rollback_config=patient)
        async def call(ctx: Any) -> str:
            with self.log.call(name, ctx["attempt"]):
                await asyncio.sleep(0.02)
            return f"{name} is done"

        return await call()


async def busy(calls: Calls, number: int) -> list[str]:
    first = await calls.on_the_loop(f"loop {number}", 0.15)
    return [first, await calls.in_a_thread(f"thread {number}", 0.1)]


async def flaky(calls: Calls, number: int) -> list[str]:
    return [await calls.on_the_loop(f"flaky {number}", 0.01, failures=3)]


async def asleep(calls: Calls, number: int) -> list[str]:
    await calls.step.sleep(f"nap {number}", 100 + 300 * (number % 7))
    return [await calls.on_the_loop(f"awake {number}", 0.01)]


async def buffering(calls: Calls, number: int) -> list[str]:
    return [await calls.on_the_loop(f"quick {number}", 0.01)]


async def interrupted(calls: Calls, number: int) -> list[str]:
    first = await calls.on_the_loop(f"before {number}", 0.1)
    await calls.step.sleep(f"rest {number}", "300 milliseconds")
    return [first, await calls.on_the_loop(f"after {number}", 0.05)]


async def fanned_out(calls: Calls, number: int) -> list[str]:
    branches = [calls.on_the_loop(f"branch {number}.{at}", 0.05 * at) for at in range(3)]
    *results, _ = await asyncio.gather(
        *branches, calls.step.sleep(f"beside {number}", "200 milliseconds")
    )
    return results


async def undoable(calls: Calls, number: int) -> list[str]:
    return [await calls.undoable(f"first {number}"), await calls.undoable(f"second {number}")]


async def take_extras(calls: Calls, rounds: int) -> list[Any]:
    events = [await calls.step.wait_for_event(f"extra {at}", "extra") for at in range(rounds)]
    return [event["payload"] for event in events]


async def fail(calls: Calls, _: int) -> list[Any]:
    raise Unlucky("undo it all")


async def fail_in_a_step(calls: Calls, _: int) -> list[Any]:
    @calls.step.do("doomed", config=retries(4, "100 milliseconds"))
    async def doomed(ctx: Any) -> None:
        with calls.log.call("doomed", ctx["attempt"]):
            await asyncio.sleep(0.02)
            raise Unlucky("in vain")

    await doomed()
    return []


async def wait_for_the_end(calls: Calls, _: int) -> list[Any]:
    await calls.step.sleep("for long", "1 hour")
    return []


ROUNDS: dict[str, Callable[[Calls, int], Awaitable[list[str]]]] = {
    "busy": busy,
    "flaky": flaky,
    "asleep": asleep,
    "buffering": buffering,
    "interrupted": interrupted,
    "fanned out": fanned_out,
    "queued": busy,
    "undone": undoable,
    "doomed": buffering,
    "terminated": undoable,
}
ENDINGS: dict[str, Callable[[Calls, int], Awaitable[list[Any]]]] = {
    "buffering": take_extras,
    "undone": fail,
    "doomed": fail_in_a_step,
    "terminated": wait_for_the_end,
}


class Steady(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        calls = Calls(EffectLog(self.env.EFFECTS, event["instanceId"]), step)
        return [await calls.on_the_loop(f"steady {number}", 0.2) for number in range(5)]


class Sleeper(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        calls = Calls(EffectLog(self.env.EFFECTS, event["instanceId"]), step)
        before = await calls.on_the_loop("before", 0)
        await step.sleep("nap", event["payload"]["nap_ms"])
        return [before, await calls.on_the_loop("after", 0)]


class Stubborn(WorkflowEntrypoint):
    """Its first call blocks a thread; cancellation it swallows."""

    async def run(self, event: Any, step: Any) -> Any:
        effects = Path(self.env.EFFECTS)

        @step.do("block", config=retries(MANY, "50 milliseconds"))
        def block(ctx: Any) -> int:
            is_first = not effects.exists()
            with EffectLog(str(effects), event["instanceId"]).call("block", ctx["attempt"]):
                if is_first:
                    blocked.set()
                    time.sleep(60)
            return ctx["attempt"]

        while True:
            try:
                return await block()
            except asyncio.CancelledError:
                pass


class Scribe(WorkflowEntrypoint):
    """Writes to a stream from run() and from a step, and leaves a trace of each chunk that is acknowledged."""

    async def run(self, event: Any, step: Any) -> None:
        writable = step.get_writable()

        @step.do("write", config=retries(MANY, "50 milliseconds"))
        async def write(ctx: Any) -> None:
            for number in range(event["payload"]["chunks"]):
                await writable.write(number)
                with EffectLog(self.env.EFFECTS, event["instanceId"]).call(
                    str(number), ctx["attempt"]
                ):
                    await asyncio.sleep(0.001)

        @step.do("pages", config=retries(MANY, "50 milliseconds"))
        async def pages() -> Any:
            for number in range(event["payload"]["chunks"]):
                yield f"page {number}".encode()
                await asyncio.sleep(0.001)

        for number in range(event["payload"]["chunks"]):
            await step.get_writable("of run").write(number)
        await write()
        async for page in await pages():
            await step.get_writable("copied").write(page)
        await writable.close()


class Notes(WorkflowEntrypoint):
    """Takes payloads through the hook of its start, each into a step, until one says that it was the last."""

    async def run(self, event: Any, step: Any) -> list[int]:
        async def keep(note: int) -> int:
            @step.do("keep")
            async def kept() -> int:
                return note

            return await kept()

        taken: list[int] = []
        async for payload in step.create_hook(token=event["payload"]["token"]):
            taken.append(await keep(payload["note"]))
            if payload["last"]:
                break
        return taken


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Response:
        if request.method == "POST":
            await asyncio.Event().wait()
        return Response(str(blocked.is_set()))
