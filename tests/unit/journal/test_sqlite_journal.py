"""`SqliteJournal`: what it refuses, in words; what a cancelled caller, a lock or a kill leaves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.domain.entries import (
    FACTS,
    STEP_KINDS,
    AttemptFailed,
    AttemptStarted,
    Entry,
    Failure,
    WorkflowQueued,
)
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.engine.engine import Engine
from emulator.errors import (
    JournalCorrupt,
    JournalLocked,
    JournalRemoved,
    JournalTooNew,
    JournalUnavailable,
    StorageError,
)
from emulator.journal import sqlite as sqlite_journal
from emulator.journal.connections import InlineWriter
from emulator.journal.port import (
    Commit,
    Cut,
    EntryRow,
    InstanceQuery,
    InstanceRow,
    StoredInstance,
    StreamCommit,
)
from emulator.journal.schema import MIGRATIONS
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock

ROOT = Path(__file__).parents[3]
KEY = InstanceKey("orders", "42")
STEP = StepKey(StepKind.DO, "charge", 1)
LETTER = b"a letter to somebody " * 100
KILLS = 3
ACKNOWLEDGED_BEFORE_KILL = 50

WRITER = """
import asyncio, sys
from pathlib import Path
from tests.unit.journal.test_sqlite_journal import attempt, created
from emulator.journal.sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(Path(sys.argv[1]))
    await journal.open()
    first = int(sys.argv[2])
    if first == 1:
        await journal.commit(created())
    for seq in range(first, sys.maxsize):
        await journal.commit(attempt(seq))
        print(seq, flush=True)

asyncio.run(main())
"""
OWNER = """
import asyncio, os, signal, sys
from pathlib import Path
from emulator.journal.sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(Path(sys.argv[1]))
    await journal.open()
    journal.publish_port(8787)
    print("open", flush=True)
    if sys.argv[2] == "fork":
        child = os.fork()
        if child == 0:
            os.close(1)
            signal.pause()
        print(child, flush=True)
    if sys.argv[2] != "leave":
        await asyncio.Event().wait()

