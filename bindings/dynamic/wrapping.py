"""`wrap_workflow_binding`: the binding that a tenant gets, in which there is nobody else."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from bindings.dynamic.envelope import sealed
from bindings.dynamic.store import code_store, engine_host
from bindings.dynamic.tenant_host import TenantHost
from bindings.host import Host, NewInstance
from bindings.workflow import Workflow, rehosted
from emulator.domain import values
from emulator.domain.names import check_tenant_name
from emulator.errors import EntityConflictError

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
    return rehosted(binding, CreatingTenantHost(engine_host(binding), checked, stored, pin))


class CreatingTenantHost(TenantHost):
    """A tenant's host that puts the metadata into what is created, and pins its code."""

    def __init__(self, host: Host, tenant: str, metadata: msgspec.Raw, pin: Pin) -> None:
        super().__init__(host, tenant)
        self._metadata = metadata
        self._pin = pin

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """See `Host`."""
        code = await self._pin()
        sealed_params = [sealed(self._metadata, each.params) for each in given]
        whole = [
            msgspec.structs.replace(each, params=params, code=code)
            for each, params in zip(given, sealed_params, strict=True)
        ]
        return await super().create(workflow, whole, may_be_taken=may_be_taken, is_whole=is_whole)
