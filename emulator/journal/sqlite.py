"""`SqliteJournal`: the journal in a SQLite file, through aiosqlite.

Theory of operation
===================
Every write and every read is one SQL statement, hence one call of aiosqlite: one hop to its thread and back; small
commits are spared the hop (see `connections`). A statement is its own transaction, so no transaction is ever open
between two calls; calls that overlap cannot come between one another's parts; and a caller that is cancelled leaves a
statement that still happens as a whole, on a connection that is free right after. A commit is an insertion into a view,
whose trigger does the rest (see `queries.sql`). Only instances that are too large for one statement are read by several
(see `loading`), and no commit comes between those.

What the engine asks goes over the connection that writes, and sees every commit that has returned. Listings have a
connection of their own, so that a long one does not hold up commits, but for one at a time when SQLite's log has become
very long: it is begun anew only when nobody reads from it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from emulator.domain.entries import EventReceived
from emulator.domain.status import InstanceStatus
from emulator.errors import JournalCorrupt, JournalRemoved, JournalUnavailable, StorageError
from emulator.journal.connections import InlineWriter, clear_errors, connect, reach
from emulator.journal.loading import Loading
from emulator.journal.lock import JournalLock, file_bytes, file_state
from emulator.journal.port import Commit, EntryRow, TickRow
from emulator.journal.rows import (
    StoredEntry,
    commit_to_columns,
    entries_to_columns,
    entry_from_row,
    from_json,
    hooks_from_json,
    instances_from_json,
    keys_from_json,
    numbered_keys_from_json,
    page_from_row,
    states_from_json,
    streams_to_columns,
    timers_from_json,
    to_json,
)
from emulator.journal.schema import STATEMENTS, inspect, migrate
from emulator.journal.sqlite_codes import SqliteCodes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import aiosqlite

    from emulator.domain.hooks import HookRecord, TokenKey
    from emulator.domain.instance import InstanceKey
    from emulator.journal.loading import Asking
    from emulator.journal.port import (
        HookQuery,
        InstanceQuery,
        InstanceRow,
        StoredInstance,
        StreamPage,
        StreamState,
        TimerRow,
    )

_T = TypeVar("_T")

_ENTRY = "(?, ?, ?, ?, ?, ?)"
"""What stands for an entry in the statement that appends some."""

_COMMIT = f"({', '.join('?' * 14)})"
"""What stands for a row of a commit."""

_MOST_ENTRIES = 5_000
"""How many entries it takes: SQLite allows 32,766 parameters."""

_MOST_PARAMS_BYTES = 65_536
"""How large the parameters may be together of the instances that a small commit updates: they are written anew as well."""

_LONG_LOG_BYTES = 2**28
"""How long SQLite's log may become before listings make room for a checkpoint."""

_MOST_ROWS = 100
"""How many rows that have a value each are read at a time: then they are no text that is too long for SQLite."""


