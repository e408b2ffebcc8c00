"""The API of `bindings.http`: the binding of a Worker, for another process (see docs/http.md).

Cloudflare's REST API loses what the binding needs: classes of errors, types of values, that an event came too late. This
one is the binding's own, in the words of `bindings.wire`. What comes in is checked here, whoever sends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bindings import wire
from bindings.host import EngineChunks, EngineHost, NewInstance
from emulator.core.inputs import AttributesRequested, EventSent, Input, TerminateRequested
from emulator.domain import values
from emulator.domain.attributes import check_attributes
from emulator.domain.duration import retention_ms
from emulator.domain.hooks import (
    HookRequest,
    TokenKey,
    check_resume_id,
    check_token,
    min_retention,
)
from emulator.domain.limits import MAX_BATCH_INSTANCES
from emulator.domain.names import (
    check_event_type,
    check_instance_id,
    check_new_instance_id,
    check_reason,
    check_stream_name,
)
from emulator.engine.reading import StreamReader
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
from wrangler_compat.bodies import MAX_BODY_BYTES, read_body
from wrangler_compat.rest.answers import (
    Answers,
    allowed_methods,
    api_app,
    last_of_connection,
    line_of,
    no_route,
    path_of,
    tell_script_asked_for,
)
from wrangler_compat.rest.chunk_stream import (
    chunk_frames,
    plain_stream,
    start_index,
    wants_events,
)
from wrangler_compat.rest.dynamic import dynamic_routes
from wrangler_compat.rest.event_stream import event_stream, frame, frames, wanted_events
from wrangler_compat.rest.hooks import hook_routes, is_enveloped
from wrangler_compat.rest.operations import Operations
from wrangler_compat.rest.requests import (
    instance_key,
    segment,
)

T = TypeVar("T")

PATIENCE_S: Final = 20.0
"""How long an answer waits for the end of an instance; clients ask again."""

_SHOWN_BYTES: Final = 80

_STATUSES: Final[dict[type[EmulatorError], int]] = {
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
    routes = [
        Route("/{workflow}/instances", api.create, methods=["POST"]),
        Route(one, api.status, methods=["GET"]),
        Route(one, api.ask, methods=["POST"]),
        Route(one + "/end", api.end, methods=["GET"]),
        Route(one + "/subscribe", api.subscribe, methods=["GET"]),
        Route("/find", api.find, methods=["POST"]),
        Route("/holder", api.holder, methods=["POST"]),
        Route("/resume", api.resume, methods=["POST"]),
        Route(one + "/streams", api.list_streams, methods=["GET"]),
        Route(one + "/streams/{namespace}/info", api.stream_info, methods=["GET"]),
        Route(one + "/streams/{namespace}", api.read_stream, methods=["GET"]),
        *dynamic_routes(operations.engine),
        *hook_routes(operations),
    ]
    return api_app(routes, operations.worker.scripts, Answers(_refused, _no_route, _crashed))


class _BindingApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._engine = operations.engine
        self._clock = operations.clock
        self._host = EngineHost(operations.engine)

    async def create(self, request: Request) -> Response:
        batch = await _decoded(request, wire.NewInstances)
        if not 1 <= len(batch.instances) <= MAX_BATCH_INSTANCES:
            raise InvalidBatch(f"A batch is 1 to {MAX_BATCH_INSTANCES} instances.")
        now_ms = self._engine.now_ms()
        checked = [_checked_instance(each, now_ms) for each in batch.instances]
        workflow = segment(request, "workflow")
        taken = await self._host.create(
            workflow, checked, may_be_taken=True, is_whole=batch.is_whole
        )
        return _answer(wire.Created([each and wire.refusal_of(each) for each in taken]))

    async def status(self, request: Request) -> Response:
        return _answer(await self._host.status(instance_key(request)))

    async def ask(self, request: Request) -> Response:
        item = wire.ask_from_json(await read_body(request, MAX_BODY_BYTES))
        return _answer(wire.Told(await self._host.ask(instance_key(request), _checked_ask(item))))

    async def find(self, request: Request) -> Response:
        instance_id = check_instance_id(await _decoded(request, str))
        return _answer(wire.Found(await self._host.find(instance_id)))

    async def holder(self, request: Request) -> Response:
        return _answer(await self._host.hook(await _decoded(request, TokenKey)))

    async def resume(self, request: Request) -> Response:
        given = await _decoded(request, wire.Resume)
        payload = _checked_value(given.payload, f'the payload for the hook "{given.token.token}"')
        if given.resume_id is not None:
            check_resume_id(given.resume_id)
        record = await self._host.resume_hook(
            given.token, payload, given.resume_id, given.checked_by
        )
        return _answer(record)

    async def end(self, request: Request) -> Response:
        try:
            await asyncio.wait_for(self._host.ended(instance_key(request)), PATIENCE_S)
        except TimeoutError:
            return _answer(wire.Waited(ended=False))
        return _answer(wire.Waited(ended=True))

    async def subscribe(self, request: Request) -> Response:
        subscription = Subscription(self._engine, instance_key(request), wanted_events(request))
        await subscription.open()
        return event_stream(_with_its_end(frames(subscription, self._clock)))

    async def list_streams(self, request: Request) -> Response:
        return _answer(wire.StreamList(await self._host.streams(instance_key(request))))

    async def stream_info(self, request: Request) -> Response:
        return _answer(await self._host.stream(instance_key(request), _namespace(request)))

    async def read_stream(self, request: Request) -> Response:
        key = instance_key(request)
        reader = StreamReader(self._engine, key, _namespace(request), start_index(request))
        info = await reader.open()
        headers = {wire.RUN_ID: key.id, wire.TAIL_INDEX: str(info.tail_index)}
        if wants_events(request):
            chunks = _with_its_end(chunk_frames(EngineChunks(reader), self._clock))
            return event_stream(chunks, headers)
        return plain_stream(reader, headers)


async def _with_its_end(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for each in content:
            yield each
    except EmulatorError as error:
        yield frame(wire.REFUSED, msgspec.json.encode(wire.refusal_of(error)))
    else:
        yield frame(wire.END, b"{}")


async def _decoded(request: Request, kind: type[T]) -> T:
    body = await read_body(request, MAX_BODY_BYTES)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"Invalid input: {error}") from error


def _namespace(request: Request) -> str:
    return check_stream_name(segment(request, "namespace"))


def _checked_instance(given: NewInstance, now_ms: int) -> NewInstance:
    for retention in (given.success_retention_ms, given.error_retention_ms):
        if retention is not None:
            retention_ms(retention)
    params = _checked_value(given.params, "params")
    hook = None if given.hook is None else _checked_hook(given.hook, now_ms)
    if given.attributes is not None:
        check_attributes(given.attributes)
    return msgspec.structs.replace(
        given,
        id=check_new_instance_id(given.id),
        params=params,
        hook=hook,
        code=None,  # what code an instance runs is decided by the dispatcher, in the Worker
    )


def _checked_hook(given: HookRequest, now_ms: int) -> HookRequest:
    """What a creator may say of a hook; that it is a webhook, or which class its payloads are of, only `run()` says."""
    retention = given.min_retention
    if retention is not None:
        left_ms = retention.duration_ms
        if left_ms is None and retention.until_ms is not None:
            left_ms = retention.until_ms - now_ms
        min_retention(left_ms, now_ms)
    metadata = _checked_value(given.metadata, "the metadata of the hook")
    return HookRequest("", check_token(given.token), metadata, retention)


def _checked_ask(item: Input) -> Input:
    if isinstance(item, AttributesRequested):
        check_attributes(item.changes)
    if isinstance(item, TerminateRequested) and item.reason is not None:
        check_reason(item.reason)
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
        shown = bytes(given)[:_SHOWN_BYTES].decode(errors="replace")
        raise SerializationError(
            f'{where}: {shown} is not a value as the journal has it: an object with the key "$" stands for what JSON lacks, '
            'such as {"$": "bytes", "value": "AAE="}.'
        ) from error
    return values.encode(value, where)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, EmulatorError)
    tell_script_asked_for(error, request)
    status = line_of(error, _STATUSES)
    if isinstance(error, DynamicCodeError):
        place = wire.CodePlace(error.file, error.line, error.column)
        return _answer(wire.CodeRefused(wire.refusal_of(error), place), status)
    return _answer(wire.Refused(wire.refusal_of(error)), status)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        text = f"There is no {request.method} {path_of(request)}."
        return _answer(wire.Refused(wire.refusal_of(NotFound(text))), 404)
    if is_enveloped(request):
        return await no_route(request, error)
    allowed = allowed_methods(request)
    text = f"{request.method} is not allowed for {path_of(request)}, only {allowed}."
    answer = _answer(wire.Refused(wire.refusal_of(InvalidInput(text))), 405)
    answer.headers["allow"] = allowed
    return answer


async def _crashed(_: Request, error: Exception) -> Response:
    refusal = wire.refusal_of(EmulatorError(repr(error)))
    return last_of_connection(_answer(wire.Refused(refusal), 500))


def _answer(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
