"""What can go wrong with a process and its disk, drawn from a seed, and a journal to which it happens.

A crash is an exception that nobody catches, out of a commit: the engine's turn ends where it stands, and the dead
engine's journal answers nobody any more. Whether it comes before or after the commit is all that a crash can decide:
between two commits nothing changes that is found again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.errors import JournalCorrupt, JournalUnavailable
from emulator.journal.port import (
    Commit,
    EntryRow,
    HookQuery,
    InstanceQuery,
    InstanceRow,
    Journal,
    StoredInstance,
    StreamPage,
    StreamState,
    TimerRow,
)
from emulator.testing.loop import VirtualLoop

_MOST_FAULTS = 6
_LATEST_COMMIT = 40
_DELAYS_MS = (0, 0, 1, 20, 3_000)
_DOWNTIMES_MS = (1, 500, 30_000, 7_200_000)


class Crash(BaseException):
    """The process is gone. No code catches it, as no code outlives a killed process."""


class FaultKind(StrEnum):
    """How a process ends."""

    CRASH_BEFORE = "crash before commit"
    CRASH_AFTER = "crash after commit"
    DISK_FULL = "disk full at commit"
    RELOAD = "reload after commit"


class Fault(NamedTuple):
    """The end of one process, at its `commit`-th commit; the next begins `downtime_ms` later (never at once)."""

    kind: FaultKind
    commit: int
    downtime_ms: int


class FaultPlan(NamedTuple):
    """The faults of a simulation, one process after another, and how slow its disk is.

    Every commit takes one of `delays_ms`, half of the time before it is written and half after.
    """

    faults: Sequence[Fault]
    delays_ms: Sequence[int]

    @classmethod
    def draw(cls, rng: random.Random) -> FaultPlan:
        """Choose at random."""
        faults = [
            Fault(
                rng.choice(list(FaultKind)),
                rng.randint(1, rng.choice((3, _LATEST_COMMIT))),
                rng.choice(_DOWNTIMES_MS),
            )
            for _ in range(rng.randint(0, _MOST_FAULTS))
        ]
        return cls(faults, rng.choices(_DELAYS_MS, k=rng.randint(1, 7)))


class FaultyJournal:
    """One process's way to the journal `inner`, which outlives it: `open` and `close` leave that alone.

    `committed` hears of each commit that has been written, `returning` when the engine is about to. At a reload `reload` is called, and
    has to close the engine.
    """

    def __init__(
        self,
        inner: Journal,
        delays_ms: Sequence[int],
        fault: Fault | None,
        committed: Callable[[Commit], Awaitable[None]],
        returning: Callable[[], None],
        reload: Callable[[], None],
    ) -> None:
        self._inner = inner
        self.codes = inner.codes
        self._delays_ms = delays_ms
        self._fault = fault
        self._committed = committed
        self._returning = returning
        self._reload = reload
        self._commits = 0
        self._end: BaseException | None = None

    async def open(self) -> None:
        """Begin to use it."""

    async def close(self) -> None:
        """Nobody writes through this one any more."""
        self._end = self._end or JournalUnavailable("The journal is closed.")

    async def commit(self, commit: Commit) -> None:
        """Write all of it, unless it is the fault's turn."""
        self._commits += 1
        kind = self._fault.kind if self._fault and self._fault.commit == self._commits else None
        delay_ms = self._delays_ms[self._commits % len(self._delays_ms)]
        await rest(delay_ms // 2)
        if kind is FaultKind.CRASH_BEFORE:
            self._die(Crash())
        if kind is FaultKind.DISK_FULL:
            self._die(JournalUnavailable("The journal cannot be written: the disk is full."))
        with self._use():
            await self._inner.commit(commit)
        await self._committed(commit)
        await rest(delay_ms - delay_ms // 2)
        if kind is FaultKind.CRASH_AFTER:
            self._die(Crash())
        if kind is FaultKind.RELOAD:
            self._reload()
        self._returning()

    async def last_number(self) -> int:
        """See `Journal`."""
        with self._use():
            return await self._inner.last_number()

    async def load(
        self, keys: Sequence[InstanceKey]
    ) -> dict[InstanceKey, StoredInstance | JournalCorrupt]:
        """See `Journal`."""
        with self._use():
            return await self._inner.load(keys)

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """See `Journal`."""
        with self._use():
            return await self._inner.load_some(keys)

    async def entries(self, key: InstanceKey, after_seq: int, limit: int) -> list[EntryRow]:
        """See `Journal`."""
        with self._use():
            return await self._inner.entries(key, after_seq, limit)

    async def existing(self, keys: Sequence[InstanceKey]) -> set[InstanceKey]:
        """See `Journal`."""
        with self._use():
            return await self._inner.existing(keys)

    async def row(self, key: InstanceKey) -> InstanceRow | None:
        """See `Journal`."""
        with self._use():
            return await self._inner.row(key)

    async def rows(self, query: InstanceQuery) -> list[InstanceRow]:
        """See `Journal`."""
        with self._use():
            return await self._inner.rows(query)

    async def count(self, query: InstanceQuery) -> int:
        """See `Journal`."""
        with self._use():
            return await self._inner.count(query)

    async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
        """See `Journal`."""
        with self._use():
            return await self._inner.status_counts(workflow)

    async def recoverable(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """See `Journal`."""
        with self._use():
            return await self._inner.recoverable(after, limit)

    async def restless(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """See `Journal`."""
        with self._use():
            return await self._inner.restless(after, limit)

    async def unfinished(self, known: Collection[str]) -> dict[str, int]:
        """See `Journal`."""
        with self._use():
            return await self._inner.unfinished(known)

    async def queued(self, workflow: str, limit: int, *, waking: bool) -> list[InstanceKey]:
        """See `Journal`."""
        with self._use():
            return await self._inner.queued(workflow, limit, waking=waking)

    async def expired(self, until_ms: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """See `Journal`."""
        with self._use():
            return await self._inner.expired(until_ms, limit)

    async def next_expiry_ms(self) -> int | None:
        """See `Journal`."""
        with self._use():
            return await self._inner.next_expiry_ms()

    async def shrink(self, most_pages: int, /) -> bool:
        """See `Journal`."""
        with self._use():
            return await self._inner.shrink(most_pages)

    async def due(
        self, until_ms: int, limit: int, after: TimerRow | None = None
    ) -> list[tuple[InstanceKey, TimerRow]]:
        """See `Journal`."""
        with self._use():
            return await self._inner.due(until_ms, limit, after)

    async def next_due_ms(self, after_ms: int) -> int | None:
        """See `Journal`."""
        with self._use():
            return await self._inner.next_due_ms(after_ms)

    async def holders(self, tokens: Sequence[TokenKey]) -> dict[TokenKey, HookRecord]:
        """See `Journal`."""
        with self._use():
            return await self._inner.holders(tokens)

    async def hooks(self, query: HookQuery) -> list[HookRecord]:
        """See `Journal`."""
        with self._use():
            return await self._inner.hooks(query)

    async def forget_tokens(self, until_ms: int) -> None:
        """See `Journal`."""
        with self._use():
            await self._inner.forget_tokens(until_ms)

    async def seed(self) -> str:
        """Always the same one, whatever the inner journal has, so that two runs leave the same trace."""
        return "simulation"

    async def last_ticks(self) -> dict[tuple[str, str], int]:
        """See `Journal`."""
        with self._use():
            return await self._inner.last_ticks()

    async def stream_states(
        self, streams: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StreamState]:
        """See `Journal`."""
        with self._use():
            return await self._inner.stream_states(streams)

    async def streams(self, key: InstanceKey) -> dict[str, StreamState] | None:
        """See `Journal`."""
        with self._use():
            return await self._inner.streams(key)

    async def chunks(
        self, key: InstanceKey, stream: str, first: int, limit: int, most_bytes: int
    ) -> StreamPage | None:
        """See `Journal`."""
        with self._use():
            return await self._inner.chunks(key, stream, first, limit, most_bytes)

    def _die(self, end: BaseException) -> None:
        self._end = end
        raise end

    @contextmanager
    def _use(self) -> Generator[None]:
        """Let the inner journal work, in a thread perhaps; a dead process has none."""
        if self._end is not None:
            raise self._end
        with holding():
            yield


@contextmanager
def holding() -> Generator[None]:
    """Keep virtual time standing while a journal's thread works."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "simulations run in virtual time"
    with loop.hold():
        yield


async def rest(delay_ms: int) -> None:
    """Let virtual time pass."""
    if delay_ms > 0:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        handle = loop.call_later(delay_ms / 1000, over.set_result, None)
        try:
            await over
        finally:
            handle.cancel()
