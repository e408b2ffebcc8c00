"""The routes of the pages, and what their buttons and forms do.

Reading is a page; doing is a form that is posted, and leads back to a page. What is refused is told on the page where the
form is, with what was typed still in it. A page that is open hears of changes as server-sent events, and asks for itself
anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from bindings.hooks import resume_hook_of
from bindings.host import EngineHost
from emulator.core.inputs import EventSent, WakeUpRequested
from emulator.domain.instance import InstanceKey, scope_of
from emulator.domain.limits import MAX_VALUE_BYTES
from emulator.domain.names import check_event_type
from emulator.domain.status import InstanceStatus
from emulator.engine.reading import list_streams, stream_info
from emulator.errors import Conflict, EmulatorError, HookNotFoundError, InvalidInput, StepNotFound
from emulator.journal.port import HookQuery, InstanceQuery
from emulator.timing.clock import Clock
from wrangler_compat.bodies import MAX_BODY_BYTES, read_body
from wrangler_compat.inspector import pages
from wrangler_compat.inspector.pages import PAGE_ROWS, Paging, Problem, Subject
from wrangler_compat.inspector.urls import instance_url, stream_url, workflow_url
from wrangler_compat.rest.answers import hints_of, last_of_connection, remote_answer
from wrangler_compat.rest.event_stream import (
    HEARTBEAT,
    event_stream,
    frame,
    to_the_end,
    with_silences,
)
from wrangler_compat.rest.operations import Operations, encode_payload
from wrangler_compat.rest.requests import (
    LocalInstance,
    Query,
    convert,
    instance_key,
    segment,
    status_change,
)
from wrangler_compat.worker.form import parse_form

_MOST_DIGITS: Final = 16
"""Of a number in a form: JavaScript has none longer that is whole."""

BETWEEN_CHANGES_MS: Final = 250
"""A page is told of changes no more often than so."""

MAX_PAGE_BYTES: Final = 2 * PAGE_ROWS * MAX_VALUE_BYTES
"""Of a stream's chunks on a page: never fewer than a page has."""

_STATIC: Final = Path(__file__).parent / "static"

_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

Form = Mapping[str, str]
Handler = Callable[[Request], Awaitable[Response]]

_NOTHING_TYPED: Final[Form] = MappingProxyType({})


def inspector_app(operations: Operations) -> Starlette:
    """Make the application, whose paths begin after the prefix and are not decoded yet."""
    inspector = _Inspector(operations)
    workflow, instance = "/workflows/{workflow}", "/workflows/{workflow}/instances/{id}"
    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/", inspector.workflows),
        ("GET", "/changes", inspector.changes),
        ("GET", workflow, inspector.instances),
        ("POST", workflow, inspector.create),
        ("GET", instance, inspector.instance),
        ("GET", instance + "/events", inspector.events),
        ("GET", instance + "/streams/{stream}", inspector.stream),
        ("GET", instance + "/changes", inspector.changes_of),
        ("POST", instance + "/delete", inspector.delete),
        ("POST", instance + "/{action}", inspector.act),
    ]
    app = Starlette(
        routes=[
            Mount("/static", _Static(directory=_STATIC)),
            *(Route(path, handler, methods=[method]) for method, path, handler in routes),
        ],
        exception_handlers={
            EmulatorError: _refused,
            HTTPException: _no_page,
            Exception: _crashed,
        },
    )
    app.router.redirect_slashes = False  # it would lead out of here: it does not know the prefix
    return app


