"""Webhooks by token: a hook with a public address, whose payloads are requests (Workflow SDK: webhooks).

    webhook = step.create_webhook()
    await ask_somebody_to_call(webhook.url)      # in a step
    request = await webhook
    order = await request.json()

The token in the address is all that protects it, so it is always made up. Who calls it gets 202 at once; or the response
that was given to `create_webhook`; or, with `respond_with="manual"`, what a step answers by `request.respond_with(...)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from bindings.ambient import current_host, refuse_in_body
from bindings.hooks import Hook
from bindings.host import Host
from emulator.domain import values
from emulator.domain.hooks import HookRequest
from emulator.domain.values import JsDict
from emulator.engine.steps import OpenHook
from emulator.errors import InvalidHook

MANUAL: Final = "manual"


class StoredResponse(NamedTuple):
    """A response as it is stored and sent."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Webhook(Hook):
    """A hook whose payloads are requests. `.url` is its address on the emulator, to be put behind the emulator's own."""

    def __init__(self, hook: OpenHook, host: Host | None) -> None:
        super().__init__(hook, host)
        self._webhook_host = host

    @property
    def url(self) -> str:
        """Its address."""
        return (self._webhook_host or current_host("webhook.url")).webhook_url(self.token)

    def _revived(self, payload: object) -> WebhookRequest:
        return WebhookRequest(cast("JsDict", payload))


class WebhookRequest:
    """A request that has come. `headers` are by lower-case name."""

    def __init__(self, stored: JsDict) -> None:
        self.method: str = stored["method"]
        self.url: str = stored["url"]
        self.headers: dict[str, str] = {name.lower(): value for name, value in stored["headers"]}
        self._body: bytes = stored["body"]
        self._reply_id: str | None = stored["reply_id"]
        self._has_responded = False

    async def array_buffer(self) -> bytes:
        """Its body."""
        return self._body

    async def text(self) -> str:
        """Its body as text."""
        return self._body.decode()

    async def json(self) -> Any:
        """Its body as JSON.

        Raises:
            ValueError: it is none.
        """
        return json.loads(self._body)

    async def respond_with(self, response: Any) -> None:
        """Answer whoever sent it, in a step. If he has gone since, nothing happens.

        Raises:
            WorkflowContextError: this is the body of `run()`.
            RuntimeError: the webhook does not answer by hand, or this request has been answered.
        """
        refuse_in_body("request.respond_with()")
        if self._reply_id is None:
            raise RuntimeError('Only a webhook with respond_with="manual" is answered by hand.')
        if self._has_responded:
            raise RuntimeError("This request has been answered.")
        answer = stored_response(response)
        if answer is None or answer == MANUAL:
            raise InvalidHook(f"A request is answered with a response, not {response!r}.")
        self._has_responded = True
        waiting = _waiting.pop(self._reply_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(response_of(answer))

    arrayBuffer = array_buffer  # noqa: N815 - the web's spelling
    respondWith = respond_with  # noqa: N815


_waiting: dict[str, asyncio.Future[StoredResponse]] = {}
"""Who waits for an answer by hand, by the id that his request was given."""


def answers_by_hand(request: HookRequest) -> bool:
    """Whether a step answers what comes to this webhook."""
    return check_about(values.decode(request.metadata))["respond_with"] == MANUAL


def check_about(about: Any) -> JsDict:
    """Accept what is stored as the metadata of a webhook: `{"respond_with", "metadata"}`.

    Raises:
        InvalidHook: it is something else.
    """
    if not isinstance(about, JsDict) or set(about) != {"respond_with", "metadata"}:
        raise InvalidHook("A webhook has respond_with and metadata.")
    response: Any = about["respond_with"]
    if response is None or response == MANUAL:
        return about
    try:
        stored_response(SimpleNamespace(**{**response, "headers": dict(response["headers"])}))
        response_of(response)
    except (InvalidHook, TypeError, ValueError, KeyError):
        raise InvalidHook("A webhook's respond_with is not valid.") from None
    return about


class Answering:
    """The wait for an answer by hand: `async with` it around the request's delivery."""

    def __init__(self, reply_id: str) -> None:
        self._reply_id = reply_id

    async def __aenter__(self) -> asyncio.Future[StoredResponse]:
        future = _waiting[self._reply_id] = asyncio.get_running_loop().create_future()
        return future

    async def __aexit__(self, *_: object) -> None:
        _waiting.pop(self._reply_id, None)


def stored_response(given: Any) -> Any:
    """What is stored of what `respond_with` was given: None, "manual", or `{"status", "headers", "body"}`.

    Raises:
        InvalidHook: it is none of these, and no response with `status`, `headers` and `body`.
    """
    if given is None:
        return None
    if given == MANUAL:
        return MANUAL
    try:
        headers = [[str(name), str(value)] for name, value in given.headers.items()]
        return {"status": int(given.status), "headers": headers, "body": bytes(given.body or b"")}
    except (AttributeError, TypeError, ValueError):
        raise InvalidHook(
            f'(webhook-invalid-respond-with-value) respond_with is None, a Response or "manual", not {given!r}.'
        ) from None


def response_of(stored: Mapping[str, Any]) -> StoredResponse:
    """A response out of what is stored."""
    headers = [(str(name), str(value)) for name, value in stored["headers"]]
    return StoredResponse(stored["status"], headers, stored["body"])
