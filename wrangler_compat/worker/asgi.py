"""`asgi.fetch`: a FastAPI, Starlette or other ASGI application answers a Worker's requests (Cloudflare: Python Workers, FastAPI).

Theory of operation
===================
On Cloudflare an application is started and shut down around every request. Here a Worker starts each of its applications
once, when it is first asked, and shuts it down at its own end: what an application prepares lasts, as on any server.
Outside of a Worker, as in a test of one handler, an application lives for its request.

A response that the application sends as one message is handed over as a whole. One that comes in several (`more_body`)
is a stream: each chunk is taken before the next one is asked for, so that nothing piles up before a slow client, and a
client that goes away is told to the application, which then has half a minute to end. What it still does after its
response, such as background tasks, goes on as `waitUntil` work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote, urlsplit

from starlette.requests import ClientDisconnect

from wrangler_compat.worker import current
from wrangler_compat.worker.body import ReadableStream
from wrangler_compat.worker.http import Request, Response
from wrangler_compat.worker.url import DEFAULT_PORTS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

    from wrangler_compat.worker.entrypoint import ExecutionContext

VERSIONS: Final = {"version": "3.0", "spec_version": "2.0"}
"""Those of Cloudflare's SDK. Before 2.4 Starlette listens for the disconnect, and ends a stream at once."""

GONE_GRACE_S = 30
"""How long an application goes on for a client that has gone (Cloudflare: Workers, `waitUntil`)."""

_log = logging.getLogger(__name__)


async def fetch(
    app: ASGIApp, request: Request, env: Any, ctx: ExecutionContext | None = None
) -> Response:
    """Let an application answer a request. It finds `env` as `request.scope["env"]`.

    Raises:
        RuntimeError: the application could not start, or gave no response.
    """
    if not _serving:
        async with applications():
            response, ending = await _ask(app, request, env)
            if response.body is not None:  # a stream would outlive the application
                response = response.replace_body(await response.bytes())
            await ending
            return response
    response, ending = await _ask(app, request, env)
    wait_until = current.wait_until if ctx is None else ctx.wait_until
    wait_until(ending)
    return response


@asynccontextmanager
async def applications() -> AsyncGenerator[None]:
    """Keep the applications that `fetch` starts; shut them down at the end."""
    started: dict[int, _Lifespan] = {}
    _serving.append(started)
    try:
        yield
    finally:
        _serving.remove(started)
        for lifespan in started.values():
            await lifespan.end()


