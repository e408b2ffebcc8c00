"""The ASGI application of a project: the APIs, the inspector, webhooks by token, a health check, and the user's Worker.

Theory of operation
===================
A web page that the user happens to visit must not be able to drive the emulator. So a request must name this machine in
its `Host` (against DNS rebinding), and one that a page sends must come from a page of this machine (its `Origin`).
Browsers send no `Origin` with images, scripts and frames, but say that another site asks for them (`Sec-Fetch-Site`).
Links stay welcome, but to the APIs, where following one can do something. Where other machines may connect, the APIs want a token, and so does the inspector, as the password
that browsers ask for. Webhooks by token are public: see `wrangler_compat.webhooks.tokens`.

The APIs see the path as it was sent: it is split at slashes first and decoded afterwards, so that `%2F` in an event
type or an instance id is not a separator.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from bindings import wire
from bindings.host import WEBHOOK_PATH
from emulator.errors import EngineStopped
from wrangler_compat.inspector.app import inspector_app
from wrangler_compat.inspector.urls import HOME as INSPECTOR
from wrangler_compat.inspector.urls import PREFIX as INSPECTOR_PREFIX
from wrangler_compat.rest.answers import AUTHENTICATION, INTERNAL, NO_ROUTE, failure
from wrangler_compat.rest.binding import binding_api
from wrangler_compat.rest.local import local_api
from wrangler_compat.rest.local_document import PREFIX as LOCAL_PREFIX
from wrangler_compat.rest.remote import remote_api
from wrangler_compat.rest.remote_document import PREFIX as REMOTE_PREFIX
from wrangler_compat.rest.schedules import PREFIX as SCHEDULES_PREFIX
from wrangler_compat.rest.schedules import schedules_api
from wrangler_compat.webhooks.tokens import TokenWebhooks
from wrangler_compat.worker.scheduled import PATH as SCHEDULED_PATH

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from wrangler_compat.rest.operations import Operations

OLD_LOCAL_PREFIX: Final = "/cdn-cgi/explorer/api"
OLD_INSPECTOR: Final = "/cdn-cgi/explorer"
HEALTH_PATH: Final = "/cdn-cgi/health"

_SLASHES: Final = re.compile("//+")
_METHODS: Final = "GET, POST, PUT, PATCH, DELETE, OPTIONS"


class Access(NamedTuple):
    """Who may ask: only names of this machine in `Host`, unless it listens to others; a token for the APIs."""

    api_token: str | None = None
    only_loopback: bool = True


class Server:
    """The application. `scheduled` runs the Worker's handler of cron triggers."""

    def __init__(
        self,
        worker: ASGIApp,
        operations: Operations,
        access: Access,
        scheduled: ASGIApp | None = None,
    ) -> None:
        self._worker = worker
        self._access = access
        self._engine = operations.engine
        self._webhooks = TokenWebhooks(self._engine)
        self._inspector = inspector_app(operations)
        local = local_api(operations)
        self._apis: dict[str, ASGIApp] = {
            LOCAL_PREFIX: local,
            OLD_LOCAL_PREFIX: local,
            REMOTE_PREFIX: remote_api(operations),
            wire.PREFIX: binding_api(operations),
            SCHEDULES_PREFIX: schedules_api(operations),
        }
        if scheduled is not None:
            self._apis[SCHEDULED_PATH] = scheduled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", "neither lifespan nor websockets are served"
        if scope["method"] == "HEAD":
            send = _only_the_head(send)
        with suppress(ClientDisconnect):  # it has gone before its request was whole
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        path = _SLASHES.sub("/", scope["raw_path"].decode("latin-1"))
        if path.startswith(WEBHOOK_PATH):
            await self._webhooks(scope, receive, send)
            return
        refusal = self._foreign(headers)
        if scope["method"] == "CONNECT":
            refusal = failure(405, NO_ROUTE, "This server is no proxy.")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        for prefix, api in self._apis.items():
            if (inner := _below(prefix, path, scope)) is not None:
                await self._ask(api, headers, inner, receive, send)
                return
        if (inner := _below(INSPECTOR_PREFIX, path, scope)) is not None:
            is_known = self._knows_password(headers)
            await (self._inspector if is_known else _ask_for_password())(inner, receive, send)
            return
        answering = self._worker
        if path == HEALTH_PATH:
            answering = self._health()
        elif path.rstrip("/") == OLD_INSPECTOR:
            answering = RedirectResponse(INSPECTOR)
        await answering(scope, receive, send)

    def _health(self) -> Response:
        try:
            self._engine.check_running()
        except EngineStopped as error:
            return JSONResponse({"status": "stopped", "reason": error.message}, 503)
        return JSONResponse({"status": "ok"})

    async def _ask(
        self, api: ASGIApp, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Put a request to an API. A page of this machine may read the answer."""
        allowed = _cross_origin(headers)

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(allowed)
            await send(message)

        if scope["method"] == "OPTIONS":
            answering: ASGIApp = Response(status_code=204)
        elif not self._is_authorised(headers):
            answering = failure(403, AUTHENTICATION, "Authentication error")
        elif "origin" not in headers and headers.get("sec-fetch-site") == "cross-site":
            answering = failure(403, INTERNAL, "Pages of other sites may not link to an API.")
        else:
            answering = api
        await answering(scope, receive, send_readable)

    def _foreign(self, headers: Headers) -> Response | None:
        """The refusal of a request that was not meant for this machine, or comes from a page of another one."""
        host = _host_name(headers.get("host", ""))
        if self._access.only_loopback and not is_loopback(host):
            text = (
                f"The Host {host!r} is not a name of this machine. Ask for localhost; "
                "start with --host to be reached by others."
            )
            return failure(403, INTERNAL, text)
        origin = headers.get("origin")
        if origin is None and _is_part_of_foreign_page(headers):
            return failure(403, INTERNAL, "Pages of other sites may only link to this server.")
        if origin is not None:
            page = _host_name(origin.partition("://")[2])
            is_own = is_loopback(page) or (not self._access.only_loopback and page == host != "")
            if not is_own:
                return failure(
                    403,
                    INTERNAL,
                    f"Pages of {origin!r} may not use this server; those of localhost may.",
                )
        return None

    def _is_authorised(self, headers: Headers) -> bool:
        token = self._access.api_token
        if token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.encode(), token.encode())
        return scheme.lower() == "bearer" and is_right  # in any case (RFC 9110: authentication)

    def _knows_password(self, headers: Headers) -> bool:
        """Whether a browser has sent the token as the password, under any name (RFC 7617)."""
        token = self._access.api_token
        if token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        try:
            _, _, password = b64decode(given, validate=True).partition(b":")
        except ValueError:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(password, token.encode())


def _only_the_head(send: Send) -> Send:
    """End an answer with its head: what would stream the body, perhaps for ever, is told that nobody listens."""

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_head


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """The name in a `Host` header, without port and brackets; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _below(prefix: str, path: str, scope: Scope) -> Scope | None:
    """A request as what is served below a prefix sees it; None if its path is not there."""
    if path != prefix and not path.startswith(prefix + "/"):
        return None
    return {**scope, "path": path.removeprefix(prefix).rstrip("/") or "/"}


def _is_part_of_foreign_page(headers: Headers) -> bool:
    """Whether a browser wants this for a page of another site (W3C: Fetch metadata), and not because of a link."""
    is_link = headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site") == "cross-site" and not is_link


def _ask_for_password() -> Response:
    text = "The password is the token that --api-token says. The name does not matter."
    challenge = {"www-authenticate": 'Basic realm="workflow-emulator", charset="UTF-8"'}
    return PlainTextResponse(text, 401, challenge)


def _cross_origin(headers: Headers) -> Mapping[str, str]:
    origin = headers.get("origin")
    if origin is None:
        return {}
    wanted = headers.get("access-control-request-headers", "authorization, content-type")
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": wanted,
        "access-control-expose-headers": ", ".join((wire.RUN_ID, wire.TAIL_INDEX)),
        "vary": "Origin",
    }
