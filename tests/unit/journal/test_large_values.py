"""SQLite refuses a text of more than 1 GB, which many values of 1 MiB make together: here of more than 1 MB, of 100 kB."""

from __future__ import annotations

import asyncio
import functools
import resource
import sqlite3
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.domain.entries import AttemptFailed, Entry, EventReceived, Fact, StepSucceeded
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.names import RESERVED
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import JournalCorrupt, StorageError
from emulator.journal import loading, rows, sqlite
from emulator.journal.looking import look
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import (
    ChunkRow,
    ClosedRow,
    Commit,
    Cut,
    EntryRow,
    InstanceQuery,
    InstanceRow,
    StoredInstance,
    StreamCommit,
    TickRow,
    TimerRow,
)
from emulator.journal.sqlite import SqliteJournal

MOST_BYTES = 1_000_000
STEP = StepKey(StepKind.DO, "charge", 1)
OUTPUT = RESERVED + STEP.label
LARGE = msgspec.Raw(b'"' + b"x" * 100_000 + b'"')
MEMORY = Path("/proc/self/statm")


def resident_bytes() -> int:
    return int(MEMORY.read_text().split()[1]) * resource.getpagesize()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite refuse texts much sooner."""
    connect: Any = sqlite3.connect

    @functools.wraps(connect)
    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)


@pytest.fixture
async def journal(connections: None, tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    await opened.open()
    yield opened
    await opened.close()


def made(number: int, params: msgspec.Raw = LARGE) -> InstanceRow:
    creation = Creation("orders", str(number), params, 1)
    return InstanceRow(number, creation, InstanceStatus.RUNNING, 1)


def key(number: int) -> InstanceKey:
    return InstanceKey("orders", str(number))


async def test_a_start_finds_instances_whatever_the_size_of_their_params(
    journal: SqliteJournal,
) -> None:
    for number in range(1, 21):
        await journal.commit(Commit(created=[made(number)]))
    found = await journal.recoverable(0, 5_000)
    assert found == [(key(number), number) for number in range(1, 21)]


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_CHARS", 400_000)


def results(number: int, many: int) -> Commit:
    """Results of steps, each with an event that came before it, and that nobody has taken."""
    facts: list[Fact] = []
    for _ in range(many):
        facts += [EventReceived("paid", LARGE), StepSucceeded(LARGE)]
    return Commit(
        entries=[
            EntryRow(number, seq, Entry(1, STEP if seq % 2 == 0 else None, fact))
            for seq, fact in enumerate(facts, 1)
        ]
    )


async def large_journal(journal: SqliteJournal, most: int) -> dict[InstanceKey, StoredInstance]:
    """Instances with many large values and with few, in turns; what is stored."""
    stored: dict[InstanceKey, StoredInstance] = {}
    for number in range(1, most + 1):
        log = results(number, 10 if number % 3 == 0 else number % 3)
        await journal.commit(Commit(created=[made(number)]))
        for row in log.entries:
            await journal.commit(Commit(entries=[row]))
        entries = [(row.seq, row.entry) for row in log.entries]
        stored[key(number)] = StoredInstance(made(number), entries)
    return stored


@pytest.mark.usefixtures("small_reads")
async def test_instances_are_loaded_whatever_their_size(journal: SqliteJournal) -> None:
    stored = await large_journal(journal, 9)
    asked = [*stored, key(99), key(1)]
    for _ in range(3):
        assert await journal.load(asked) == stored
    assert await journal.load([key(2), key(99), key(3)]) == {
        key(2): stored[key(2)],
        key(3): stored[key(3)],
    }


@pytest.mark.usefixtures("small_reads")
async def test_a_large_instance_is_read_as_it_is_between_two_commits(
    journal: SqliteJournal,
) -> None:
    stored = await large_journal(journal, 3)
    events = [seq for seq, entry in stored[key(3)].entries if type(entry.fact) is EventReceived]
    loading = asyncio.create_task(journal.load([key(3)]))
    for many, seq in enumerate(events, 1):
        row = made(3)._replace(modified_ms=1 + many)
        await journal.commit(Commit(updated={3: row}, taken=[(3, seq)]))
    loaded = (await loading)[key(3)]
    assert isinstance(loaded, StoredInstance)
    taken = len(stored[key(3)].entries) - len(loaded.entries)
    assert loaded.row.modified_ms == 1 + taken


@pytest.mark.usefixtures("small_reads")
async def test_a_large_instance_that_is_deleted_while_it_is_read_is_not_there(
    journal: SqliteJournal,
) -> None:
    await large_journal(journal, 3)
    asked = journal.load([key(3)])
    loaded, _ = await asyncio.gather(asked, journal.commit(Commit(deleted=[3])))
    assert loaded == {}


@pytest.mark.usefixtures("small_reads")
async def test_an_entry_of_a_large_instance_that_does_not_decode_is_named(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    stored = await large_journal(journal, 4)
    with sqlite3.connect(tmp_path / "journal.db") as shell:
        shell.execute("UPDATE entry SET body = '[]' WHERE number = 3 AND seq = 8")
    shell.close()
    loaded = await journal.load(list(stored))
    error = loaded.pop(key(3))
    assert isinstance(error, JournalCorrupt)
    assert "Entry 8 (event 6) of instance '3' of workflow 'orders'" in error.message
    del stored[key(3)]
    assert loaded == stored


@pytest.mark.usefixtures("small_reads")
async def test_a_file_is_looked_into_whatever_the_size_of_its_instances(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    stored = await large_journal(journal, 4)
    pieces = [ChunkRow(1, OUTPUT, place, STEP.label, 1, LARGE) for place in range(12)]
    for piece in pieces:
        await journal.commit(Commit(streams=StreamCommit(chunks=[piece])))
    first, *others = look(tmp_path / "journal.db")
    assert first == stored[key(1)]._replace(outputs=tuple(pieces))
    assert others == list(stored.values())[1:]


@pytest.mark.usefixtures("small_reads")
async def test_a_commit_is_written_whole_whatever_its_size(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_TEXT_CHARS", 400_000)
    sleep = StepKey(StepKind.SLEEP, "nap", 1)
    hooks = [
        HookRecord(f"hook_{n}", "orders", "1", f"token {n}", 1, metadata=LARGE) for n in range(12)
    ]
    chunks = [ChunkRow(1, "default", place, None, None, LARGE) for place in range(12)]
    log = results(1, 12).entries + results(2, 12).entries
    memory = MemoryJournal()
    for each in (journal, memory):
        await each.commit(Commit(created=[made(number) for number in range(1, 21)]))
        await each.commit(Commit(entries=[EntryRow(1, 99, Entry(1, None, EventReceived("old")))]))
        await each.commit(Commit(hooks={"hook_1": hooks[1]}))
        await each.commit(
            Commit(
                deleted=[20],
                cuts=[Cut(1, None)],
                created=[made(number) for number in range(30, 50)],
                updated={3: made(3)._replace(modified_ms=7)},
                entries=log,
                taken=[(1, 1)],
                disarmed=[(4, None)],
                armed=[TimerRow(3, sleep, 9)],
                ticks=[TickRow("", "* * * * *", 60_000)],
                hooks={hook.hook_id: hook for hook in hooks},
                streams=StreamCommit([(1, "default")], chunks, [ClosedRow(1, "default", None)]),
            )
        )
    for number in range(1, 50):
        assert await journal.load([key(number)]) == await memory.load([key(number)])
    assert await journal.due(9, 99) == await memory.due(9, 99)
    assert await journal.last_ticks() == await memory.last_ticks()
    for n, hook in enumerate(hooks):
        assert await journal.holders([hook.key]) == {hook.key: hooks[n]}
    for place in range(12):
        page = await journal.chunks(key(1), "default", place, 1, 1)
        assert page == await memory.chunks(key(1), "default", place, 1, 1)


async def test_a_commit_in_parts_is_written_whole_or_not_at_all(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_TEXT_CHARS", 400_000)
    created = [made(number) for number in range(1, 13)]
    twice = results(12, 6).entries
    with pytest.raises(StorageError, match="UNIQUE"):
        await journal.commit(Commit(created=created, entries=twice * 2))
    assert await journal.load([row.creation.key for row in created]) == {}


async def test_a_listing_has_its_rows_whatever_the_size_of_their_params(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_MOST_ROWS", 4)
    memory = MemoryJournal()
    for number in range(1, 21):
        for each in (journal, memory):
            await each.commit(Commit(created=[made(number)]))
    for ascending, after, offset, limit in product(
        (False, True), (None, 7), (0, 3), (0, 1, 4, 17, 99)
    ):
        query = InstanceQuery("orders", None, None, None, ascending, after, offset, limit)
        assert await journal.rows(query) == await memory.rows(query)


async def test_who_holds_tokens_is_known_whatever_the_size_of_their_metadata(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_MOST_ROWS", 4)
    hooks = [
        HookRecord(f"hook_{n}", "orders", "1", f"token {n}", 1, metadata=LARGE) for n in range(13)
    ]
    for hook in hooks:
        await journal.commit(Commit(hooks={hook.hook_id: hook}))
    assert await journal.holders([hook.key for hook in hooks]) == {hook.key: hook for hook in hooks}


@pytest.mark.skipif(not MEMORY.exists(), reason="only Linux tells so")
async def test_what_has_been_written_does_not_stay_in_memory(
    journal: SqliteJournal,
) -> None:
    await journal.commit(Commit(created=[made(1)]))
    before = resident_bytes()
    last = written = 0
    for many in range(100, 160):  # each number of rows is a statement of its own
        rows = [
            EntryRow(1, seq, Entry(1, STEP, AttemptFailed(1, Failure("Error", "x" * 16_000))))
            for seq in range(last + 1, last + many + 1)
        ]
        last += many
        written += many * 16_000
        await journal.commit(Commit(entries=rows))
    assert resident_bytes() - before < written / 2