asyncio.run(main())
"""


def created(key: InstanceKey = KEY, number: int = 1) -> Commit:
    creation = Creation(key.workflow, key.id, msgspec.Raw(b'{"a": 1}'), 1_000)
    return Commit(created=[InstanceRow(number, creation, InstanceStatus.RUNNING, 1_000)])


def attempt(seq: int, number: int = 1) -> Commit:
    entry = Entry(seq, STEP, AttemptStarted(seq))
    return Commit(entries=[EntryRow(number, seq, entry)])


def row(number: int, *, params_chars: int) -> InstanceRow:
    params = msgspec.Raw(b'"%s"' % (b"x" * params_chars))
    creation = Creation(KEY.workflow, str(number), params, 1_000)
    return InstanceRow(number, creation, InstanceStatus.RUNNING, 1_000)


async def commit_attempts(journal: SqliteJournal, many: int) -> None:
    for seq in range(1, many + 1):
        await journal.commit(attempt(seq))


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite(path: Path, new: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(new)


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> list[str]:
    """Kill the process, and give what it had still said."""
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate(timeout=30)
    return output.splitlines(keepends=True)


async def seqs(journal: SqliteJournal, key: InstanceKey = KEY) -> list[int]:
    stored = (await journal.load([key]))[key]
    assert isinstance(stored, StoredInstance)
    return [seq for seq, _ in stored.entries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal(path)
    await opened.open()
    yield opened
    await opened.close()


def connections(journal: SqliteJournal) -> list[Callable[[str], Awaitable[list[Any]]]]:
    """What runs a statement on each of the connections that write."""
    writer, inline = journal._writer, journal._inline  # pyright: ignore[reportPrivateUsage]
    assert writer is not None

    async def there(sql: str) -> list[Any]:
        return list(await writer.execute_fetchall(sql))

    async def here(sql: str) -> list[Any]:
        assert inline is not None
        return inline._connection.execute(sql).fetchall()  # pyright: ignore[reportPrivateUsage]

    return [there] if inline is None else [there, here]


def takes_a_thread(journal: SqliteJournal, commit: Commit) -> bool:
    """Whether this commit is not made at once. It is made all the same."""
    asked = journal.commit(commit)
    try:
        asked.send(None)
    except StopIteration:
        return False
    asked.close()
    return True


async def refusal(path: Path, kind: type[StorageError]) -> str:
    with pytest.raises(kind) as caught:
        await SqliteJournal(path).open()
    return caught.value.message


async def test_a_process_can_read_the_log_with_names_for_events(
    journal: SqliteJournal, path: Path
) -> None:
    await journal.commit(created())
    await journal.commit(attempt(1))
    with sqlite3.connect(path) as shell:
        rows = shell.execute("SELECT workflow, id, event, step, body FROM log").fetchall()
    shell.close()
    assert rows == [("orders", "42", "AttemptStarted", "charge-1", '{"attempt":1}')]


async def test_the_file_knows_every_fact_and_its_kind_of_step(
    journal: SqliteJournal, path: Path
) -> None:
    shell = sqlite3.connect(path)
    rows = {event: (name, kind) for event, name, kind in shell.execute("SELECT * FROM fact")}
    shell.close()
    assert rows == {event: (fact.__name__, STEP_KINDS.get(event)) for event, fact in FACTS.items()}


@pytest.mark.parametrize(("full_durability", "expected"), [(False, 1), (True, 2)])
async def test_the_file_is_in_wal_mode_and_can_shrink(
    path: Path, full_durability: bool, expected: int
) -> None:
    journal = SqliteJournal(path, full_durability=full_durability)
    await journal.open()
    names = ("journal_mode", "auto_vacuum", "synchronous", "foreign_keys")
    found = [
        [(await connection(f"PRAGMA {name}"))[0][0] for name in names]
        for connection in connections(journal)
    ]
    await journal.close()
    assert len(found) == (1 if full_durability else 2)
    assert all(each == ["wal", 2, expected, 1] for each in found)


async def test_a_small_commit_is_made_at_once_and_a_long_one_beside_the_loop(
    journal: SqliteJournal,
) -> None:
    assert not takes_a_thread(journal, created())
    assert not takes_a_thread(journal, attempt(1))
    many = [row for seq in range(2, 1_002) for row in attempt(seq).entries]
    assert takes_a_thread(journal, Commit(entries=many))
    large = Entry(1, STEP, AttemptFailed(1, Failure("Error", "x" * 10_000)))
    assert takes_a_thread(journal, Commit(entries=[EntryRow(1, 1_002, large)]))
    assert await seqs(journal) == list(range(1, 1_003))


@pytest.mark.parametrize(
    "commit",
    [
        Commit(deleted=[1]),
        Commit(cuts=[Cut(1, None)]),
        Commit(streams=StreamCommit(cleared=[(1, "progress")])),
        Commit(updated={number: row(number, params_chars=40_000) for number in (1, 2)}),
    ],
)
async def test_a_commit_that_changes_more_than_it_says_is_made_beside_the_loop(
    journal: SqliteJournal, commit: Commit
) -> None:
    await journal.commit(Commit(created=[row(each, params_chars=40_000) for each in (1, 2)]))
    assert takes_a_thread(journal, commit)
    assert await journal.last_number() == 2
    assert not takes_a_thread(journal, created(number=3))
    assert not takes_a_thread(journal, Commit(updated={2: row(2, params_chars=40_000)}))


async def test_the_commit_that_begins_the_log_anew_is_made_beside_the_loop(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    await journal.commit(created())
    await journal.close()
    os.utime(path, ns=(0, 0))  # clocks of files may be too coarse to tell what comes next from this
    await journal.open()
    assert not takes_a_thread(journal, attempt(1))
    shell = sqlite3.connect(path)
    shell.execute("PRAGMA wal_checkpoint")
    shell.close()
    assert takes_a_thread(journal, attempt(2))
    assert await seqs(journal) == [1, 2]
    assert not takes_a_thread(journal, attempt(3))
    assert await seqs(journal) == [1, 2, 3]
    await journal.close()


async def test_with_full_durability_no_commit_holds_up_the_loop(path: Path) -> None:
    journal = SqliteJournal(path, full_durability=True)
    await journal.open()
    assert takes_a_thread(journal, created())
    await journal.close()


async def test_small_commits_do_not_keep_the_file_from_its_checkpoints(
    journal: SqliteJournal, path: Path
) -> None:
    await journal.commit(created())
    await commit_attempts(journal, 3_000)
    written_ahead = path.with_name(path.name + "-wal").stat().st_size
    assert written_ahead < 2 * 1_000 * 4_096


async def test_what_a_long_listing_has_added_to_the_log_is_given_back(
    journal: SqliteJournal, path: Path
) -> None:
    written_ahead = path.with_name(path.name + "-wal")
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN")
    shell.execute("SELECT count(*) FROM instance").fetchall()
    for number in range(1, 37):
        await journal.commit(Commit(created=[row(number, params_chars=1_000_000)]))
    assert written_ahead.stat().st_size > 36_000_000
    shell.close()
    await commit_attempts(journal, 300)
    assert written_ahead.stat().st_size <= 2**25


async def test_listings_make_room_for_a_checkpoint_once_the_log_is_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_journal, "_LONG_LOG_BYTES", 2**20)
    journal = SqliteJournal(path)
    await journal.open()
    await journal.commit(created())
    loop, has_begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hold() -> None:
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait()

    reader = journal._reader  # pyright: ignore[reportPrivateUsage]
    assert reader is not None
    await reader.create_function("hold", 0, hold)  # pyright: ignore[reportUnknownMemberType]
    listing = asyncio.create_task(reader.execute_fetchall("SELECT hold() FROM instance"))
    await has_begun.wait()

    written_ahead = path.with_name(path.name + "-wal")

    async def write() -> None:
        number = 1
        while written_ahead.stat().st_size <= 2**20:
            number += 1
            await journal.commit(Commit(created=[row(number, params_chars=100_000)]))

    writing = asyncio.create_task(write())
    while written_ahead.stat().st_size <= 2**20:
        await journal.last_number()
    for _ in range(2):  # the first may be asked before the last commit is made
        await journal.last_number()
    assert not writing.done()
    may_end.set()
    await asyncio.gather(listing, writing)
    await journal.commit(attempt(1))
    shell = sqlite3.connect(path)
    [(_, pages, _)] = shell.execute("PRAGMA wal_checkpoint")
    shell.close()
    await journal.close()
    assert pages < 20


async def test_a_commit_that_contradicts_the_journal_leaves_nothing(
    journal: SqliteJournal,
) -> None:
    await journal.commit(created())
    both = created(InstanceKey("orders", "43"), number=2)
    both.entries = [EntryRow(2, 1, Entry(1, None, WorkflowQueued()))] * 2
    with pytest.raises(StorageError, match="UNIQUE"):
        await journal.commit(both)
    assert await journal.last_number() == 1
    assert await journal.count(InstanceQuery("orders")) == 1


async def test_entries_alone_that_contradict_the_journal_are_refused_as_a_whole(
    journal: SqliteJournal,
) -> None:
    await journal.commit(created())
    await journal.commit(attempt(2))
    entries = [*attempt(1).entries, *attempt(2).entries, *attempt(3).entries]
    with pytest.raises(StorageError, match="UNIQUE"):
        await journal.commit(Commit(entries=entries))
    assert await seqs(journal) == [2]


@pytest.mark.parametrize("many", [5_000, 5_001, 12_000])
async def test_a_commit_can_have_any_number_of_entries(journal: SqliteJournal, many: int) -> None:
    await journal.commit(created())
    entries = [
        EntryRow(1, seq, Entry(seq, STEP, AttemptStarted(seq))) for seq in range(1, many + 1)
    ]
    await journal.commit(Commit(entries=entries))
    stored = (await journal.load([KEY]))[KEY]
    assert isinstance(stored, StoredInstance)
    assert [EntryRow(1, *each) for each in stored.entries] == entries


async def test_a_deleted_instance_leaves_no_rows(journal: SqliteJournal, path: Path) -> None:
    await journal.commit(created())
    await journal.commit(attempt(1))
    await journal.commit(Commit(deleted=[1]))
    shell = sqlite3.connect(path)
    [left] = shell.execute("SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM instance)")
    shell.close()
    assert left == (0,)


async def test_an_entry_that_does_not_decode_is_named_and_harms_no_other_instance(
    journal: SqliteJournal, path: Path
) -> None:
    other = InstanceKey("orders", "43")
    await journal.commit(created())
    await journal.commit(created(other, number=2))
    await journal.commit(attempt(7))
    with sqlite3.connect(path) as shell:
        shell.execute("UPDATE entry SET body = '{\"attempt\":'")
    shell.close()
    loaded = await journal.load([KEY, other])
    error = loaded[KEY]
    assert isinstance(error, JournalCorrupt)
    assert "Entry 7 (event 10) of instance '42' of workflow 'orders'" in error.message
    assert isinstance(loaded[other], StoredInstance)


async def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(path: Path) -> None:
    overwrite(path, LETTER)
    assert str(path) in await refusal(path, JournalCorrupt)
    assert content(path) == LETTER


async def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bill (amount)")
    other.close()
    before = content(path)
    assert "not a journal" in await refusal(path, JournalCorrupt)
    assert content(path) == before


@pytest.mark.parametrize("pages", [-1, 1], ids=["one page", "all but one"])
async def test_a_damaged_file_is_refused(path: Path, pages: int) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    await journal.commit(created())
    await commit_attempts(journal, 200)
    await journal.close()
    whole = content(path)
    left = whole[: 4096 * pages]
    overwrite(path, left + b"\xa5" * (len(whole) - len(left)))
    assert "damaged" in await refusal(path, JournalCorrupt)


async def test_a_file_of_a_later_version_is_refused_with_both_versions(
    path: Path,
) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    await journal.close()
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    later.close()
    message = await refusal(path, JournalTooNew)
    assert "version 99" in message
    assert f"version {len(MIGRATIONS)}" in message


async def test_attributes_of_a_file_of_before_are_found_in_its_entries(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path, isolation_level=None) as before:
        for script in MIGRATIONS[:4]:
            before.executescript(script)
        before.execute("PRAGMA user_version = 4")
        columns = "number, workflow, id, status, created_ms, modified_ms, waking, source, params"
        for number in (1, 2, 3):
            values = (number, "orders", f"o-{number}", "running", 0, 0, 0, "binding", "{}")
            before.execute(
                f"INSERT INTO instance ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
            )
        for number, seq, changes in [
            (1, 1, '{"who": "me", "what": "this"}'),
            (1, 2, '{"who": "you", "what": null}'),
            (2, 1, '{"who": "me"}'),
            (2, 2, '{"who": null}'),
        ]:
            body = f'{{"changes": {changes}}}'
            row = (number, seq, 109, 0, body)
            before.execute(
                "INSERT INTO entry (number, seq, event, at_ms, body) VALUES (?, ?, ?, ?, ?)", row
            )
    before.close()
    journal = SqliteJournal(path)
    await journal.open()
    rows = await journal.rows(InstanceQuery("orders", ascending=True))
    assert [dict(row.attributes) for row in rows] == [{"who": "you"}, {}, {}]
    found = await journal.rows(InstanceQuery("orders", attributes=(("who", "you"),)))
    assert [row.number for row in found] == [1]
    await journal.close()


async def test_a_folder_that_is_made_is_none_of_gits(tmp_path: Path) -> None:
    for folder in (tmp_path / "new" / "state", tmp_path):
        journal = SqliteJournal(folder / "journal.sqlite")
        await journal.open()
        await journal.close()
    assert content(tmp_path / "new" / "state" / ".gitignore") == b"*\n"
    assert os.listdir(tmp_path / "new") == ["state"]  # noqa: PTH208
    assert ".gitignore" not in os.listdir(tmp_path)  # noqa: PTH208


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = await refusal(tmp_path / "file" / "journal.db", JournalUnavailable)
    assert str(tmp_path / "file") in message
    assert "--persist-to" in message


async def test_a_path_that_is_a_folder_is_refused(path: Path) -> None:
    overwrite(path / "something", b"")
    assert "cannot be opened" in await refusal(path, JournalUnavailable)


@pytest.mark.parametrize("full_durability", [False, True])
@pytest.mark.parametrize(
    ("limit", "words"),
    [("max_page_count = 1", "Make room"), ("query_only = ON", "cannot be written")],
)
async def test_a_full_disk_and_a_read_only_file_say_what_to_do(
    path: Path, limit: str, words: str, full_durability: bool
) -> None:
    journal = SqliteJournal(path, full_durability=full_durability)
    await journal.open()
    await journal.commit(created())
    for connection in connections(journal):
        await connection(f"PRAGMA {limit}")
    with pytest.raises(JournalUnavailable, match=words) as caught:
        await commit_attempts(journal, 2_000)
    assert str(path) in caught.value.message
    written = await seqs(journal)
    await journal.close()
    assert written == list(range(1, len(written) + 1))


async def test_a_journal_that_is_not_open_says_so(path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="not open"):
        await SqliteJournal(path).last_number()


async def test_closing_twice_is_harmless_and_lets_the_next_one_in(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    await journal.close()
    await journal.close()
    second = SqliteJournal(path)
    await second.open()
    await second.close()


async def test_a_link_to_a_journal_is_the_same_journal(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    link = path.with_name("link")
    link.symlink_to(path)
    assert "is in use" in await refusal(link, JournalLocked)
    await journal.close()


async def test_a_journal_stays_the_same_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = SqliteJournal(Path("relative.sqlite"))
    await journal.open()
    monkeypatch.chdir("/")
    await journal.commit(created())
    await journal.close()


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.touch()


def replace_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.touch()


@pytest.mark.parametrize("harm", [remove, replace, replace_folder])
async def test_a_journal_that_is_removed_while_it_is_open_takes_nothing_more(
    path: Path, harm: Callable[[Path], None]
) -> None:
    journal = SqliteJournal(path)
    await journal.open()
    await journal.commit(created())
    harm(path)
    with pytest.raises(JournalRemoved, match="removed, or replaced"):
        await journal.commit(attempt(1))
    await journal.close()


async def test_a_second_process_learns_the_pid_and_port_of_the_first(path: Path) -> None:
    owner = start(OWNER, str(path), "stay")
    line_of(owner)
    message = await refusal(path, JournalLocked)
    end(owner)
    assert re.search(rf"in use by process {owner.pid} \(http://127\.0\.0\.1:8787\)", message)
    survivor = SqliteJournal(path)
    await survivor.open()
    await survivor.close()


async def test_a_child_that_outlives_its_process_does_not_keep_the_journal(path: Path) -> None:
    owner = start(OWNER, str(path), "fork")
    line_of(owner)
    child = int(line_of(owner))
    assert "is in use" in await refusal(path, JournalLocked)
    end(owner)
    try:
        survivor = SqliteJournal(path)
        await survivor.open()
        await survivor.close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_program_that_does_not_close_ends_all_the_same(path: Path) -> None:
    process = start(OWNER, str(path), "leave")
    process.communicate(timeout=30)
    assert process.returncode == 0


async def test_a_cancelled_caller_leaves_whole_commits_and_a_free_connection(
    journal: SqliteJournal, path: Path
) -> None:
    await journal.commit(created())
    writes = [asyncio.create_task(journal.commit(attempt(seq))) for seq in range(1, 101)]
    reads = [asyncio.create_task(journal.load([KEY])) for _ in range(100)]
    pages = [asyncio.create_task(journal.rows(InstanceQuery("orders"))) for _ in range(100)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    for task in (*writes, *reads, *pages):
        task.cancel()
    await asyncio.gather(*writes, *reads, *pages, return_exceptions=True)
    await journal.commit(attempt(1_000))
    assert await seqs(journal) == [*range(1, 101), 1_000]
    other = sqlite3.connect(path, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    other.close()


async def test_a_lock_that_another_program_holds_for_a_while_is_waited_for(
    journal: SqliteJournal, path: Path
) -> None:
    await journal.commit(created())
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    commit = asyncio.create_task(journal.commit(attempt(1)))
    listed = await journal.rows(InstanceQuery("orders"))
    assert [row.number for row in listed] == [1]
    assert not commit.done()
    shell.execute("COMMIT")
    shell.close()
    await commit
    assert await seqs(journal) == [1]


async def test_a_lock_that_another_program_holds_does_not_stop_a_start_half_way(
    journal: SqliteJournal, path: Path
) -> None:
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    InlineWriter(str(path), 0).close()
    shell.close()


async def test_nothing_acknowledged_is_lost_to_a_kill(path: Path) -> None:
    last = 0
    for _ in range(KILLS):
        writer = start(WRITER, str(path), str(last + 1))
        said = [line_of(writer) for _ in range(ACKNOWLEDGED_BEFORE_KILL)] + end(writer)
        acknowledged = max(int(line) for line in said if line.endswith("\n"))
        journal = SqliteJournal(path)
        await journal.open()
        found = await seqs(journal)
        await journal.close()
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= acknowledged
        last = len(found)
        shell = sqlite3.connect(path)
        assert shell.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        shell.close()


async def test_the_file_shrinks_step_by_step_when_instances_are_gone(
    journal: SqliteJournal, path: Path
) -> None:
    params = msgspec.Raw(b'"' + b"x" * 10_000 + b'"')
    rows = [
        InstanceRow(number, Creation("orders", str(number), params, 0), InstanceStatus.COMPLETE, 0)
        for number in range(1, 301)
    ]
    await journal.commit(Commit(created=rows))
    assert not await journal.shrink(100)
    await journal.commit(Commit(deleted=list(range(1, 300))))
    steps = 1
    while await journal.shrink(100):
        steps += 1
    assert steps > 5
    assert len(content(path)) < 300_000  # of three million
    assert await journal.row(InstanceKey("orders", "300")) == rows[-1]


async def test_an_engine_with_nothing_else_to_do_gives_back_what_has_expired(path: Path) -> None:
    params = msgspec.Raw(b'"' + b"x" * 10_000 + b'"')
    journal = SqliteJournal(path)
    await journal.open()
    for start in range(1, 601, 100):
        rows = [
            InstanceRow(
                number,
                Creation("orders", str(number), params, 0),
                InstanceStatus.COMPLETE,
                0,
                ended_ms=0,
                expires_ms=1,
            )
            for number in range(start, start + 100)
        ]
        await journal.commit(Commit(created=rows))
    await journal.close()
    full_bytes = len(content(path))
    engine = Engine(journal, SystemClock(), [])
    await engine.start()
    async with asyncio.timeout(60):
        while len(content(path)) > full_bytes / 10:
            await journal.last_number()  # the shrinking waits its turn among such calls
    assert await journal.last_number() == 600
    assert await journal.count(InstanceQuery("orders")) == 0
    await engine.close()
