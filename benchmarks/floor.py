"""The floor: the least that a durable engine on asyncio and aiosqlite can do.

Every creation, step, event and end is a row that is committed before anybody is told, in groups: while one commit is
under way the next one fills. There is nothing else: no replay, no retries, no limits, no API. Whatever the emulator needs
beyond this is the price of what it offers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiosqlite


class Floor:
    """A log of rows with group commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[tuple[int, int, str, str]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._signal: asyncio.Future[None] | None = None
        self._seq = 0

    async def __aenter__(self) -> Floor:
        self._db = await aiosqlite.connect(self._path, isolation_level=None)
        await self._db.execute("PRAGMA journal_mode = WAL")
        await self._db.execute("PRAGMA synchronous = NORMAL")
        await self._db.execute(
            "CREATE TABLE log (seq INTEGER PRIMARY KEY, instance INTEGER, step TEXT, body TEXT)"
        )
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.cancel()
        await self._db.close()

    async def append(self, instance: int, step: str, value: object) -> None:
        """Add a row and wait until it is committed."""
        self._seq += 1
        self._rows.append((self._seq, instance, step, json.dumps(value)))
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._signal is not None and not self._signal.done():
            self._signal.set_result(None)
        await future

    async def run(
        self, instance: int, steps: int, callback: Callable[[], Awaitable[object]]
    ) -> None:
        """One instance: created, its steps one after the other, ended."""
        await self.append(instance, "created", None)
        for number in range(steps):
            await self.append(instance, f"step-{number}", await callback())
        await self.append(instance, "ended", "ok")

    async def _write(self) -> None:
        while True:
            if not self._rows:
                self._signal = asyncio.get_running_loop().create_future()
                await self._signal
            rows, self._rows = self._rows, []
            waiting, self._waiting = self._waiting, []
            await self._db.execute("BEGIN")
            await self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
            await self._db.commit()
            for future in waiting:
                future.set_result(None)
