"""The shelf of a journal where the code of dynamic workflows lies: by the hash of its content, and by version.

Nothing on it is ever changed: a hash says what its code is, and a version once given keeps its hash. It is written apart
from the engine's commits, since an instance names its code by a hash that is there already.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PublishedVersion(NamedTuple):
    """What a tenant has published under a name and a version: the hash of the code."""

    tenant: str
    name: str
    version: str
    hash: str
    created_ms: int


class Codes(Protocol):
    """The shelf. Every method may raise `StorageError`."""

    async def add_code(self, code_hash: str, manifest: str, created_ms: int) -> None:
        """Keep a code; one that is there stays as it is."""
        ...

    async def add_version(self, published: PublishedVersion) -> None:
        """Name a code that is there; a version that is given already stays as it is."""
        ...

    async def manifest(self, code_hash: str) -> str | None:
        """A code by its hash."""
        ...

    async def version(self, tenant: str, name: str, version: str | None) -> PublishedVersion | None:
        """A version, or the one that was published last (None)."""
        ...

    async def versions(
        self, tenant: str | None = None, name: str | None = None
    ) -> list[PublishedVersion]:
        """What has been published, all or of one tenant or name, in its order."""
        ...


class MemoryCodes:
    """Dictionaries."""

    def __init__(self) -> None:
        self._manifests: dict[str, str] = {}
        self._versions: dict[tuple[str, str, str], PublishedVersion] = {}

    async def add_code(self, code_hash: str, manifest: str, created_ms: int) -> None:  # noqa: ARG002
        """See `Codes`."""
        self._manifests.setdefault(code_hash, manifest)

    async def add_version(self, published: PublishedVersion) -> None:
        """See `Codes`."""
        self._versions.setdefault(published[:3], published)

    async def manifest(self, code_hash: str) -> str | None:
        """See `Codes`."""
        return self._manifests.get(code_hash)

    async def version(self, tenant: str, name: str, version: str | None) -> PublishedVersion | None:
        """See `Codes`."""
        if version is not None:
            return self._versions.get((tenant, name, version))
        return next(reversed(await self.versions(tenant, name)), None)

    async def versions(
        self, tenant: str | None = None, name: str | None = None
    ) -> list[PublishedVersion]:
        """See `Codes`."""
        return [
            each
            for each in self._versions.values()
            if tenant in (None, each.tenant) and name in (None, each.name)
        ]
