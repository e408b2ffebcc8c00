"""Webhooks by token: the public addresses of hooks that `step.create_webhook` has opened (see `bindings.webhook`).

Theory of operation
===================
Whoever knows the address may use it: it cannot be guessed, and there is no other protection. So a provider reaches it
through a tunnel, under another name than this machine's and from a page of any site, and neither is checked. Who does not
know it learns nothing: a token that does not exist, one of a hook that is no webhook, and one that takes nothing any more
have one answer.

A request is delivered as a payload, so it is committed before it is answered. An answer by hand is waited for as long as
the run can give it: until it ends, or disposes of the webhook.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from uuid import uuid4

from starlette.requests import Request

from bindings.host import WEBHOOK_PATH
from bindings.webhook import MANUAL, Answering, StoredResponse, response_of
from emulator.domain import values
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import SCOPE_MARK
from emulator.domain.limits import MAX_VALUE_BYTES
from emulator.engine.hooks import holder, resume
from emulator.errors import (
    EmulatorError,
    EngineStopped,
    HookNotFoundError,
    InstanceNotFound,
    PayloadTooLarge,
)
from wrangler_compat.bodies import read_body
from wrangler_compat.rest.answers import INTERNAL, failure
from wrangler_compat.worker.app import outgoing

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from emulator.core.state import InstanceState
    from emulator.engine.engine import Engine

NOT_SENT: Final = "webhook-response-not-sent"
"""The Workflow SDK's slug."""

log = logging.getLogger("workflow_emulator")


class TokenWebhooks:
    """The application behind `WEBHOOK_PATH`. It takes every method."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except HookNotFoundError:
            answer = failure(404, HookNotFoundError.code, "There is no such webhook.")
        except PayloadTooLarge as error:
            answer = failure(413, error.code, error.message)
        except EmulatorError as error:
            if not isinstance(error, EngineStopped):  # which the engine has told already
                log.error("%s", error, exc_info=error)
            answer = failure(500, INTERNAL, "The emulator has failed, or stops.")
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        hook = await self._webhook(request)
        respond_with: Any = values.decode(hook.metadata)["respond_with"]
        body = await read_body(request, MAX_VALUE_BYTES)
        if respond_with == MANUAL:
            reply_id = uuid4().hex
            async with Answering(reply_id) as reply:
                await self._deliver(request, hook, body, reply_id)
                return await self._reply(request, hook, reply)
        await self._deliver(request, hook, body, None)
        if respond_with is None:
            return outgoing(202, [], b"")
        return outgoing(*response_of(respond_with))

    async def _deliver(
        self, request: Request, hook: HookRecord, body: bytes, reply_id: str | None
    ) -> None:
        payload = {
            "method": request.method,
            "url": _url(request),
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": body,
            "reply_id": reply_id,
        }
        await resume(self._engine, hook.key, values.encode(payload, "the request"))

    async def _webhook(self, request: Request) -> HookRecord:
        """The webhook that is asked for.

        Raises:
            HookNotFoundError: there is none, or it takes nothing.
        """
        # Tokens of webhooks are made up, and have no mark of a scope in them.
        scope, _, token = unquote(_raw_path(request).partition(WEBHOOK_PATH)[2]).rpartition(
            SCOPE_MARK
        )
        hook = await holder(self._engine, TokenKey(scope, token))
        if not hook.is_webhook or hook.stage is not HookStage.LIVE:
            raise HookNotFoundError(token=token)
        return hook

    async def _reply(
        self, request: Request, hook: HookRecord, reply: asyncio.Future[StoredResponse]
    ) -> Response:
        """Wait for the answer by hand, as long as one can come and somebody waits for it."""
        gone = asyncio.create_task(self._gone(hook))
        left = asyncio.create_task(_left(request))
        try:
            await asyncio.wait((reply, gone, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            left.cancel()
            await asyncio.wait((gone, left))
        if reply.done():
            return outgoing(*reply.result())
        text = "The run has ended, or has given its webhook up, without an answer to this request."
        return failure(500, NOT_SENT, text)

    async def _gone(self, hook: HookRecord) -> None:
        """Wait until a hook takes nothing any more."""

        def is_gone(state: InstanceState) -> bool | None:
            held = state.hooks.get(hook.hook_id)
            if held is None or held.created_ms != hook.created_ms:
                return True  # a restart has dropped it, and perhaps opened another one like it
            return held.stage(state.ended_ms) is not HookStage.LIVE or None

        try:
            await self._engine.until(hook.owner, is_gone)
        except (InstanceNotFound, EngineStopped):
            return


async def _left(request: Request) -> None:
    """Wait until nobody waits for the answer. The body is read: what comes now is the end."""
    await request.receive()


def _raw_path(request: Request) -> str:
    return request.scope["raw_path"].decode("latin-1")


def _url(request: Request) -> str:
    """The address as the client wrote it; a `Host` that is none is no reason to refuse it."""
    query = request.scope["query_string"].decode("latin-1")
    address = f"{request.scope['scheme']}://{request.headers.get('host', '')}{_raw_path(request)}"
    return address + (f"?{query}" if query else "")
