"""Whoever runs the instances, as a tenant's code sees it in a process of its own: it is asked over the channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from bindings.dynamic import messages
from bindings.dynamic.messages import HostCall
from bindings.host import ChunkSource, EventSource, NewInstance, StatusReport, StreamReport
from bindings.wire import Found, ask_to_json
from emulator.core.inputs import Input
from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.errors import EntityConflictError, WorkflowContextError
from emulator.projection.events import EventFilter
from emulator.timing.clock import SystemClock

Asking = Callable[[HostCall], Awaitable[msgspec.Raw]]
"""Puts a question to the emulator; its answer, or what it raises."""


class ChannelHost:
    """A `Host`, as far as code needs one that has no bindings."""

    def __init__(self, ask: Asking, webhooks: str) -> None:
        self._ask = ask
        self._webhooks = webhooks

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """See `Host`."""
        call = messages.InputCall(key.workflow, key.id, ask_to_json(item).decode())
        return msgspec.json.decode(await self._ask(call))

    async def find(self, instance_id: str) -> InstanceKey | None:
        """See `Host`."""
        answer = await self._ask(messages.FindCall(instance_id))
        return msgspec.json.decode(answer, type=Found).key

    async def hook(self, token: TokenKey) -> HookRecord:
        """See `Host`."""
        return _record(await self._ask(messages.HookCall(token.token)))

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,  # noqa: ARG002 - the emulator checks what it can
    ) -> HookRecord:
        """See `Host`."""
        return _record(await self._ask(messages.ResumeCall(token.token, payload, resume_id)))

    async def now_ms(self) -> int:
        """See `Host`."""
        return SystemClock().now_ms()

    def webhook_url(self, token: str) -> str:
        """See `Host`."""
        return self._webhooks + quote(token, safe="")

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        answer = await self._ask(messages.StatusCall(key.workflow, key.id))
        return msgspec.json.decode(answer, type=StatusReport)

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._ask(messages.EndCall(key.workflow, key.id))

    # what there is not

    async def create(
        self,
        workflow: str,  # noqa: ARG002 - a `Host`
        given: Sequence[NewInstance],  # noqa: ARG002
        *,
        may_be_taken: bool,  # noqa: ARG002
        is_whole: bool = False,  # noqa: ARG002
    ) -> list[EntityConflictError | None]:
        """Refuse."""
        _refuse("bindings")

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:  # noqa: ARG002
        """Refuse."""
        _refuse("bindings")

    async def streams(self, key: InstanceKey) -> list[StreamReport]:  # noqa: ARG002
        """Refuse."""
        _refuse("streams")

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:  # noqa: ARG002
        """Refuse."""
        _refuse("streams")

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:  # noqa: ARG002
        """Refuse."""
        _refuse("streams")


def not_here(what: str) -> WorkflowContextError:
    """The refusal of what there is not."""
    return WorkflowContextError(f'A tenant with isolation="process" has no {what}.')


def _refuse(what: str) -> NoReturn:
    raise not_here(what)


def _record(answer: msgspec.Raw) -> HookRecord:
    return msgspec.json.decode(answer, type=HookRecord)
