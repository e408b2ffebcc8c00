"""Connections of clients that are slow, silent, or send too much: over real sockets, in real time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.responses import StreamingResponse

from emulator.engine.engine import Engine
from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import VirtualClock
from tests.unit.rest.emulated import LOCAL, REMOTE
from wrangler_compat.bodies import MAX_BODY_BYTES
from wrangler_compat.cli.connection import PatientConnection, tell_of_websockets
from wrangler_compat.inspector.urls import PREFIX as INSPECTOR
from wrangler_compat.rest.operations import Operations
from wrangler_compat.server import Access, Server

PATIENCE_S = 0.2
SETTLED_S = 10
HOST = b"Host: localhost\r\n"
GET = b"GET /cdn-cgi/health HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST " + LOCAL.encode() + b"/echo/instances HTTP/1.1\r\n" + HOST


class HastyConnection(PatientConnection):
    """Waits so long that a test can wait longer."""

    patience_s = PATIENCE_S


class Client:
    """A connection whose every byte the test sends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send some bytes."""
        self._writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """Receive an answer: its status and body."""
        head = await self.head()
        [length] = [
            int(line.split(b":")[1])
            for line in head.lower().splitlines()
            if line.startswith(b"content-length:")
        ]
        return int(head.split()[1]), await self._reader.readexactly(length)

    async def head(self) -> bytes:
        """Receive the head of an answer."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def rest(self) -> bytes:
        """Receive all that comes until the other side ends the connection."""
        return await self._reader.read()

    async def status(self) -> int:
        """Receive the first line of an answer."""
        return int((await self._reader.readline()).split()[1])

    async def is_cut_off(self, within_s: float) -> bool:
        """Wait for the end of the connection."""
        try:
            async with asyncio.timeout(within_s):
                return await self._reader.read() == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class Listening:
    """The server, and connections to it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        """Connect, and send nothing yet."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Hang up everywhere."""
        for client in self._clients:
            client.close()


@asynccontextmanager
async def listening() -> AsyncGenerator[Listening]:
    """Serve on a socket, with little patience. The Worker answers when its time is over twice."""
    engine = Engine(MemoryJournal(), VirtualClock(), [])
    await engine.start()
    app = Server(_slow_worker, Operations(engine, 0), Access())
    config = uvicorn.Config(app, http=HastyConnection, lifespan="off", ws="none", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        serving = asyncio.create_task(server.serve([bound]))
        clients = Listening(bound.getsockname()[1])
        try:
            async with asyncio.timeout(SETTLED_S):
                yield clients
        finally:
            clients.close()
            server.should_exit = server.force_exit = True
            await serving
            await engine.close()


async def _slow_worker(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/endless":
        await StreamingResponse(_endless())(scope, receive, send)
        return
    is_over = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * PATIENCE_S, is_over.set)
    await is_over.wait()
    headers = [(b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"late"})


async def _endless() -> AsyncGenerator[bytes]:
    yield b"."
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /cdn-",
        POST + b"Content-Length: 100\r\n\r\n",
        POST + b"Content-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "no body", "half a body"],
)
async def test_a_client_that_does_not_go_on_is_cut_off_and_holds_nobody_up(begun: bytes) -> None:
    async with listening() as server:
        silent = await server.connect()
        silent.send(begun)
        other = await server.connect()
        other.send(GET)
        assert (await other.answer())[0] == 200
        assert await silent.is_cut_off(within_s=SETTLED_S)


async def test_a_client_that_sends_a_byte_at_a_time_is_cut_off() -> None:
    async with listening() as server:
        slow = await server.connect()
        slow.send(POST + b"Content-Length: 1000\r\n\r\n")
        while not await slow.is_cut_off(within_s=PATIENCE_S / 4):
            slow.send(b" ")


async def test_a_request_that_follows_on_a_connection_has_no_more_time() -> None:
    async with listening() as server:
        client = await server.connect()
        client.send(GET)
        assert (await client.answer())[0] == 200
        client.send(POST + b"Content-Length: 100\r\n\r\n")
        assert await client.is_cut_off(within_s=SETTLED_S)


async def test_an_answer_may_take_longer_than_a_request() -> None:
    async with listening() as server:
        client = await server.connect()
        client.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert await client.answer() == (200, b"late")


async def test_a_connection_is_kept_for_more_requests() -> None:
    async with listening() as server:
        client = await server.connect()
        for _ in range(3):
            client.send(GET)
            assert await client.answer() == (200, b'{"status":"ok"}')


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async with listening() as server:
        client = await server.connect()
        length = f"Content-Length: {MAX_BODY_BYTES + 1}\r\n".encode()
        client.send(POST + length + b"Expect: 100-continue\r\n\r\n")
        status, body = await client.answer()  # and no "100 Continue" before it
        assert status == 413
        assert b"at most 104857600 bytes" in body


@pytest.mark.parametrize("nonsense", [b"GET /\xff HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n"])
async def test_what_is_no_http_is_refused(nonsense: bytes) -> None:
    async with listening() as server:
        client = await server.connect()
        client.send(nonsense)
        assert await client.status() == 400


@pytest.mark.parametrize("path", ["/cdn-cgi/local/explorer/changes", "/endless"])
async def test_the_head_of_a_stream_is_an_answer_that_ends(path: str) -> None:
    async with listening() as server:
        client = await server.connect()
        client.send(f"HEAD {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        assert b" 200 " in (await client.head()).splitlines()[0]
        client.send(GET)
        assert await client.answer() == (200, b'{"status":"ok"}')


async def test_after_a_crash_the_client_is_told_that_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def crash(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(Operations, "detail", crash)
    async with listening() as server:
        for prefix in (LOCAL, REMOTE, f"{INSPECTOR}/workflows"):
            client = await server.connect()
            client.send(f"GET {prefix}/echo/instances/x HTTP/1.1\r\n".encode() + HOST + b"\r\n")
            head = await client.head()
            assert b" 500 " in head.splitlines()[0]
            assert b"connection: close" in head.lower()
            await client.rest()
    assert "LookupError" in caplog.text


async def test_what_is_no_http_after_a_refusal_ends_the_connection_and_is_no_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening() as server:
        client = await server.connect()
        client.send(b"POST / HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.answer())[0] == 403
        client.send(b"no chunk\r\n")
        assert await client.is_cut_off(within_s=SETTLED_S)
    assert "Traceback" not in caplog.text


async def test_who_wants_a_websocket_is_told_once_that_there_are_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tell_of_websockets.cache_clear()
    async with listening() as server:
        client = await server.connect()
        for _ in range(2):
            client.send(GET.strip() + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert (await client.answer())[0] == 200
    assert [each.getMessage() for each in caplog.records] == [
        "WebSockets are not emulated: a request for one is answered as any other."
    ]
