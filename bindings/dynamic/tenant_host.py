"""A host as one tenant sees it: ids, tokens and events of the tenant, and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from bindings.dynamic.envelope import METADATA, scoped_id
from bindings.host import ChunkSource, EventSource, Host, NewInstance, StatusReport, StreamReport
from emulator.core.inputs import Input
from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.instance import SCOPE_MARK, InstanceKey, id_in_scope
from emulator.errors import EntityConflictError, InstanceAlreadyExists, InstanceNotFound
from emulator.projection.events import EventFilter


def scoped_token(tenant: str, token: TokenKey) -> TokenKey:
    """A token, in whatever scope, as the tenant's."""
    return token._replace(scope=tenant)


class TenantHost:
    """The host of a tenant, in whose words instances and tokens have no scope."""

    def __init__(self, host: Host, tenant: str) -> None:
        self._host = host
        self._tenant = tenant

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """See `Host`."""
        scoped = [
            msgspec.structs.replace(each, id=scoped_id(self._tenant, each.id)) for each in given
        ]
        taken = await self._host.create(
            workflow, scoped, may_be_taken=may_be_taken, is_whole=is_whole
        )
        return [
            self._own(each) if isinstance(each, InstanceAlreadyExists) else each for each in taken
        ]

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """See `Host`."""
        return await self._found(self._host.ask(self._scoped(key), item))

    async def find(self, instance_id: str) -> InstanceKey | None:
        """See `Host`."""
        found = await self._host.find(scoped_id(self._tenant, instance_id))
        return found and found._replace(id=instance_id)

    async def hook(self, token: TokenKey) -> HookRecord:
        """See `Host`."""
        return await self._host.hook(scoped_token(self._tenant, token))

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,
    ) -> HookRecord:
        """See `Host`."""
        scoped = scoped_token(self._tenant, token)
        return await self._host.resume_hook(scoped, payload, resume_id, checked_by)

    async def now_ms(self) -> int:
        """See `Host`."""
        return await self._host.now_ms()

    def webhook_url(self, token: str) -> str:
        """See `Host`."""
        return self._host.webhook_url(scoped_id(self._tenant, token))

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._found(self._host.status(self._scoped(key)))

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._found(self._host.ended(self._scoped(key)))

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return _TenantEvents(self._host.events(self._scoped(key), wanted), self._found)

    async def streams(self, key: InstanceKey) -> list[StreamReport]:
        """See `Host`."""
        return await self._found(self._host.streams(self._scoped(key)))

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:
        """See `Host`."""
        return await self._found(self._host.stream(self._scoped(key), namespace))

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:
        """See `Host`."""
        return self._host.chunks(self._scoped(key), namespace, start_index)

    def _scoped(self, key: InstanceKey) -> InstanceKey:
        return key._replace(id=scoped_id(self._tenant, key.id))

    async def _found(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except InstanceNotFound as error:
            raise self._own(error) from None

    def _own(self, error: InstanceNotFound | InstanceAlreadyExists) -> Any:
        """The error in the tenant's words."""
        return type(error)(error.message.replace(f'"{self._tenant}{SCOPE_MARK}', '"'))


class _TenantEvents:
    """The events of an instance, without what is the dispatcher's."""

    def __init__(
        self, source: EventSource, found: Callable[[Awaitable[Any]], Awaitable[Any]]
    ) -> None:
        self._source = source
        self._found = found

    async def open(self) -> None:
        """See `EventSource`."""
        await self._found(self._source.open())

    async def more(self) -> list[dict[str, Any]]:
        """See `EventSource`."""
        return [_own_event(each) for each in await self._found(self._source.more())]

    async def close(self) -> None:
        """See `EventSource`."""
        await self._source.close()


def _own_event(event: Mapping[str, Any]) -> dict[str, Any]:
    own = {**event, "instanceId": id_in_scope(event["instanceId"])}
    params = own.get("params")
    if isinstance(params, dict) and METADATA in params:
        own["params"] = cast("dict[str, Any]", params)["params"]
    return own
