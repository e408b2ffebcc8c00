"""`wrap_workflow_binding`: the binding that a tenant gets, in which there is nobody else."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from bindings.dynamic.envelope import METADATA, scoped_id, sealed
from bindings.dynamic.store import code_store, engine_host
from bindings.host import EventSource, Host, NewInstance, StatusReport
from bindings.workflow import Workflow, rehosted
from emulator.core.inputs import Input
from emulator.domain import values
from emulator.domain.instance import SCOPE_MARK, InstanceKey, id_in_scope
from emulator.domain.names import check_tenant_name
from emulator.errors import InstanceAlreadyExists, InstanceNotFound
from emulator.projection.events import EventFilter

Load = Callable[[Any], object]
"""Gives the code for a tenant's metadata, as `code_of` accepts it; it may be async."""

Pin = Callable[[], Awaitable[str | None]]


def wrap_workflow_binding(
    metadata: Mapping[str, Any],
    *,
    binding: Workflow,
    tenant: str | None = None,
    name: str | None = None,
    version: str | None = None,
    load: Load | None = None,
) -> Workflow:
    """Make the binding for one tenant (Cloudflare: dynamic-workflows, wrapWorkflowBinding).

    It has all that `binding` has, for instances of the tenant alone: ids of other tenants are free, and their instances
    are not found. `metadata` travels with every instance to the dispatcher, and is not seen by the tenant. `tenant` is
    `metadata["tenant"]` if it is not given.

    Instances are pinned to a code when they are created: to `version` of the tenant's workflow `name` in the code store,
    or the one published last; or to what `load(metadata)` gives, which is stored. With neither, the loader of the
    entrypoint decides at every run.

    Raises:
        InvalidInput: the tenant's name is missing or not allowed.
        SerializationError: the metadata cannot be stored.
        TypeError: `name` and `load` are given both, or `binding` is that of another process.
    """
    if name is not None and load is not None:
        raise TypeError("wrap_workflow_binding() takes name or load, not both.")
    checked = check_tenant_name(metadata.get("tenant") if tenant is None else tenant)
    store = code_store(binding)

    async def pin() -> str | None:
        if name is not None:
            return (await store.find(checked, name, version)).hash
        if load is None:
            return None
        code = load(metadata)
        return await store.put(await code if inspect.isawaitable(code) else code)

    stored = values.encode(dict(metadata), "the metadata of a tenant")
    return rehosted(binding, TenantHost(engine_host(binding), checked, stored, pin))


class TenantHost:
    """A host as one tenant sees it."""

    def __init__(self, host: Host, tenant: str, metadata: msgspec.Raw, pin: Pin) -> None:
        self._host = host
        self._tenant = tenant
        self._metadata = metadata
        self._pin = pin

    async def create(
        self, workflow: str, given: Sequence[NewInstance], *, may_be_taken: bool
    ) -> list[InstanceAlreadyExists | None]:
        """See `Host`."""
        sealed_params = [sealed(self._metadata, each.params) for each in given]
        code = await self._pin()
        scoped = [
            msgspec.structs.replace(
                each, id=scoped_id(self._tenant, each.id), params=params, code=code
            )
            for each, params in zip(given, sealed_params, strict=True)
        ]
        taken = await self._host.create(workflow, scoped, may_be_taken=may_be_taken)
        return [each and InstanceAlreadyExists(self._own_words(each)) for each in taken]

    async def ask(self, key: InstanceKey, item: Input) -> None:
        """See `Host`."""
        await self._found(self._host.ask(self._scoped(key), item))

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._found(self._host.status(self._scoped(key)))

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._found(self._host.ended(self._scoped(key)))

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return _TenantEvents(self._host.events(self._scoped(key), wanted), self._found)

    def _scoped(self, key: InstanceKey) -> InstanceKey:
        return key._replace(id=scoped_id(self._tenant, key.id))

    async def _found(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except InstanceNotFound as error:
            raise InstanceNotFound(self._own_words(error)) from None

    def _own_words(self, error: InstanceNotFound | InstanceAlreadyExists) -> str:
        return error.message.replace(f'"{self._tenant}{SCOPE_MARK}', '"')


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
