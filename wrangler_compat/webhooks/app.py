"""Takes deliveries: an ASGI application in front of the Worker, which gets every other request.

Theory of operation
===================
A sender repeats a delivery until somebody says that it has arrived, so each may come twice, and the answer to one may
get lost. 202 means that the event is committed. What its sender calls a delivery is stored with the event, in one
transaction, and the engine takes a second event of that name for a repetition: it is acknowledged, and nothing happens.

An instance that is missing is created in the same turn of the engine, and so in the same commit, in which the event is
sent to it. So one delivery does both or nothing, and its repetition finds the event, even if the instance ended at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request

from emulator.core.inputs import EventSent
from emulator.domain import values
from emulator.domain.instance import Creation, InstanceKey, TriggerSource
from emulator.domain.names import check_event_type, check_instance_id, check_new_instance_id
from emulator.engine.turn import Claim
from emulator.errors import (
    Conflict,
    EmulatorError,
    EngineStopped,
    InstanceNotFound,
    InvalidInput,
    InvalidSignature,
    NotFound,
    PayloadTooLarge,
    WorkflowNotFound,
)
from wrangler_compat.bodies import read_body
from wrangler_compat.config.reading import given_text
from wrangler_compat.rest.answers import AUTHENTICATION, INTERNAL, failure, line_of, success
from wrangler_compat.webhooks.schemes import SignedRequest
from wrangler_compat.webhooks.template import Template, value_at

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from emulator.engine.engine import Engine
    from wrangler_compat.webhooks.table import Webhook

MAX_BODY_BYTES: Final = 25 * 1024 * 1024
"""GitHub: webhook payloads are at most 25 MB, the most of all schemes. The part that is sent on may have 1 MiB."""

log = logging.getLogger("workflow_emulator")


class Answer(NamedTuple):
    """How an error is answered."""

    status: int
    code: int


ANSWERS: Final[dict[type[EmulatorError], Answer]] = {
    EmulatorError: Answer(500, INTERNAL),
    InvalidInput: Answer(400, 10002),
    PayloadTooLarge: Answer(413, 10002),
    InvalidSignature: Answer(401, AUTHENTICATION),
    NotFound: Answer(404, 10404),
    WorkflowNotFound: Answer(404, 10200),
    InstanceNotFound: Answer(404, 10400),
    Conflict: Answer(409, 10402),
}
"""An error has the line of its class or of the nearest base class. The codes are those of the REST APIs."""


class WebhookApp:
    """The application. A POST to the path of a webhook is a delivery; `worker` gets the rest."""

    def __init__(self, webhooks: Iterable[Webhook], engine: Engine, worker: ASGIApp) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._engine = engine
        self._worker = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        webhook = self._webhooks.get(scope["path"]) if scope["method"] == "POST" else None
        if webhook is None:
            await self._worker(scope, receive, send)
            return
        try:
            answer = await self._answer(webhook, Request(scope, receive))
        except ClientDisconnect:
            return
        await answer(scope, receive, send)

    async def _answer(self, webhook: Webhook, request: Request) -> Response:
        try:
            body = await read_body(request, MAX_BODY_BYTES)
            webhook.scheme.verify(SignedRequest(request.headers, body, self._engine.now_ms()))
            data = _json(body)
            name = webhook.scheme.delivery_id(request.headers, data)
            # Two webhooks may call different deliveries by one name.
            delivery_id = None if name is None else f"{webhook.path} {name}"
            key = await self._deliver(webhook, data, delivery_id)
        except EmulatorError as error:
            return _refusal(error)
        answer = success({"workflow": key.workflow, "instance": key.id})
        answer.status_code = 202
        return answer

    async def _deliver(
        self, webhook: Webhook, data: object, delivery_id: str | None
    ) -> InstanceKey:
        check_id = check_new_instance_id if webhook.create else check_instance_id
        key = InstanceKey(webhook.workflow, _filled(webhook.instance, data, check_id))
        event_type = _filled(webhook.event, data, check_event_type)
        payload = values.encode(value_at(data, webhook.payload), "the payload of the event")
        event = EventSent(event_type, payload, delivery_id)
        if not webhook.create:
            await self._engine.ask(key, event)
            return key
        creation = Creation(*key, payload, self._engine.now_ms(), TriggerSource.EVENT)
        [taken] = await self._engine.create(
            [creation], may_be_taken=True, claims=[Claim(event=event)]
        )
        if taken is not None:
            # That the instance is there already is no mistake: the event is for it.
            await self._engine.ask(key, event)
        return key


def _json(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"The body of {len(body)} bytes is not JSON: {error}.") from error


def _filled(template: Template, data: object, check: Callable[[Any], str]) -> str:
    text = template.fill(data)
    try:
        return check(text)
    except InvalidInput as error:
        problem = f'{error.message}: "{template.text}" is {given_text(text)} here.'
        raise type(error)(problem) from error


def _refusal(error: EmulatorError) -> Response:
    status, code = line_of(error, ANSWERS)
    if status >= 500 and not isinstance(error, EngineStopped):  # which the engine has told already
        log.error("%s", error, exc_info=error)
    return failure(status, code, error.message)
