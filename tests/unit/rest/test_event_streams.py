"""`GET …/subscribe`: the events of an instance as server-sent events, the same in both APIs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import EntryRow
from emulator.testing.clock import EPOCH_MS
from tests.unit.rest.emulated import LOCAL, REMOTE, Emulated, emulated
from tests.unit.rest.streaming import StreamingTransport
from wrangler_compat.rest.event_stream import HEARTBEAT_MS
from wrangler_compat.rest.operations import Operations
from wrangler_compat.server import Access, Server

PATIENCE_S = 10
STARTED = ["workflow_queued", "workflow_started", "workflow_running"]
both_apis = pytest.mark.parametrize("api", [LOCAL, REMOTE])


@dataclass
class Streams:
    """A server whose answers are read while they are made."""

    server: Emulated
    client: httpx.AsyncClient
    transport: StreamingTransport

    @asynccontextmanager
    async def follow(
        self, url: str, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[AsyncIterator[str]]:
        """Subscribe; the blocks of the stream, without the blank lines between them."""
        async with self.client.stream("GET", url, headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _blocks(response)

    def watched(self) -> int:
        """How many instances somebody waits for."""
        return len(self.server.engine.feed._watches)  # pyright: ignore[reportPrivateUsage]


async def _blocks(response: httpx.Response) -> AsyncIterator[str]:
    rest = ""
    async for text in response.aiter_text():
        *whole, rest = (rest + text).split("\n\n")
        for block in whole:
            yield block


async def next_of(blocks: AsyncIterator[str], many: int) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(blocks) for _ in range(many)]


async def all_of(blocks: AsyncIterator[str]) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [block async for block in blocks]


def types_of(blocks: list[str]) -> list[str]:
    return [block.split("\n")[1].removeprefix("event: ") for block in blocks]


@asynccontextmanager
async def streams() -> AsyncGenerator[Streams]:
    async with emulated() as server:
        operations = Operations(server.engine, EPOCH_MS, clock=server.clock)
        transport = StreamingTransport(Server(_no_worker, operations, Access()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Streams(server, client, transport)
    assert transport.open_requests == 0


async def _no_worker(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(f"{scope['path']} is the Worker's")


async def ended(made: Streams) -> str:
    await made.server.create("echo", "a", {"text": "line\nbreak\u2028"})
    await made.server.becomes("echo", "a", InstanceStatus.COMPLETE)
    return "/echo/instances/a/subscribe"


@both_apis
async def test_a_finished_instance_is_told_and_the_stream_ends(api: str) -> None:
    async with streams() as made:
        url = api + await ended(made)
        async with made.follow(url) as blocks:
            told = await all_of(blocks)
        assert types_of(told) == [*STARTED, "workflow_completed"]
        number, _, data = told[-1].split("\n")
        assert number == "id: 4"
        assert json.loads(data.removeprefix("data: ")) == {
            "instanceId": "a",
            "eventId": 4,
            "timestamp": EPOCH_MS,
            "type": "workflow_completed",
            "output": {"text": "line\nbreak\u2028"},
        }


@both_apis
@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ("?cursor=3", {}, ["workflow_completed"]),
        ("?cursor=0", {"last-event-id": "3"}, ["workflow_completed"]),
        ("?cursor=4", {}, []),
        ("?filter=workflow_queued,workflow_running", {}, [STARTED[0], STARTED[2]]),
        ("?filter=workflow_queued&filter=workflow_running", {}, [STARTED[0], STARTED[2]]),
        ("?filter=workflow_completed&cursor=4", {}, []),
    ],
)
async def test_a_client_says_what_it_wants_and_what_it_has_seen(
    api: str, query: str, headers: dict[str, str], expected: list[str]
) -> None:
    async with streams() as made:
        url = api + await ended(made)
        async with made.follow(url + query, headers) as blocks:
            assert types_of(await all_of(blocks)) == expected


@both_apis
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("cursor=-1", "cursor must be a whole number from 0 up, not '-1'"),
        ("cursor=many", "not 'many'"),
        ("cursor=" + "9" * 5_000, "not '999"),
        ("cursor=9007199254740992", "not 9007199254740992"),
        ("filter=step_begun", "filter: 'step_begun' is none of attempt_completed,"),
    ],
)
async def test_what_cannot_be_wanted_is_refused(api: str, query: str, reason: str) -> None:
    async with streams() as made:
        response = await made.client.get(f"{api}{await ended(made)}?{query}")
        assert response.status_code == 400
        assert reason in response.text
        assert "Invalid Workflow subscription options: " in response.text


@both_apis
async def test_an_instance_that_is_not_there_is_not_found(api: str) -> None:
    async with streams() as made:
        for path in ("/echo/instances/nobody/subscribe", "/nothing/instances/a/subscribe"):
            assert (await made.client.get(api + path)).status_code == 404


@both_apis
async def test_events_arrive_when_they_happen_and_comments_when_nothing_does(api: str) -> None:
    async with streams() as made:
        await made.server.create("waits", "a")
        async with made.follow(f"{api}/waits/instances/a/subscribe") as blocks:
            told = await next_of(blocks, 8)
            assert types_of(told)[:3] == STARTED
            await made.server.comes_to_wait("waits", "a")
            assert types_of(await next_of(blocks, 1)) == ["workflow_waiting"]
            for _ in range(2):
                await made.server.clock.advance(HEARTBEAT_MS)
                assert await next_of(blocks, 1) == [": still here"]
            await made.server.result("POST", f"{LOCAL}/waits/instances/a/events/answer", 1)
            assert types_of(await all_of(blocks))[-1] == "workflow_completed"


@both_apis
async def test_a_client_that_hangs_up_leaves_nothing_behind(api: str) -> None:
    async with streams() as made:
        await made.server.create("waits", "a")
        await made.server.comes_to_wait("waits", "a")
        calls_before = made.server.clock.next_at_ms()
        async with made.follow(f"{api}/waits/instances/a/subscribe?cursor=100") as blocks:
            reading = asyncio.create_task(next_of(blocks, 1))
            await made.server.clock.advance(1)
            assert (made.watched(), made.transport.open_requests) == (1, 1)
            reading.cancel()
        assert (made.watched(), made.transport.open_requests) == (0, 0)
        assert made.server.clock.next_at_ms() == calls_before


@both_apis
async def test_a_server_that_stops_and_an_instance_that_goes_end_the_stream(api: str) -> None:
    async with streams() as made:
        for each in ("a", "b"):
            await made.server.create("waits", each)
            await made.server.comes_to_wait("waits", each)
        url = f"{api}/waits/instances/"
        async with made.follow(url + "a/subscribe?cursor=100") as blocks:
            await made.server.result("DELETE", f"{LOCAL}/waits/instances/a")
            assert await all_of(blocks) == []
        async with made.follow(url + "b/subscribe?cursor=100") as blocks:
            await made.server.engine.close()
            assert await all_of(blocks) == []


class SlowJournal(MemoryJournal):
    """Holds back the pages of whoever follows until it is told to let them go."""

    def __init__(self) -> None:
        super().__init__()
        self.lets_go = asyncio.Event()

    async def entries(self, key: InstanceKey, after_seq: int, limit: int) -> list[EntryRow]:
        await self.lets_go.wait()
        return await super().entries(key, after_seq, limit)


async def test_a_slow_reader_does_not_hold_up_the_engine() -> None:
    journal = SlowJournal()
    async with emulated(journal=journal) as server:
        await server.create("waits", "a")
        reading = asyncio.create_task(
            server.client.get(f"{LOCAL}/waits/instances/a/subscribe?filter=workflow_completed")
        )
        await server.comes_to_wait("waits", "a")
        await server.result("POST", f"{LOCAL}/waits/instances/a/events/answer", 1)
        await server.becomes("waits", "a", InstanceStatus.COMPLETE)
        assert not reading.done()
        journal.lets_go.set()
        assert types_of((await reading).text.split("\n\n")[:-1]) == ["workflow_completed"]
