"""Hearing of committed changes.

Whoever waits for an instance to become something watches it. A watcher that is slow misses nothing that matters: it is
told *that* something has changed since it last looked, and looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from contextlib import contextmanager
from itertools import chain

from emulator.domain.instance import InstanceKey


class Watch:
    """One watcher, of one instance or of all."""

    def __init__(self) -> None:
        self._has_changed = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    async def changed(self) -> None:
        """Wait until something has been committed since the last call, or since the watch began.

        Raises:
            EngineStopped: nothing will be committed any more.
        """
        if not self._has_changed and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error
        self._has_changed = False

    def notify(self, error: Exception | None = None) -> None:
        """Something has been committed, or nothing will be any more."""
        self._has_changed = True
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Feed:
    """The watchers of all instances."""

    def __init__(self) -> None:
        self._watches: dict[InstanceKey | None, set[Watch]] = {}
        self._error: Exception | None = None

    @contextmanager
    def watch(self, key: InstanceKey | None) -> Generator[Watch]:
        """Watch an instance, which need not exist yet; None: all of them."""
        watch = Watch()
        if self._error is not None:
            watch.notify(self._error)
        watches = self._watches.setdefault(key, set())
        watches.add(watch)
        try:
            yield watch
        finally:
            watches.discard(watch)
            if not watches and self._watches.get(key) is watches:
                del self._watches[key]

    def publish(self, keys: Collection[InstanceKey]) -> None:
        """Tell the watchers of these instances."""
        if self._watches and keys:
            for key in chain(keys, (None,)):
                for watch in self._watches.get(key, ()):
                    watch.notify()

    def close(self, error: Exception) -> None:
        """Tell every watcher that nothing will be committed any more."""
        self._error = error
        for watches in self._watches.values():
            for watch in watches:
                watch.notify(error)
