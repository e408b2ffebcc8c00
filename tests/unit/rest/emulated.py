"""A server in this process, with workflows written for it, a journal in memory and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from emulator.core.state import InstanceState
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.engine.engine import Engine
from emulator.engine.programs import Program, RunEvent, WorkflowDefinition
from emulator.engine.rest import PARK_AFTER_MS
from emulator.engine.step_code import AttemptContext, Compensation, RollbackCode, StepCode
from emulator.engine.steps import StepContext
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Journal
from emulator.testing.clock import EPOCH_MS, VirtualClock
from tests.unit.rest.documented import hold_against_document
from wrangler_compat.rest.operations import Operations, WorkerInfo
from wrangler_compat.server import Access, Server

Run = Callable[[RunEvent, StepContext], Awaitable[object]]

LOCAL = "/cdn-cgi/local/explorer/api/workflows"
REMOTE = "/client/v4/accounts/0123456789abcdef0123456789abcdef/workflows"

CONFIG = StepConfig(RetryConfig(limit=1, delay="1 second"), timeout="1 minute")


class Boom(Exception):
    """What steps raise here."""


class _Function(Program):
    def __init__(self, run: Run) -> None:
        self._run = run

    async def run(self, event: RunEvent, step: StepContext) -> object:
        return await self._run(event, step)


def workflow(name: str, run: Run) -> WorkflowDefinition:
    """A workflow whose `run` is a function."""
    return WorkflowDefinition(name, lambda: _Function(run), class_name="Work", script_name="shop")


def gives(value: object) -> StepCode:
    """A step's code that returns a value."""

    async def callback(_: object) -> object:
        return value

    return StepCode(callback)


def raises(*attempts: Exception | None) -> StepCode:
    """A step's code: what each attempt raises; None returns the number of the attempt. The last one repeats."""

    async def callback(context: AttemptContext) -> object:
        error = attempts[min(context.attempt, len(attempts)) - 1]
        if error is not None:
            raise error
        return context.attempt

    return StepCode(callback)


async def orders(event: RunEvent, step: StepContext) -> object:
    """A step, a flaky step, a sleep, an event."""
    charge = await step.do("charge", gives({"params": event.payload}), CONFIG)
    await step.do("nothing", gives(None), CONFIG)
    await step.do("flaky", raises(Boom("no"), None), CONFIG)
    await step.sleep("nap", 60_000)
    approval = await step.wait_for_event("approval", "approved", 3_600_000)
    return {"charge": charge, "approval": approval.payload}


async def waits(event: RunEvent, step: StepContext) -> object:
    """One step, then an event that a test sends or does not."""
    await step.do("first", gives("one"), CONFIG)
    return (await step.wait_for_event("answer", "answer", 60_000)).payload


async def saga(event: RunEvent, step: StepContext) -> object:
    """A step with a rollback handler, then a wait."""

    async def release(_: Compensation) -> None:
        return None

    await step.do("reserve", gives("r"), CONFIG, RollbackCode(StepCode(release), CONFIG))
    return (await step.wait_for_event("hold", "hold", 60_000)).payload


async def secret(event: RunEvent, step: StepContext) -> object:
    """A step whose output is not shown, and one whose output is long."""
    await step.do("key", gives("s3cret"), msgspec.structs.replace(CONFIG, sensitive="output"))
    await step.do("long", gives("x" * 2_000), CONFIG)
    return True


async def echo(event: RunEvent, step: StepContext) -> object:
    """Ends at once, with its params."""
    return event.payload


async def download(event: RunEvent, step: StepContext) -> object:
    """A step that returns a stream of bytes, and one whose stream is not shown."""

    async def chunks(_: object) -> object:
        async def made() -> AsyncGenerator[bytes]:
            yield b"PK\x00\xff"
            yield b"end"

        return made()

    await step.do("file", StepCode(chunks), CONFIG)
    await step.do("hidden", StepCode(chunks), msgspec.structs.replace(CONFIG, sensitive="output"))
    return True


RUNS = {
    "orders": orders,
    "waits": waits,
    "saga": saga,
    "secret": secret,
    "echo": echo,
}


@dataclass
class Emulated:
    """The server, as a client sees it, and the engine behind it."""

    client: httpx.AsyncClient
    engine: Engine
    clock: VirtualClock

    async def send(self, method: str, url: str, body: Any = None) -> tuple[int, Any]:
        """Send JSON (None: no body); the status and the answer."""
        response = await self.client.request(method, url, json=body)
        return response.status_code, response.json()

    async def result(self, method: str, url: str, body: Any = None) -> Any:
        """Send what must succeed; its `result`."""
        status, answer = await self.send(method, url, body)
        assert (status, answer["success"]) == (200, True), answer
        return answer["result"]

    async def create(self, workflow: str, instance_id: str, params: Any = None) -> None:
        """Create an instance."""
        body = {"id": instance_id} | ({} if params is None else {"params": params})
        await self.result("POST", f"{LOCAL}/{workflow}/instances", body)

    async def comes_to_wait(self, workflow: str, instance_id: str) -> None:
        """Let an instance come to rest at a sleep or a wait."""
        await self.clock.advance(PARK_AFTER_MS)
        await self.becomes(workflow, instance_id, InstanceStatus.WAITING)

    async def becomes(self, workflow: str, instance_id: str, *statuses: InstanceStatus) -> None:
        """Wait until an instance has one of the statuses."""

        def reached(state: InstanceState) -> bool | None:
            return state.status in statuses or None

        async with asyncio.timeout(10):
            await self.engine.until(InstanceKey(workflow, instance_id), reached)


@asynccontextmanager
async def emulated(
    access: Access | None = None,
    journal: Journal | None = None,
    worker: WorkerInfo | None = None,
    runs: Mapping[str, Run] = RUNS,
) -> AsyncGenerator[Emulated]:
    """Open the server; close the engine at the end. Every answer is held against the documents."""
    clock = VirtualClock()
    definitions = [workflow(name, run) for name, run in runs.items()]
    engine = Engine(journal or MemoryJournal(), clock, definitions)
    await engine.start()
    server = Server(_worker, Operations(engine, EPOCH_MS, worker, clock=clock), access or Access())
    transport = httpx.ASGITransport(server, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            event_hooks={"response": [hold_against_document]},
        ) as client:
            yield Emulated(client, engine, clock)
    finally:
        await engine.close()


async def _worker(scope: Any, receive: Any, send: Any) -> None:
    """A Worker that answers its own path."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})