class _Lifespan:
    """The life of an application between its startup and its shutdown (ASGI: lifespan protocol)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._events.put_nowait({"type": "lifespan.startup"})
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run())

    async def started(self) -> None:
        """Wait until it has started.

        Raises:
            RuntimeError: it has failed to.
        """
        await asyncio.shield(self._started)

    async def end(self) -> None:
        """Shut it down."""
        self._events.put_nowait({"type": "lifespan.shutdown"})
        await self._task

    async def _run(self) -> None:
        scope: Scope = {"type": "lifespan", "asgi": VERSIONS, "state": self.state}
        try:
            await self.app(scope, self._events.get, self._send)
        except Exception as error:
            # An application that knows no lifespan raises at once, and is served without one.
            level = logging.ERROR if self._started.done() else logging.DEBUG
            _log.log(level, "the lifespan of %r ended with an error", self.app, exc_info=error)
        finally:
            if not self._started.done():
                self._started.set_result(None)

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.startup.complete":
                self._started.set_result(None)
            case "lifespan.startup.failed":
                text = f"The application could not start: {message.get('message', '')}"
                self._started.set_exception(RuntimeError(text))
            case "lifespan.shutdown.failed":
                _log.error("the application could not shut down: %s", message.get("message", ""))
            case _:
                pass


_serving: list[dict[int, _Lifespan]] = []
"""The applications of the Workers that run, by identity; tests may stack Workers."""


async def _ask(app: ASGIApp, request: Request, env: Any) -> tuple[Response, Awaitable[None]]:
    """Give the response, whole or as a stream, and what the application still does after it."""
    started = _serving[-1]
    if id(app) not in started:
        started[id(app)] = _Lifespan(app)
    lifespan = started[id(app)]
    await lifespan.started()
    exchange = _Exchange(await request.bytes())
    scope = {**_scope(request), "env": env, "state": dict(lifespan.state)}
    work = asyncio.ensure_future(_run(app, scope, exchange))
    try:
        await asyncio.wait({work, exchange.answered}, return_when=asyncio.FIRST_COMPLETED)
        if not exchange.answered.done():
            await work
            raise RuntimeError("The application returned without a complete response.")
        return exchange.response(), _end(work, exchange)
    except BaseException:
        work.cancel()
        raise


async def _run(app: ASGIApp, scope: Scope, exchange: _Exchange) -> None:
    try:
        await app(scope, exchange.receive, exchange.send)
    except BaseException:
        exchange.has_failed = True
        raise
    finally:
        exchange.end()


async def _end(work: asyncio.Future[None], exchange: _Exchange) -> None:
    """Wait until the application has ended; for a client that has gone not for ever."""
    leaving = asyncio.ensure_future(exchange.left.wait())
    await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    await asyncio.wait((work,), timeout=GONE_GRACE_S)
    work.cancel()
    try:
        await work
    except (ClientDisconnect, _ClientGone):
        _log.debug("the client of %r has gone", exchange)


class _ClientGone(OSError):
    """What an application's `send` raises when nobody listens any more (ASGI 2.4)."""


class _Exchange:
    """One request and its response, as an application receives and sends them; and the chunks of a streamed one."""

    def __init__(self, body: bytes) -> None:
        self._unread: list[bytes] = [body]
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._whole: bytes | None = None
        self._is_complete = False
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._wanted = asyncio.Event()
        self._over = asyncio.Event()
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = asyncio.Event()
        self.has_failed = False
        self._wanted.set()

    async def receive(self) -> Message:
        """Give the request's body; after it, the end of the connection, once the response is complete or unwanted."""
        if self._unread:
            return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the response.

        Raises:
            OSError: the client has gone.
        """
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
        elif message["type"] == "http.response.body" and not self._is_complete:
            await self._take(bytes(message.get("body", b"")), more=message.get("more_body", False))

    async def _take(self, content: bytes, *, more: bool) -> None:
        if not self.answered.done():
            self.answered.set_result(None)
            if not more:
                self._whole = content
        await self._wanted.wait()
        if self.left.is_set():
            raise _ClientGone("The client has gone.")
        if content and self._whole is None:
            self._chunks.put_nowait(content)
            self._wanted.clear()
        if not more:
            self._is_complete = True
            self.end()

    def end(self) -> None:
        """Nothing more comes."""
        self._over.set()
        self._chunks.put_nowait(b"")

    def response(self) -> Response:
        """The response; what is still to come of it is a stream."""
        body = ReadableStream(self) if self._whole is None else self._whole or None
        return Response(body, self._status, headers=self._headers)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._wanted.set()
        chunk = await self._chunks.get()
        if not chunk:
            self.end()
            if self.has_failed and not self._is_complete:
                # Whoever reads it must not take what has come for the whole.
                raise ConnectionError("The application failed before its response was complete.")
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Nobody listens any more."""
        if not self._over.is_set():
            self.left.set()
        self._over.set()
        self._wanted.set()


def _scope(request: Request) -> Scope:
    url = urlsplit(request.url)
    return {
        "type": "http",
        "asgi": VERSIONS,
        "http_version": "1.1",
        "method": str(request.method),
        "scheme": url.scheme,
        "path": unquote(url.path),
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
        ],
        "server": (url.hostname or "", url.port or DEFAULT_PORTS.get(url.scheme)),
        "client": None,
    }
