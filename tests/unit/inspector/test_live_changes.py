"""How an open page hears of changes: server-sent events, for one instance or for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from emulator.domain.instance import InstanceKey
from emulator.engine.engine import Engine
from emulator.engine.programs import RunEvent
from emulator.engine.residents import UNLOAD_AFTER_MS
from emulator.engine.step_code import StepCode
from emulator.engine.steps import StepContext
from emulator.testing.clock import EPOCH_MS
from tests.unit.rest.emulated import CONFIG, Emulated, emulated
from tests.unit.rest.streaming import StreamingTransport
from wrangler_compat.inspector.app import BETWEEN_CHANGES_MS, inspector_app
from wrangler_compat.inspector.urls import HOME, PREFIX, instance_url
from wrangler_compat.rest.event_stream import HEARTBEAT, HEARTBEAT_MS
from wrangler_compat.rest.operations import Operations

CHANGED = b"event: changed\ndata: {}\n\n"
SEEN = InstanceKey("waits", "seen")


@asynccontextmanager
async def changes(server: Emulated, url: str) -> AsyncGenerator[AsyncIterator[bytes]]:
    app = inspector_app(Operations(server.engine, EPOCH_MS, clock=server.clock))
    async with (
        httpx.AsyncClient(transport=StreamingTransport(app), base_url="http://localhost") as client,
        client.stream("GET", url.removeprefix(PREFIX)) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        yield response.aiter_raw()


@pytest.mark.parametrize("url", [f"{HOME}changes", f"{instance_url(SEEN)}/changes"])
async def test_a_page_hears_at_once_and_then_of_each_change(url: str) -> None:
    async with emulated() as server:
        await server.create(*SEEN)
        await server.comes_to_wait(*SEEN)
        async with changes(server, url) as parts:
            assert await anext(parts) == CHANGED, "perhaps since the page was made"
            await server.result("PATCH", f"{API}/waits/instances/seen/status", {"status": "pause"})
            assert await anext(parts) == CHANGED


API = "/cdn-cgi/local/explorer/api/workflows"


async def test_the_page_of_an_instance_does_not_hear_of_others() -> None:
    async with emulated() as server:
        await server.create(*SEEN)
        await server.comes_to_wait(*SEEN)
        await server.clock.advance(UNLOAD_AFTER_MS)
        async with changes(server, f"{instance_url(SEEN)}/changes") as parts:
            assert await anext(parts) == CHANGED
            await server.create("echo", "other")
            await server.clock.advance(HEARTBEAT_MS)
            assert await anext(parts) == HEARTBEAT


async def test_many_changes_are_told_once_in_a_while() -> None:
    async with emulated() as server, changes(server, f"{HOME}changes") as parts:
        assert await anext(parts) == CHANGED
        for number in range(5):
            await server.create("echo", f"e-{number}")
        assert await anext(parts) == CHANGED
        await server.clock.advance(BETWEEN_CHANGES_MS)
        assert await anext(parts) == CHANGED
        await server.clock.advance(HEARTBEAT_MS + BETWEEN_CHANGES_MS)
        assert await anext(parts) == HEARTBEAT


async def test_the_page_of_an_instance_hears_of_what_its_steps_write() -> None:
    gate = asyncio.Event()

    async def scribe(event: RunEvent, step: StepContext) -> object:
        async def callback(_: object) -> None:
            await gate.wait()
            await step.write("notes", 1)
            await asyncio.Event().wait()

        step.use_streams()
        return await step.do("write", StepCode(callback), CONFIG)

    async with emulated(runs={"waits": scribe}) as server:
        await server.create(*SEEN)
        async with asyncio.timeout(10):
            await server.engine.until(SEEN, lambda state: state.open or None)
        async with changes(server, f"{instance_url(SEEN)}/changes") as parts:
            assert await anext(parts) == CHANGED
            gate.set()
            async with asyncio.timeout(10):
                assert await anext(parts) == CHANGED


async def test_the_end_of_the_engine_ends_the_stream() -> None:
    async with emulated() as server:
        engine: Engine = server.engine
        async with changes(server, f"{HOME}changes") as parts:
            assert await anext(parts) == CHANGED
            await engine.close()
            assert [part async for part in parts] == []
