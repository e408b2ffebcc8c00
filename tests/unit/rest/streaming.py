"""A transport that hands an ASGI application's answer over while it is made; httpx's own waits for the whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx

from wrangler_compat.rest.chunk_stream import BrokenOff


class StreamingTransport(httpx.AsyncBaseTransport):
    """Asks an application in this loop. A response that is closed is a client that has hung up."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.open_requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _Exchange(await request.aread())
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self.open_requests += 1
        exchange.task = asyncio.create_task(self._serve(scope, exchange))
        try:
            status, headers = await exchange.start
        except asyncio.CancelledError:
            await exchange.aclose()
            raise
        return httpx.Response(status, headers=headers, stream=exchange)

    async def _serve(self, scope: Any, exchange: _Exchange) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except BrokenOff:
            exchange.is_broken_off = True
        finally:
            self.open_requests -= 1
            exchange.parts.put_nowait(None)


class _Exchange(httpx.AsyncByteStream):
    """One request and its answer, as the application and the client see them."""

    task: asyncio.Task[None]
    is_broken_off = False

    def __init__(self, body: bytes) -> None:
        self.start: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._body: bytes | None = body
        self._hung_up = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.start.set_result((message["status"], message["headers"]))
        else:
            self.parts.put_nowait(message.get("body", b""))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self.parts.get()) is not None:
            yield part
        if self.is_broken_off:
            raise httpx.RemoteProtocolError("incomplete chunked read")

    async def aclose(self) -> None:
        self._hung_up.set()
        await self.task
