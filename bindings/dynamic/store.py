"""`CodeStore`: what tenants publish, by content and by version.

    store = code_store(env.TENANTS)
    await store.publish("acme", "billing", "v2", source)

A code is kept by the hash of its content; a version is a label that names one hash for ever. Nothing is ever replaced or
removed, so an instance finds the code that it was created with, whatever has been published since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bindings.dynamic.code import Code, code_from_manifest, code_of
from bindings.host import EngineHost
from bindings.workflow import Workflow, host_of
from emulator.domain.names import check_tenant_name, check_version
from emulator.errors import DynamicCodeConflictError, DynamicCodeNotFoundError
from emulator.journal.codes import Codes, PublishedVersion


class Publication(NamedTuple):
    """What became of publishing: the version, and whether it is new."""

    version: PublishedVersion
    is_new: bool


class CodeStore:
    """The codes in a project's journal."""

    def __init__(self, codes: Codes, now_ms: Callable[[], int]) -> None:
        self._codes = codes
        self._now_ms = now_ms

    async def publish(self, tenant: str, name: str, version: str, code: object) -> Publication:
        """Store a code (see `code_of`) as a version of the tenant's workflow `name`. The same again changes nothing.

        Raises:
            DynamicCodeError: it does not compile; nothing is stored.
            DynamicCodeConflictError: the version has another code.
            InvalidInput: a name or the version is not allowed.
        """
        check_tenant_name(tenant)
        check_tenant_name(name, "dynamic workflow")
        check_version(version)
        checked = code_of(code)
        wanted = PublishedVersion(tenant, name, version, checked.hash, self._now_ms())
        held = await self._codes.version(tenant, name, version)
        if held is None:
            await self._codes.add_code(wanted.hash, checked.manifest(), wanted.created_ms)
            await self._codes.add_version(wanted)
            # Somebody may have been first meanwhile.
            held = await self._codes.version(tenant, name, version)
            if held == wanted:
                return Publication(wanted, is_new=True)
        assert held is not None
        if held.hash != wanted.hash:
            raise DynamicCodeConflictError(
                f'Version "{version}" of "{name}" of the tenant "{tenant}" has another code ({held.hash[:12]}); a '
                "version is never changed. Publish it under a new one."
            )
        return Publication(held, is_new=False)

    async def put(self, code: object) -> str:
        """Store a code (see `code_of`) without a version; gives its hash.

        Raises:
            DynamicCodeError: it does not compile; nothing is stored.
        """
        checked = code_of(code)
        await self._codes.add_code(checked.hash, checked.manifest(), self._now_ms())
        return checked.hash

    async def find(self, tenant: str, name: str, version: str | None = None) -> PublishedVersion:
        """A version of a tenant's workflow; the one published last if none is named.

        Raises:
            DynamicCodeNotFoundError: there is none; the message names those there are.
        """
        found = await self._codes.version(tenant, name, version)
        if found is not None:
            return found
        known = [each.version for each in await self._codes.versions(tenant, name)]
        if not known:
            raise DynamicCodeNotFoundError(
                f'The tenant "{tenant}" has published no workflow "{name}".'
            )
        raise DynamicCodeNotFoundError(
            f'The tenant "{tenant}" has published no version "{version}" of "{name}". There are: {", ".join(known)}'
        )

    async def get(self, code_hash: str) -> Code:
        """A code by its hash.

        Raises:
            DynamicCodeNotFoundError: there is none.
        """
        manifest = await self._codes.manifest(code_hash)
        if manifest is None:
            raise DynamicCodeNotFoundError(
                f"The code {code_hash} that the instance was created with is not in the store any more."
            )
        return code_from_manifest(manifest)

    async def versions(
        self, tenant: str | None = None, name: str | None = None
    ) -> list[PublishedVersion]:
        """What has been published, in its order; all, of one tenant, or of one name."""
        return await self._codes.versions(tenant, name)


def code_store(binding: Workflow) -> CodeStore:
    """The code store of the project that a binding belongs to.

    Raises:
        TypeError: it is a binding from outside: of another process, or of a test.
    """
    host = engine_host(binding)
    return CodeStore(host.codes, host.time_ms)


def engine_host(binding: Workflow) -> EngineHost:
    """The engine behind a binding.

    Raises:
        TypeError: it is a binding from outside: of another process, or of a test.
    """
    host = host_of(binding)
    if not isinstance(host, EngineHost):
        raise TypeError(
            f"{binding!r} belongs to an engine that is not here, but in another process, or in the project that a test "
            "runs: publish code over HTTP, and wrap bindings in the Worker."
        )
    return host
