"""Removing finished instances when their time is up, and giving the room that they took back.

Theory of operation
===================
The journal knows when each finished instance expires. A look takes the first of those that are due and removes them in
one commit, between two turns of the engine: then the journal and what is decided are the same, so that an instance that
has been restarted is not among them. Between two looks the engine goes on for a while, and a batch that takes long makes
the next one smaller, so that those who run hardly notice. When nothing has expired and nothing else is to be done, the
file shrinks, some pages a look. As long as nothing expires nothing happens at all.

An instance may so be there for a moment after its time, never less than it.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.domain.instance import InstanceKey
from emulator.engine.feed import Feed
from emulator.journal.port import Commit, Journal
from emulator.timing.alarm import Timers
from emulator.timing.wheel import Timer

MOST_INSTANCES = 100
"""How many instances one commit removes at most. The first removes one, and as long as that takes no time the next twice as many."""

PATIENCE_MS = 5
"""How long a commit may take before the next one is made smaller."""

PAGES_PER_LOOK = 100
"""How many pages of the file are given back at a time."""

REST_MS = 10
"""How long the engine is left alone between two batches."""

CALM_MS = 1_000
"""How long it is left alone when nothing is left to do."""


class Retention:
    """The end of the finished instances. `call` is called when it is time for a look."""

    def __init__(
        self, journal: Journal, timers: Timers, feed: Feed, call: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._timers = timers
        self._feed = feed
        self._call = call
        self._batch = 1  # how long one takes is not known before it has gone
        self._not_before_ms = 0
        self._next_look_ms: int | None = None
        self._next_look: Timer[Callable[[], None]] | None = None

    def watch(self, due_ms: int) -> None:
        """Something expires, or leaves room, at this time."""
        look_ms = max(due_ms, self._not_before_ms)
        if self._next_look_ms is not None and self._next_look_ms <= look_ms:
            return
        if self._next_look is not None:
            self._timers.cancel(self._next_look)
        self._next_look_ms = look_ms
        self._next_look = self._timers.schedule(look_ms, self._call)

    async def look(self, *, is_idle: bool) -> list[InstanceKey]:
        """Remove some of what has expired, or give room back, and arrange for the next look; which have gone."""
        self._next_look_ms = self._next_look = None
        now_ms = self._timers.now_ms()
        expired = await self._journal.expired(now_ms, self._batch)
        keys = [key for key, _ in expired]
        has_more = len(expired) == self._batch
        if expired:
            await self._journal.commit(Commit(deleted=[number for _, number in expired]))
            self._feed.publish(keys)
            self._adapt(self._timers.now_ms() - now_ms)
        else:
            await self._journal.forget_tokens(now_ms)
        if is_idle and not expired:
            has_more = await self._journal.shrink(PAGES_PER_LOOK)
        self._not_before_ms = self._timers.now_ms() + (REST_MS if has_more else CALM_MS)
        if has_more or expired or not is_idle:
            self.watch(0)
        elif (next_ms := await self._journal.next_expiry_ms()) is not None:
            self.watch(next_ms)
        return keys

    def _adapt(self, took_ms: int) -> None:
        if took_ms > PATIENCE_MS:
            self._batch = max(1, self._batch // 2)
        else:
            self._batch = min(MOST_INSTANCES, self._batch * 2)
