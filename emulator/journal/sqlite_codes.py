"""The shelf of code in the file of the SQLite journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from emulator.journal.codes import PublishedVersion
from emulator.journal.rows import from_json


class SqliteCodes:
    """The tables of a journal's file. `fetch` runs a statement of `queries.sql`."""

    def __init__(self, fetch: Callable[..., Awaitable[list[Any]]]) -> None:
        self._fetch = fetch

    async def add_code(self, code_hash: str, manifest: str, created_ms: int) -> None:
        """See `Codes`."""
        await self._fetch("add_code", hash=code_hash, manifest=manifest, created_ms=created_ms)

    async def add_version(self, published: PublishedVersion) -> None:
        """See `Codes`."""
        await self._fetch("add_version", **published._asdict())

    async def manifest(self, code_hash: str) -> str | None:
        """See `Codes`."""
        [(found,)] = await self._fetch("manifest", hash=code_hash)
        return found

    async def version(self, tenant: str, name: str, version: str | None) -> PublishedVersion | None:
        """See `Codes`."""
        [(text,)] = await self._fetch("version", tenant=tenant, name=name, version=version)
        return next(iter(from_json(text, list[PublishedVersion])), None)

    async def versions(
        self, tenant: str | None = None, name: str | None = None
    ) -> list[PublishedVersion]:
        """See `Codes`."""
        [(text,)] = await self._fetch("versions", tenant=tenant, name=name)
        return from_json(text, list[PublishedVersion])
