"""`asgi.fetch`: a FastAPI, Starlette or other ASGI application answers a Worker's requests (Cloudflare: Python Workers, FastAPI).

Theory of operation
===================
On Cloudflare an application is started and shut down around every request. Here a Worker starts each of its applications
once, when it is first asked, and shuts it down at its own end: what an application prepares lasts, as on any server.
Outside of a Worker, as in a test of one handler, an application lives for its request.

A response is collected and handed over when it is complete. What the application still does then, such as background
tasks, goes on as `waitUntil` work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from wrangler_compat.worker import current
from wrangler_compat.worker.http import Request, Response
from wrangler_compat.worker.url import DEFAULT_PORTS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

    from wrangler_compat.worker.entrypoint import ExecutionContext

VERSIONS: Final = {"version": "3.0", "spec_version": "2.4"}

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
            response, work = await _ask(app, request, env)
            await work
            return response
    response, work = await _ask(app, request, env)
    wait_until = current.wait_until if ctx is None else ctx.wait_until
    wait_until(work)
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


async def _ask(app: ASGIApp, request: Request, env: Any) -> tuple[Response, asyncio.Future[None]]:
    """Give the complete response, and what the application still does after it."""
    started = _serving[-1]
    if id(app) not in started:
        started[id(app)] = _Lifespan(app)
    lifespan = started[id(app)]
    await lifespan.started()
    exchange = _Exchange(await request.bytes())
    scope = {**_scope(request), "env": env, "state": dict(lifespan.state)}
    work = asyncio.ensure_future(_run(app, scope, exchange))
    try:
        await asyncio.wait({work, exchange.complete}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not exchange.complete.done():
        await work
        raise RuntimeError("The application returned without a complete response.")
    return exchange.response(), work


async def _run(app: ASGIApp, scope: Scope, exchange: _Exchange) -> None:
    await app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its response, as an application receives and sends them."""

    def __init__(self, body: bytes) -> None:
        self._unread: list[bytes] = [body]
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def receive(self) -> Message:
        """Give the request's body; after it, the end of the connection, once the response is complete."""
        if self._unread:
            return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
        await asyncio.shield(self.complete)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False) and not self.complete.done():
                self.complete.set_result(None)

    def response(self) -> Response:
        """The response, which is complete."""
        return Response(bytes(self._body) or None, self._status, headers=self._headers)


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
