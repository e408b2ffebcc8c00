"""Hooks, results and sleeps over HTTP: routes of our own, in Cloudflare's envelope (see docs/hooks.md).

They stand beside the API of `bindings.http`, below `wire.PREFIX`. An error has the code of its class, and what the class
tells beside: `{"code": "hook_not_found", "message": …, "token": …}`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from bindings.hooks import HookInfo, resume_hook_of
from bindings.host import EngineHost
from bindings.run import Run
from emulator.core.inputs import WakeUpRequested
from emulator.domain import values
from emulator.domain.hooks import HookRecord, TokenKey, check_token
from emulator.errors import (
    Conflict,
    EmulatorError,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    StepFailure,
    TypeValidationError,
)
from emulator.journal.port import HookQuery
from emulator.projection.rendering import Json, iso
from wrangler_compat.rest.answers import failure, fields_of, line_of, success, tell_script_asked_for
from wrangler_compat.rest.operations import Operations
from wrangler_compat.rest.requests import (
    DEFAULT_PAGE_ROWS,
    MAX_PAGE_ROWS,
    Body,
    Query,
    convert,
    instance_key,
    read_json,
    segment,
)

MAX_WAIT_S: Final = 60
"""How long an answer waits for a result at most; clients ask again."""

_STATUSES: Final[dict[type[EmulatorError], int]] = {
    NotFound: 404,
    Conflict: 409,
    StepFailure: 409,  # a run whose result was asked for has failed, or was cancelled
    PayloadTooLarge: 413,
    TypeValidationError: 422,
    InvalidInput: 400,
    EmulatorError: 500,
}
"""A class, or else the nearest base class, has its status here."""

_CURSOR: Final = re.compile(r"([0-9]{1,16})\.(\w+)", re.ASCII)
_WAIT: Final = re.compile(r"([0-9]{1,4})s", re.ASCII)

Handler = Callable[[Request], Awaitable[Response]]


class ResumeBody(Body, frozen=True):
    """A payload for whoever holds a token, where the token is no part of the path."""

    token: str
    payload: Any = None


class WakeUpBody(Body, frozen=True, rename="camel"):
    """Which sleeps to end: those of these names with their number, such as `nap-1`, or all."""

    correlation_ids: tuple[str, ...] | None = None


def hook_routes(operations: Operations) -> list[Route]:
    """The routes, below `wire.PREFIX`."""
    api = _HooksApi(operations)
    one = "/{workflow}/instances/{id}"
    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/hooks", api.list_hooks),
        ("POST", "/hooks/resume", api.resume_named),
        ("GET", "/hooks/{token}", api.describe),
        ("POST", "/hooks/{token}/resume", api.resume),
        ("GET", one + "/hooks", api.list_hooks_of),
        ("GET", one + "/result", api.result),
        ("POST", one + "/wake-up", api.wake_up),
    ]
    return [
        _HookRoute(path, _enveloped(handler), methods=[method]) for method, path, handler in routes
    ]


class _HookRoute(Route):
    """A route of these."""


def is_enveloped(request: Request) -> bool:
    """Whether a path is one of these, by whatever method it is asked."""
    return any(
        isinstance(route, _HookRoute) and route.matches(request.scope)[0] is not Match.NONE
        for route in request.app.routes
    )


def _enveloped(handler: Handler) -> Handler:
    """Answer errors in the envelope; what else is served below the prefix answers them otherwise."""

    async def answering(request: Request) -> Response:
        try:
            return await handler(request)
        except EmulatorError as error:
            tell_script_asked_for(error, request)
            status = line_of(error, _STATUSES)
            return failure(status, error.code, error.message, fields=fields_of(error))

    return answering


class _HooksApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._engine = operations.engine
        self._host = EngineHost(operations.engine)

    async def describe(self, request: Request) -> Response:
        token = check_token(segment(request, "token"))
        return success(await self._shown(await self._host.hook(TokenKey("", token))))

    async def list_hooks(self, request: Request) -> Response:
        query = Query(request)
        workflow = query.text("workflow")
        if workflow is not None:
            self._engine.definition(workflow)
        return await self._page(query, HookQuery(workflow, query.text("instance_id")))

    async def list_hooks_of(self, request: Request) -> Response:
        key = instance_key(request)
        await self._host.status(key)
        return await self._page(Query(request), HookQuery(*key))

    async def _page(self, query: Query, wanted: HookQuery) -> Response:
        per_page = query.whole("per_page", DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS)
        query.finish()
        if (cursor := query.text("cursor")) is not None:
            wanted = wanted._replace(after=_read_cursor(cursor))
        # One more tells whether there is more.
        rows = await self._engine.journal.hooks(wanted._replace(limit=per_page + 1))
        page, now_ms = rows[:per_page], self._engine.now_ms()
        held = [each for each in page if each.holds_at(now_ms)]
        info: Json = {"per_page": per_page, "count": len(held)}
        if len(rows) > per_page:
            info["cursor"] = f"{page[-1].created_ms}.{page[-1].hook_id}"
        return success(await asyncio.gather(*map(self._shown, held)), info)

    async def resume(self, request: Request) -> Response:
        body = await read_json(request)
        payload = None if body is msgspec.UNSET else body
        return await self._resume(request, segment(request, "token"), payload)

    async def resume_named(self, request: Request) -> Response:
        given = convert(await read_json(request), ResumeBody)
        return await self._resume(request, given.token, given.payload)

    async def _resume(self, request: Request, token: str, payload: object) -> Response:
        resume_id = _resume_id(request)
        hook = await resume_hook_of(self._host, "", token, payload, resume_id)
        answer = {"runId": hook.run_id, "hookId": hook.hook_id, "resumeId": resume_id}
        return success(answer, status=202)

    async def result(self, request: Request) -> Response:
        wait_s, key = _wait_s(request), instance_key(request)
        if not await self._engine.read(key, lambda state: state.is_terminal):
            try:
                await asyncio.wait_for(self._host.ended(key), wait_s)
            except TimeoutError:
                return success(None, status=202)
        output = await Run(self._host, key).return_value()
        return success(values.plain(values.encode(output, "the output")))

    async def wake_up(self, request: Request) -> Response:
        body, key = convert(await read_json(request), WakeUpBody), instance_key(request)
        count: int = await self._engine.ask(key, WakeUpRequested(body.correlation_ids))
        if not count and await self._engine.read(key, lambda state: state.is_terminal):
            raise Conflict(f'Instance "{key.id}" has ended: it does not sleep.')
        return success({"stoppedCount": count})

    async def _shown(self, record: HookRecord) -> Json:
        """A hook as it is answered. `status` is its instance's; null: only the token is left of that."""
        hook = HookInfo.of(record)
        row = await self._engine.journal.row(record.owner)
        until_ms = record.retain_until_ms
        return {
            "hookId": hook.hook_id,
            "token": hook.token,
            "runId": hook.run_id,
            "workflowName": hook.workflow_name,
            "status": None if row is None else row.status,
            "createdAt": iso(record.created_ms),
            "metadata": values.plain(values.encode(hook.metadata, "the metadata")),
            "isWebhook": hook.is_webhook,
        } | ({} if until_ms is None else {"retainUntil": iso(until_ms)})


def _resume_id(request: Request) -> str | None:
    """What the sender calls the payload. Starlette reads headers as Latin-1; senders write UTF-8."""
    given = request.headers.get("idempotency-key")
    try:
        return given and given.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("Idempotency-Key: expected a text in UTF-8") from error


def _read_cursor(text: str) -> tuple[int, str]:
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise InvalidInput("cursor: expected the cursor of the page before")
    return int(found[1]), found[2]


def _wait_s(request: Request) -> int:
    found = _WAIT.fullmatch(request.query_params.get("wait", "0s"))
    if found is None or int(found[1]) > MAX_WAIT_S:
        raise InvalidInput(f"wait: expected seconds, such as 50s, up to {MAX_WAIT_S}s")
    return int(found[1])
