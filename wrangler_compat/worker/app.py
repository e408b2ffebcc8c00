"""A Worker as an ASGI application: a request becomes a `Request`, its `Response` is sent.

The user's `fetch` runs in a task of its own, so that a client that hangs up does not cancel what it had begun.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.requests import Request as IncomingRequest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.responses import Response as OutgoingResponse

from emulator.engine.frames import traceback_of
from emulator.errors import PayloadTooLarge
from wrangler_compat.bodies import MAX_BODY_BYTES, read_body
from wrangler_compat.worker.http import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

    from wrangler_compat.worker.body import Chunks
    from wrangler_compat.worker.entrypoint import Worker

NO_HANDLER = (
    "Handler does not export a fetch() function.\n\n"
    "This Worker answers no requests: it has no class `Default(WorkerEntrypoint)` with a `fetch`, and no `on_fetch`.\n"
)

_SERVERS: Final = ("content-length", "transfer-encoding", "date")
"""What the server says. A second saying how long a body is would end the connection."""

_log = logging.getLogger(__name__)


class WorkerApp:
    """The ASGI application. A failing `fetch` gives status 500 and its traceback as text, from the user's lines on."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = IncomingRequest(scope, receive)
        try:
            body = await read_body(incoming, MAX_BODY_BYTES)
        except ClientDisconnect:
            return
        except PayloadTooLarge as error:
            outgoing: OutgoingResponse = PlainTextResponse(f"{error.message}\n", 413)
        else:
            if self._worker.handles("fetch"):
                outgoing = await self._answer(incoming, body)
            else:
                outgoing = PlainTextResponse(NO_HANDLER, 404)
        await outgoing(scope, receive, send)

    async def _answer(self, incoming: IncomingRequest, body: bytes) -> OutgoingResponse:
        task = asyncio.ensure_future(self._fetch(incoming, body))
        self._worker.ctx.wait_until(task)  # keeps it, whatever becomes of this one
        return await asyncio.shield(task)

    async def _fetch(self, incoming: IncomingRequest, body: bytes) -> OutgoingResponse:
        try:
            request = _request(incoming, body)
            response = await self._worker.fetch(request)
            content = b"" if response.body is None else response.body.take()
            headers = response.headers.items()
            if isinstance(content, bytes):
                answer = outgoing(response.status, headers, content)
                if incoming.method == "HEAD" and not content:
                    del answer.headers["content-length"]  # the body that GET has is not known
                return answer
            return _Streamed(response.status, headers, content)
        except Exception as error:
            lines = traceback_of(error) or (type(error), error, None)
            _log.error("fetch of %s %s failed", incoming.method, incoming.url, exc_info=lines)
            return PlainTextResponse("".join(traceback.format_exception(*lines)), 500)


def _request(incoming: IncomingRequest, body: bytes) -> Request:
    bodiless = incoming.method in ("GET", "HEAD") or not body
    path = incoming.scope["raw_path"].decode(
        "latin-1"
    )  # as the client wrote it; `path` has lost its escapes
    return Request(
        str(incoming.url.replace(path=path)),
        method=incoming.method,
        headers=incoming.headers.items(),
        body=None if bodiless else body,
    )


class _Streamed(StreamingResponse):
    """What is sent of a response that is still coming. It is told when nobody wants it any more."""

    def __init__(self, status: int, headers: Iterable[tuple[str, str]], chunks: Chunks) -> None:
        super().__init__(chunks, status)
        self.raw_headers = _raw(headers)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._chunks):
            await super().__call__(scope, receive, send)


def outgoing(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> OutgoingResponse:
    """What is sent of a response that user code has made. Its length is counted, whatever its headers say."""
    answer = OutgoingResponse(body, status)
    answer.raw_headers = _raw(headers)
    if status not in (204, 304):
        answer.raw_headers.append((b"content-length", str(len(body)).encode()))
    return answer


def _raw(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name.lower() not in _SERVERS
    ]
