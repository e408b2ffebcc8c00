"""Following the events of one instance.

Theory of operation
===================
A subscription reads the journal, a page at a time and only when it is asked, beside the engine: a slow reader costs the
engine nothing and no memory. While it waits it watches the instance, and nothing of it is left when it is not asked.

An event tells more than its entry (see `EventLog`), so the journal is read from its beginning, whatever the cursor. A
restart or a deletion rewrites it. That is seen by the entry that was read last, with which every page begins: if it is
there no more, the journal is read from its beginning again. Events up to the cursor are not shown twice.
"""

from __future__ import annotations

from typing import Final

from emulator.domain.instance import InstanceKey
from emulator.engine.engine import Engine
from emulator.errors import InstanceNotFound
from emulator.journal.port import EntryRow
from emulator.projection.events import TERMINAL_EVENTS, EventFilter, EventLog
from emulator.projection.rendering import Json

PAGE_ENTRIES: Final = 64


class Subscription:
    """The events of one instance that a filter lets through (Cloudflare: Workers API, subscribe)."""

    def __init__(self, engine: Engine, key: InstanceKey, wanted: EventFilter) -> None:
        self._engine = engine
        self._key = key
        self._types = wanted.types
        self._cursor = wanted.cursor
        self._log: EventLog | None = None
        self._last: EntryRow | None = None
        self._has_ended = False

    async def open(self) -> None:
        """Check that the instance exists.

        Raises:
            WorkflowNotFound: its workflow does not.
            InstanceNotFound: it does not.
        """
        self._engine.definition(self._key.workflow)
        if await self._engine.journal.row(self._key) is None:
            raise InstanceNotFound.named(self._key.id)

    async def more(self) -> list[Json]:
        """Wait for events; none at all means that the terminal event has been passed.

        Nothing is lost when the wait is cancelled: ask again.

        Raises:
            InstanceNotFound: the instance does not exist, or no longer.
            EngineStopped: nothing more will happen.
        """
        while not self._has_ended:
            with self._engine.feed.watch(self._key) as watch:
                rows = await self._read()
                if not rows:
                    await watch.changed()
            if events := self._pass(rows):
                return events
        return []

    async def close(self) -> None:
        """Do nothing: a subscription that is not asked holds nothing."""

    async def _read(self) -> list[EntryRow]:
        """The next entries; the first ones, if the journal has been rewritten."""
        journal = self._engine.journal
        if self._last is not None:
            rows = await journal.entries(self._key, self._last.seq - 1, PAGE_ENTRIES)
            if rows[:1] == [self._last]:
                return rows[1:]
        row = await journal.row(self._key)
        if row is None:
            raise InstanceNotFound.named(self._key.id)
        self._log, self._last = EventLog(row.creation), None
        rows = await journal.entries(self._key, 0, PAGE_ENTRIES)
        # If it was replaced by another one in between, the watch knows.
        return [each for each in rows if each.number == row.number]

    def _pass(self, rows: list[EntryRow]) -> list[Json]:
        """Move over entries; gives the events to show."""
        shown: list[Json] = []
        for row in rows:
            assert self._log is not None, "what was read has a log"
            self._last = row
            event = self._log.event(row.seq, row.entry)
            if event is None:
                continue
            if row.seq > self._cursor and event["type"] in self._types:
                shown.append(event)
            # Below the cursor of an earlier life, the end is not this subscription's (specification 4.12).
            if row.seq >= self._cursor and event["type"] in TERMINAL_EVENTS:
                self._has_ended = True
                break
            self._cursor = max(self._cursor, row.seq)
        return shown
