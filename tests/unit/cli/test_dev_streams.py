"""A served project, and other processes that start, follow and signal its workflows."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from bindings.http import HttpWorkflow
from emulator.errors import EngineStopped, InstanceFinished
from tests.unit.cli.process import PATIENCE_S, dev, write_project

ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        return [event.payload, (await step.wait_for_event("paid", "paid"))["payload"]]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response("first")
"""
AS_SINCE_PYTHON_3_12 = """
import asyncio


async def wait_for_connections(self):
    await asyncio.Event().wait()  # those of this test end with the process


asyncio.Server.wait_closed = wait_for_connections
"""
STREAM = "/cdn-cgi/explorer/api/workflows/orders/instances/o-1/subscribe"


async def test_another_process_starts_follows_and_signals_a_workflow(tmp_path: Path) -> None:
    with dev(write_project(tmp_path, ENTRY)) as server:
        async with HttpWorkflow(server.url, "orders") as orders, asyncio.timeout(PATIENCE_S):
            at = datetime(2026, 1, 2, tzinfo=UTC)
            instance = await orders.create(id="o-1", params={"at": at})
            async with instance.subscribe(filter=["wait_started", "workflow_completed"]) as events:
                assert (await events.next()).value.stepName == "paid-1"
                await instance.send_event(type="paid", payload=b"\x00")
                assert [event.type async for event in events] == ["workflow_completed"]
            assert (await instance.status()).output == [{"at": at}, b"\x00"]
            with pytest.raises(InstanceFinished):
                await instance.send_event(type="paid")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("code", [ENTRY, AS_SINCE_PYTHON_3_12 + ENTRY])
async def test_a_signal_ends_open_streams_and_the_process_at_once(
    tmp_path: Path, signal_number: signal.Signals, code: str
) -> None:
    with dev(write_project(tmp_path, code)) as server:
        async with (
            HttpWorkflow(server.url, "orders") as orders,
            httpx.AsyncClient(timeout=PATIENCE_S) as client,
        ):
            instance = await orders.create(id="o-1")
            async with (
                instance.subscribe(cursor=100) as events,
                client.stream("GET", server.url + STREAM) as stream,
            ):
                text = stream.aiter_text()
                assert (await anext(text)).startswith("id: 1\nevent: workflow_queued\n")
                waiting = asyncio.create_task(events.next())
                assert await asyncio.to_thread(server.end, signal_number, 5) == 0
                with pytest.raises(EngineStopped):
                    await waiting
                # No error: the stream has come to its end.
                assert all([not part.startswith(":") async for part in text])