class _Static(StaticFiles):
    """Style and script. A browser asks each time whether its copy is that of this version."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


class _Inspector:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._engine = operations.engine
        self._host = EngineHost(operations.engine)
        self._actions: dict[str, Callable[[InstanceKey, Form], Awaitable[object]]] = {
            "status": self._change_status,
            "restart": self._restart,
            "event": self._send_event,
            "wake-up": self._wake_up,
            "hook": self._resume_hook,
        }

    # reading

    async def workflows(self, _: Request) -> Response:
        listed = [
            (each, await self._operations.status_counts(each.name))
            for each in self._operations.workflows()
        ]
        return _page(pages.workflows_page(self._operations.worker.name, listed))

    async def instances(self, request: Request) -> Response:
        query = Query(request)
        status, page = query.option("status", InstanceStatus), query.whole("page", 1)
        attributes = query.attributes()
        query.finish()
        key = InstanceKey(segment(request, "workflow"), query.text("id") or "")
        if key.id and await self._engine.journal.row(key):
            return RedirectResponse(instance_url(key), 303)
        if key.id:
            problem = Problem(f'There is no instance "{key.id}".', (), {"find": key.id})
            return await self._instances(key.workflow, problem=problem, answer=404)
        return await self._instances(key.workflow, status, attributes, page)

    async def instance(self, request: Request) -> Response:
        page = _page_asked(request)
        return _page(pages.instance_page(await self._subject(instance_key(request)), page))

    async def events(self, request: Request) -> Response:
        page, key = _page_asked(request) or 1, instance_key(request)
        return _page(pages.events_page(key, await self._operations.events(key), page))

    async def stream(self, request: Request) -> Response:
        page, key, stream = _page_asked(request), instance_key(request), segment(request, "stream")
        info = await stream_info(self._engine, key, stream)
        paging = Paging.of(page, info.tail_index + 1, stream_url(key, stream))
        found = await self._engine.journal.chunks(
            key, stream, paging.first, PAGE_ROWS, MAX_PAGE_BYTES
        )
        chunks = [] if found is None else found.chunks
        return _page(pages.stream_page(key, info, chunks, paging))

    async def changes(self, _: Request) -> Response:
        return event_stream(to_the_end(self._changes(None)), _HEADERS)

    async def changes_of(self, request: Request) -> Response:
        return event_stream(to_the_end(self._changes(instance_key(request))), _HEADERS)

    # doing

    async def create(self, request: Request) -> Response:
        workflow, form = segment(request, "workflow"), await _form(request)
        definition = self._engine.definition(workflow)
        try:
            given = {"id": form.get("id", "").strip() or None, "params": _json(form, "params")}
            made = await self._operations.create(workflow, convert(given, LocalInstance).options())
        except (InvalidInput, Conflict) as error:
            problem = _problem(error, form)
            return await self._instances(definition.name, problem=problem, answer=_status(error))
        return RedirectResponse(instance_url(InstanceKey(workflow, made)), 303)

    async def delete(self, request: Request) -> Response:
        key = instance_key(request)
        await self._operations.delete(key)
        return RedirectResponse(workflow_url(key.workflow), 303)

    async def act(self, request: Request) -> Response:
        key, form = instance_key(request), await _form(request)
        action = self._actions.get(segment(request, "action"))
        if action is None:
            raise HTTPException(404)
        try:
            await action(key, form)
        except (InvalidInput, Conflict, StepNotFound, HookNotFoundError) as error:
            page = pages.instance_page(await self._subject(key), None, _problem(error, form))
            return _page(page, _status(error))
        return RedirectResponse(instance_url(key), 303)

    async def _change_status(self, key: InstanceKey, form: Form) -> None:
        asked = {"status": form.get("status")}
        if asked["status"] == "terminate":
            reason = form.get("reason", "").strip()
            asked |= {"rollback": "rollback" in form} | ({"reason": reason} if reason else {})
        await self._operations.change_status(key, status_change(asked))

    async def _restart(self, key: InstanceKey, form: Form) -> None:
        count = form.get("count", "")
        origin = {
            "name": form.get("name"),
            "count": int(count) if count.isdecimal() and len(count) <= _MOST_DIGITS else count,
            "type": form.get("type"),
        }
        change = status_change({"status": "restart", "from": origin})
        await self._operations.change_status(key, change)

    async def _send_event(self, key: InstanceKey, form: Form) -> None:
        payload = encode_payload(_json(form, "payload"))
        event_type = check_event_type(form.get("type"))
        await self._engine.ask(key, EventSent(event_type, payload))

    async def _wake_up(self, key: InstanceKey, _: Form) -> None:
        await self._engine.ask(key, WakeUpRequested(None))

    async def _resume_hook(self, key: InstanceKey, form: Form) -> None:
        payload = _json(form, "payload")
        payload = None if payload is msgspec.UNSET else payload
        token = form.get("token", "")
        await resume_hook_of(self._host, scope_of(key.id), token, payload, None)

    # what both need

    async def _instances(
        self,
        workflow: str,
        status: InstanceStatus | None = None,
        attributes: tuple[tuple[str, str], ...] = (),
        page: int = 1,
        *,
        problem: Problem | None = None,
        answer: int = 200,
    ) -> Response:
        definition = self._engine.definition(workflow)
        counts = await self._operations.status_counts(workflow)
        query = InstanceQuery(workflow, status, attributes=attributes)
        asked = [("attribute", f"{name}={value}") for name, value in attributes]
        asked += [] if status is None else [("status", status.value)]
        total = await self._engine.journal.count(query)
        paging = Paging.of(page, total, workflow_url(workflow), asked)
        rows = await self._engine.journal.rows(query._replace(offset=paging.first, limit=PAGE_ROWS))
        return _page(pages.instances_page(definition, rows, counts, paging, problem), answer)

    async def _subject(self, key: InstanceKey) -> Subject:
        detail = await self._operations.detail(key)
        hooks = await self._engine.journal.hooks(HookQuery(*key, limit=PAGE_ROWS + 1))
        streams = await list_streams(self._engine, key)
        now_ms = self._engine.now_ms()
        held = [each for each in hooks if each.holds_at(now_ms)]
        return Subject(key, detail, held, streams, now_ms)

    async def _changes(self, key: InstanceKey | None) -> AsyncIterator[bytes]:
        clock = self._operations.clock
        # Of one instance also what is written to its streams, which the other feed does not tell.
        feed = self._engine.feed if key is None else self._engine.streams.feed
        with feed.watch(key) as watch:

            async def more() -> list[bytes]:
                await watch.changed()
                return [_CHANGED]

            yield _CHANGED  # perhaps since the page was made
            async for news in with_silences(more, clock):
                yield HEARTBEAT if news is None else _CHANGED
                await _rest(clock)


_CHANGED: Final = frame("changed", b"{}")


async def _rest(clock: Clock) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call = clock.call_at(clock.now_ms() + BETWEEN_CHANGES_MS, lambda: over.set_result(None))
    try:
        await over
    finally:
        call.cancel()


def _page_asked(request: Request) -> int | None:
    """The page of a listing that is asked for, if one is."""
    query = Query(request)
    page = query.whole("page", 1)
    query.finish()
    return None if query.text("page") is None else page


async def _form(request: Request) -> Form:
    body = await read_body(request, MAX_BODY_BYTES)
    try:
        form = parse_form(body, request.headers.get("content-type", ""))
    except TypeError as error:
        raise InvalidInput(str(error)) from error
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _json(form: Form, name: str) -> object:
    """A field as JSON; `msgspec.UNSET` if it is empty."""
    text = form.get(name, "").strip()
    if not text:
        return msgspec.UNSET
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(
            f'{name}: expected JSON, in which a text has quotes: "like this". {error}'
        ) from error


def _page(content: bytes, status: int = 200) -> Response:
    return HTMLResponse(content, status, _HEADERS)


def _problem(error: EmulatorError, form: Form = _NOTHING_TYPED) -> Problem:
    return Problem(error.message, hints_of(error), form)


def _status(error: EmulatorError) -> int:
    return remote_answer(error).status


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, EmulatorError)
    return _page(pages.error_page(_problem(error)), _status(error))


async def _no_page(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "There is no such page." if error.status_code == 404 else f"{error.detail}."
    answer = _page(pages.error_page(Problem(text)), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _crashed(_: Request, __: Exception) -> Response:
    text = "This page could not be made. The log of the emulator says why."
    return last_of_connection(_page(pages.error_page(Problem(text)), 500))