class SqliteJournal:
    """A journal in the file `path`, or in memory.

    `full_durability` waits for the disk at every commit: what is committed then survives a power cut, not only
    a killed process.
    """

    def __init__(self, path: Path | Literal[":memory:"], *, full_durability: bool = False) -> None:
        self._where = str(path)
        self._path = Path(path).resolve()
        self._log = self._path.with_name(f"{self._path.name}-wal")
        self._most_log_bytes = _LONG_LOG_BYTES
        self._file: tuple[int, int] | None = None
        self._lock = JournalLock(path) if isinstance(path, Path) else None
        self._full_durability = full_durability
        self._opened = AsyncExitStack()
        self._writer: aiosqlite.Connection | None = None
        self._reader: aiosqlite.Connection | None = None
        self._inline: InlineWriter | None = None
        self._loading = Loading()
        self._alone = asyncio.Lock()
        self.codes = SqliteCodes(self._fetch)

    async def open(self) -> None:
        """Take the lock, check the file, bring its format up to date. See `Journal.open`."""
        assert self._writer is None, "the journal is not open yet"
        async with AsyncExitStack() as opened:
            if self._lock is not None:
                self._lock.acquire()
                opened.callback(self._lock.release)
                reach(self._where)
            with clear_errors(self._where):
                writer = await opened.enter_async_context(connect(self._where))
                await self._prepare(writer)
                reader = writer
                if self._lock is not None:
                    reader = await opened.enter_async_context(connect(self._where))
                    await reader.execute_fetchall("PRAGMA query_only = ON")
            self._file, written_ns = file_state(self._path)
            if self._lock is not None and not self._full_durability:
                self._inline = InlineWriter(self._where, written_ns)
                opened.callback(self._inline.close)
            self._writer, self._reader = writer, reader
            self._opened = opened.pop_all()

    async def close(self) -> None:
        """Close the file and release the lock. Idempotent."""
        opened, self._opened = self._opened, AsyncExitStack()
        self._writer = self._reader = self._inline = None
        with clear_errors(self._where):
            await opened.aclose()

    def publish_port(self, port: int) -> None:
        """Let a second process that wants the open journal learn where this one answers."""
        if self._lock is not None:
            self._lock.publish_port(port)

    async def commit(self, commit: Commit) -> None:
        """Write all of it, or nothing and raise. See `Journal.commit`."""
        if self._alone.locked():
            async with self._alone:
                await self._commit(commit)
        else:
            await self._commit(commit)

    async def _commit(self, commit: Commit) -> None:
        file, written_ns = file_state(self._path)
        if file != self._file:
            raise JournalRemoved(
                f"The journal {self._where} has been removed, or replaced, while it was open: nothing more can be kept."
            )
        if _only_logs(commit):
            # What a step does most: half the time of the whole.
            sql = STATEMENTS["append"] + ", ".join([_ENTRY] * len(commit.entries))
            columns: Sequence[object] = entries_to_columns(commit.entries)
        elif commit.streams is not None and commit == Commit(streams=commit.streams):
            sql, columns = STATEMENTS["commit_streams"], streams_to_columns(commit.streams)
        else:
            columns = commit_to_columns(commit)
            rows = [_COMMIT] * (len(columns) // _COMMIT.count("?"))
            sql = STATEMENTS["commit"] + ", ".join(rows)
        inline = None if _changes_more_than_it_carries(commit) else self._inline
        if inline is None or not inline.writes(sql, columns, written_ns):
            await self._run(self._writer, sql, columns)
            await self._bound_log()

    async def _bound_log(self) -> None:
        """Copy the log into the file between two listings, if it has grown because there was always one under way. The next
        commit begins it anew.

        Where another program keeps it growing that changes nothing: so it is tried again only once it is twice as long.
        """
        log_bytes = file_bytes(self._log)
        if log_bytes > self._most_log_bytes:
            # The commit is made: if this fails it is put off, as SQLite does with checkpoints of its own.
            with suppress(StorageError):
                await self._listing(STATEMENTS["checkpoint"])
            self._most_log_bytes = 2 * log_bytes
        elif log_bytes < _LONG_LOG_BYTES:
            self._most_log_bytes = _LONG_LOG_BYTES

    async def last_number(self) -> int:
        """The highest number ever given."""
        return await self._value("last_number")

    async def load(
        self, keys: Sequence[InstanceKey]
    ) -> dict[InstanceKey, StoredInstance | JournalCorrupt]:
        """The instances of these names, those that exist; for one that does not decode, the error."""
        return await self._asked(self._loading.all(keys))

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """The first of these instances, and how many of the keys those are."""
        return await self._asked(self._loading.some(keys))

    async def entries(self, key: InstanceKey, after_seq: int, limit: int) -> list[EntryRow]:
        """The next entries of an instance, in order, without those of its mailbox."""
        [(text,)] = await self._listing(
            STATEMENTS["entries"],
            workflow=key.workflow,
            id=key.id,
            after_seq=after_seq,
            limit=limit,
        )
        stored = from_json(text, list[StoredEntry])
        return [EntryRow(each[0], each[1], entry_from_row(each, key)) for each in stored]

    async def existing(self, keys: Sequence[InstanceKey]) -> set[InstanceKey]:
        """Which of these names are taken."""
        return set(keys_from_json(await self._value("existing", keys=to_json(keys))))

    async def row(self, key: InstanceKey) -> InstanceRow | None:
        """One instance's row."""
        [(text,)] = await self._listing(STATEMENTS["row"], workflow=key.workflow, id=key.id)
        return next(iter(instances_from_json(text)), None)

    async def rows(self, query: InstanceQuery) -> list[InstanceRow]:
        """A page of a listing."""
        rows: list[InstanceRow] = []
        while True:
            wanted = query._replace(limit=min(_MOST_ROWS, query.limit - len(rows)))
            found = await self._some_rows(wanted)
            rows += found
            if len(found) < wanted.limit or len(rows) == query.limit:
                return rows
            query = query._replace(after=found[-1].number, offset=0)

    async def _some_rows(self, query: InstanceQuery) -> list[InstanceRow]:
        beyond, direction = (">", "ASC") if query.ascending else ("<", "DESC")
        matches = _matches(query)
        if query.after is not None:
            matches += " " + STATEMENTS["beyond"].format(beyond=beyond)
        sql = STATEMENTS["rows"].format(matches=matches, direction=direction)
        [(text,)] = await self._listing(sql, **_parameters(query))
        return instances_from_json(text)

    async def count(self, query: InstanceQuery) -> int:
        """How many instances the query matches, whatever its page."""
        sql = STATEMENTS["count"].format(matches=_matches(query))
        [(many,)] = await self._listing(sql, **_parameters(query))
        return many

    async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
        """How many instances of the workflow there are, by status."""
        [(text,)] = await self._listing(STATEMENTS["status_counts"], workflow=workflow)
        return from_json(text, dict[InstanceStatus, int])

    async def recoverable(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Instances that must be taken up at start, in order of number."""
        return numbered_keys_from_json(await self._value("recoverable", after=after, limit=limit))

    async def restless(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Waiting instances whose code has timers of its own, in order of number."""
        return numbered_keys_from_json(await self._value("restless", after=after, limit=limit))

    async def unfinished(self, known: Collection[str]) -> dict[str, int]:
        """How many unfinished instances there are of each workflow that is not among the known ones."""
        return from_json(
            await self._value("unfinished", known=to_json(list(known))), dict[str, int]
        )

    async def queued(self, workflow: str, limit: int, *, waking: bool) -> list[InstanceKey]:
        """The first of the workflow's queue, of those that wake or of the others."""
        found = await self._value("queued", workflow=workflow, waking=waking, limit=limit)
        return keys_from_json(found)

    async def expired(self, until_ms: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """The instances that expire first, each with its number."""
        return numbered_keys_from_json(await self._value("expired", until_ms=until_ms, limit=limit))

    async def next_expiry_ms(self) -> int | None:
        """When the next instance expires, or the retention of a token is over, or should have been."""
        return await self._value("next_expiry_ms")

    async def shrink(self, most_pages: int, /) -> bool:
        """Give free pages back, some at a time."""
        free_pages = await self._value("free_pages")
        if free_pages:
            await self._script(f"PRAGMA incremental_vacuum({most_pages:d})")
        if 0 < free_pages <= most_pages:
            # Until then the file is as long as it was. A listing under way only puts it off to a later one.
            await self._fetch("checkpoint")
        return free_pages > most_pages

    async def due(
        self, until_ms: int, limit: int, after: TimerRow | None = None
    ) -> list[tuple[InstanceKey, TimerRow]]:
        """The earliest timers of waiting instances, in order of due time."""
        found = await self._value(
            "due",
            until_ms=until_ms,
            limit=limit,
            after_ms=after.due_ms if after else -1,
            after_number=after.number if after else 0,
            after_kind=after.step.kind if after else "",
            after_step=after.step.label if after else "",
        )
        return timers_from_json(found)

    async def next_due_ms(self, after_ms: int) -> int | None:
        """When the earliest timer of a waiting instance later than `after_ms` is due."""
        return await self._value("next_due_ms", after_ms=after_ms)

    async def holders(self, tokens: Sequence[TokenKey]) -> dict[TokenKey, HookRecord]:
        """Who holds these tokens, or held them last."""
        found: dict[TokenKey, HookRecord] = {}
        for first in range(0, len(tokens), _MOST_ROWS):
            some = tokens[first : first + _MOST_ROWS]
            hooks = hooks_from_json(await self._value("holders", tokens=to_json(some)))
            found |= {hook.key: hook for hook in hooks}
        return found

    async def hooks(self, query: HookQuery) -> list[HookRecord]:
        """A page of the hooks that are there, oldest first."""
        after_ms, after_id = query.after
        [(text,)] = await self._listing(
            STATEMENTS["hooks"],
            workflow=query.workflow,
            instance_id=query.instance_id,
            after_ms=after_ms,
            after_id=after_id,
            limit=query.limit,
        )
        return hooks_from_json(text)

    async def forget_tokens(self, until_ms: int) -> None:
        """Remove what is left of hooks whose retention is over at this time."""
        await self._fetch("forget_tokens", until_ms=until_ms)

    async def seed(self) -> str:
        """A secret of this journal."""
        return await self._value("seed")

    async def last_ticks(self) -> dict[tuple[str, str], int]:
        """Until when each schedule is settled."""
        rows = from_json(await self._value("last_ticks"), list[TickRow])
        return {(row.workflow, row.cron): row.last_ms for row in rows}

    async def stream_states(
        self, streams: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StreamState]:
        """How each of these streams (instance, name) is."""
        return states_from_json(await self._value("stream_states", streams=to_json(streams)))

    async def streams(self, key: InstanceKey) -> dict[str, StreamState] | None:
        """The streams of an instance, those for users, by name, in order of name."""
        sql = STATEMENTS["streams"]
        [(number, text)] = await self._listing(sql, workflow=key.workflow, id=key.id)
        if number is None:
            return None
        return {name: state for (_, name), state in states_from_json(text).items()}

    async def chunks(
        self, key: InstanceKey, stream: str, first: int, limit: int, most_bytes: int
    ) -> StreamPage | None:
        """The next chunks of a stream from place `first` on, and how it is."""
        rows = await self._listing(
            STATEMENTS["chunks"],
            workflow=key.workflow,
            id=key.id,
            stream=stream,
            first=first,
            limit=limit,
            most_bytes=most_bytes,
        )
        return page_from_row(rows[0]) if rows else None

    async def _prepare(self, writer: aiosqlite.Connection) -> None:
        version = await inspect(writer, self._where)
        await writer.executescript(STATEMENTS["prepare_file"])
        await writer.executescript(STATEMENTS["prepare_writer"])
        synchronous = "FULL" if self._full_durability else "NORMAL"
        await writer.execute_fetchall(f"PRAGMA synchronous = {synchronous}")
        [(verdict,)] = await writer.execute_fetchall(STATEMENTS["check"])
        if verdict != "ok":
            raise JournalCorrupt(
                f"The journal {self._where} is damaged ({verdict}). "
                "Restore it, or choose another folder with --persist-to."
            )
        await migrate(writer, version)
        await writer.executescript(STATEMENTS["whole_commit"])

    async def _asked(self, asking: Asking[_T]) -> _T:
        """Ask one statement and, if that is not enough, several with no commit between them."""
        try:
            statement, parameters = next(asking)
            statement, parameters = asking.send(await self._fetch(statement, **parameters))
            async with self._alone:
                while True:
                    statement, parameters = asking.send(await self._fetch(statement, **parameters))
        except StopIteration as end:
            return end.value

    async def _value(self, statement: str, **parameters: object) -> Any:
        [(value,)] = await self._fetch(statement, **parameters)
        return value

    async def _fetch(self, statement: str, **parameters: object) -> list[Any]:
        return await self._run(self._writer, STATEMENTS[statement], parameters)

    async def _listing(self, sql: str, **parameters: object) -> list[Any]:
        return await self._run(self._reader, sql, parameters)

    async def _run(
        self,
        connection: aiosqlite.Connection | None,
        sql: str,
        parameters: dict[str, object] | Sequence[object],
    ) -> list[Any]:
        if connection is None:
            raise JournalUnavailable(f"The journal {self._where} is not open.")
        with clear_errors(self._where):
            # aiosqlite's annotation says a sequence, SQLite takes names as well.
            return list(await connection.execute_fetchall(sql, parameters))

    async def _script(self, sql: str) -> None:
        """Run a pragma to its end: of one that answers nothing `execute` makes the first step only, here a page."""
        if self._writer is None:
            raise JournalUnavailable(f"The journal {self._where} is not open.")
        with clear_errors(self._where):
            await self._writer.executescript(sql)


def _only_logs(commit: Commit) -> bool:
    """Whether it writes nothing but entries of the log, and no more of them than a statement can take."""
    if EventReceived in {type(row.entry.fact) for row in commit.entries}:
        return False
    return 0 < len(commit.entries) <= _MOST_ENTRIES and not (
        commit.deleted
        or commit.cuts
        or commit.created
        or commit.updated
        or commit.taken
        or commit.disarmed
        or commit.armed
        or commit.ticks
        or commit.hooks
        or commit.streams
    )


def _changes_more_than_it_carries(commit: Commit) -> bool:
    """Whether its length does not tell how much there is to do: it removes rows, or writes some anew with what is in them."""
    if commit.deleted or commit.cuts or (commit.streams is not None and commit.streams.cleared):
        return True
    return sum(len(row.creation.params) for row in commit.updated.values()) > _MOST_PARAMS_BYTES


def _matches(query: InstanceQuery) -> str:
    """The conditions that the query sets, and no others, so that SQLite finds the index for them."""
    conditions = ["workflow = :workflow"]
    if query.status is not None:
        conditions.append("status = :status")
    if query.created_from_ms is not None:
        conditions.append("created_ms >= :created_from_ms")
    if query.created_to_ms is not None:
        conditions.append("created_ms <= :created_to_ms")
    if query.attributes:
        conditions.append(STATEMENTS["has_attributes"])
    return " AND ".join(conditions)


def _parameters(query: InstanceQuery) -> dict[str, object]:
    return {**query._asdict(), "attributes": to_json(query.attributes)}
