"""`wsgi.fetch`: a Flask, Django or other WSGI application answers a Worker's requests (PEP 3333).

The application runs in a thread, so that it holds nothing up; `pyodide.ffi.run_sync` waits there for what is asynchronous.
"""

from __future__ import annotations

import asyncio
import io
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

from wrangler_compat.worker.http import BODILESS, Request, Response
from wrangler_compat.worker.javascript import waiting_loop
from wrangler_compat.worker.url import DEFAULT_PORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrangler_compat.worker.sdk import Context


async def fetch(
    app: Callable[..., Iterable[bytes]],
    req: Request,
    env: Any,
    ctx: Context | None = None,  # noqa: ARG001  there for likeness with `asgi.fetch`, as on Cloudflare
) -> Response:
    """Let an application answer a request. It finds `env` as `environ["workers.env"]`."""
    environ = _environ(req, await req.bytes(), env)
    waiting_loop.set(asyncio.get_running_loop())
    return await asyncio.to_thread(_ask, app, environ)


def _ask(app: Callable[..., Iterable[bytes]], environ: dict[str, Any]) -> Response:
    started: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _: object = None
    ) -> Callable[[bytes], None]:
        started[:] = [(status, headers)]  # nothing is sent yet, so that an error may replace it
        return written.append

    chunks = app(environ, start_response)
    try:
        written += chunks
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    if not started:
        raise RuntimeError("The WSGI application did not call start_response().")
    code, _, phrase = started[0][0].partition(" ")
    body = None if int(code) in BODILESS else b"".join(written)
    return Response(body, int(code), phrase, started[0][1])


def _environ(request: Request, body: bytes, env: Any) -> dict[str, Any]:
    url = urlsplit(request.url)
    environ = {
        "REQUEST_METHOD": str(request.method),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(url.path).decode("latin-1"),
        "QUERY_STRING": url.query,
        "SERVER_NAME": url.hostname or "",
        "SERVER_PORT": str(url.port or DEFAULT_PORTS.get(url.scheme, "")),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "workers.env": env,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = value
        elif key != "CONTENT_LENGTH":
            environ[f"HTTP_{key}"] = value
    return environ
