"""The API of `bindings.http`: the binding of a Worker, for another process (see docs/http.md).

Cloudflare's REST API loses what the binding needs: classes of errors, types of values, that an event came too late. This
one is the binding's own, in the words of `bindings.wire`. What comes in is checked here, whoever sends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bindings import wire
from bindings.host import EngineHost, NewInstance
from emulator.core.inputs import EventSent, Input
from emulator.domain import values
from emulator.domain.duration import retention_ms
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_BATCH_INSTANCES
from emulator.domain.names import check_event_type, check_new_instance_id
from emulator.engine.subscription import Subscription
from emulator.errors import (
    Conflict,
    DynamicCodeError,
    EmulatorError,
    InvalidBatch,
    InvalidInput,
    JournalCorrupt,
    NotFound,
    SerializationError,
)
from wrangler_compat.rest.dynamic import dynamic_routes
from wrangler_compat.rest.event_stream import event_stream, frame, frames, wanted_events
from wrangler_compat.rest.operations import Operations
from wrangler_compat.rest.requests import MAX_BODY_BYTES, read_body, segment

PATIENCE_S: Final = 20.0
"""How long an answer waits for the end of an instance; clients ask again."""

_STATUSES: Final[dict[type, int]] = {
    NotFound: 404,
    Conflict: 409,
    DynamicCodeError: 422,
    InvalidInput: 400,
    EmulatorError: 500,
}
"""A class, or else the nearest base class, has its status here."""


def binding_api(operations: Operations) -> Starlette:
    """Make the application, whose paths begin after `wire.PREFIX` and are not decoded yet."""
    api = _BindingApi(operations)
    one = "/{workflow}/instances/{id}"
    return Starlette(
        routes=[
            Route("/{workflow}/instances", api.create, methods=["POST"]),
            Route(one, api.status, methods=["GET"]),
            Route(one, api.ask, methods=["POST"]),
            Route(one + "/end", api.end, methods=["GET"]),
            Route(one + "/subscribe", api.subscribe, methods=["GET"]),
            *dynamic_routes(operations.engine),
        ],
        exception_handlers={
            EmulatorError: _refused,
            HTTPException: _no_route,
            Exception: _crashed,
        },
    )


class _BindingApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._engine = operations.engine
        self._clock = operations.clock
        self._host = EngineHost(operations.engine)

    async def create(self, request: Request) -> Response:
        body = await read_body(request, MAX_BODY_BYTES)
        try:
            given = msgspec.json.decode(body, type=wire.NewInstances).instances
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"Invalid input: {error}") from error
        if not 1 <= len(given) <= MAX_BATCH_INSTANCES:
            raise InvalidBatch(f"A batch is 1 to {MAX_BATCH_INSTANCES} instances.")
        checked = [_checked_instance(each) for each in given]
        workflow = segment(request, "workflow")
        taken = await self._host.create(workflow, checked, may_be_taken=True)
        return _answer(wire.Created([each and wire.refusal_of(each) for each in taken]))

    async def status(self, request: Request) -> Response:
        return _answer(await self._host.status(_key(request)))

    async def ask(self, request: Request) -> Response:
        item = wire.ask_from_json(await read_body(request, MAX_BODY_BYTES))
        await self._host.ask(_key(request), _checked_ask(item))
        return _answer({})

    async def end(self, request: Request) -> Response:
        try:
            await asyncio.wait_for(self._host.ended(_key(request)), PATIENCE_S)
        except TimeoutError:
            return _answer(wire.Waited(ended=False))
        return _answer(wire.Waited(ended=True))

    async def subscribe(self, request: Request) -> Response:
        subscription = Subscription(self._engine, _key(request), wanted_events(request))
        await subscription.open()
        return event_stream(_with_its_end(frames(subscription, self._clock)))


async def _with_its_end(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for each in content:
            yield each
    except EmulatorError as error:
        yield frame(wire.REFUSED, msgspec.json.encode(wire.refusal_of(error)))
    else:
        yield frame(wire.END, b"{}")


def _key(request: Request) -> InstanceKey:
    return InstanceKey(segment(request, "workflow"), segment(request, "id"))


def _checked_instance(given: NewInstance) -> NewInstance:
    for retention in (given.success_retention_ms, given.error_retention_ms):
        if retention is not None:
            retention_ms(retention)
    params = _checked_value(given.params, "params")
    id_ = check_new_instance_id(given.id)
    # What code an instance runs is decided by the dispatcher, in the Worker.
    return msgspec.structs.replace(given, id=id_, params=params, code=None)


def _checked_ask(item: Input) -> Input:
    if not isinstance(item, EventSent):
        return item
    event_type = check_event_type(item.event_type)
    if item.payload is None:
        return item
    payload = _checked_value(item.payload, f'the payload of event "{event_type}"')
    return msgspec.structs.replace(item, payload=payload)


def _checked_value(given: msgspec.Raw, where: str) -> msgspec.Raw:
    try:
        value = values.decode(given)
    except (JournalCorrupt, AttributeError, RecursionError) as error:
        raise SerializationError(f"{where}: this is not a stored value: {error}") from error
    return values.encode(value, where)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, EmulatorError)
    status = next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)
    if isinstance(error, DynamicCodeError):
        place = wire.CodePlace(error.file, error.line, error.column)
        return _answer(wire.CodeRefused(wire.refusal_of(error), place), status)
    return _answer(wire.Refused(wire.refusal_of(error)), status)


async def _no_route(request: Request, _: Exception) -> Response:
    text = f"There is no {request.method} {request.url.path} below {wire.PREFIX}."
    return _answer(wire.Refused(wire.refusal_of(NotFound(text))), 404)


async def _crashed(_: Request, error: Exception) -> Response:
    return _answer(wire.Refused(wire.refusal_of(EmulatorError(repr(error)))), 500)


def _answer(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
