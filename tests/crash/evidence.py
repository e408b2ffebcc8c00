"""What is left after a kill, and what it must look like: the journal's file and the effects file.

A snapshot is taken of a copy, so that the next process recovers what the kill has left, not what a reader has tidied up.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from emulator.core.evolve import fold
from emulator.domain import entries as facts
from emulator.domain.entries import Entry
from emulator.domain.steps import StepKey
from emulator.journal.port import Commit, EntryRow, InstanceQuery, StoredInstance
from emulator.journal.sqlite import SqliteJournal
from emulator.testing.laws import instances as laws_of_instances
from emulator.testing.laws import steps as laws_of_steps
from emulator.testing.laws.moments import agreement_of_row
from emulator.testing.trace import Committed, Trace
from tests.crash.clients import TERMINAL

LAWS = (
    laws_of_steps.attempt,
    laws_of_steps.patience,
    laws_of_instances.progress,
    laws_of_instances.closure,
    laws_of_instances.order,
    laws_of_instances.rollback,
)
"""Those that the journal alone can answer."""

Line = tuple[int, int, int, str | None, str]
"""A line of the journal: number, seq, event, step, body."""

Call = tuple[str, int, str]
"""A line of the effects file without its instance: step, attempt, what (`start`, `end`, `undo`, `undone`)."""

STATES = {
    "in a callback": """
        SELECT count(*) FROM (
            SELECT event, max(seq) FROM entry WHERE event BETWEEN 10 AND 12 GROUP BY number, step
        ) WHERE event = 10""",
    "in a retry delay": "SELECT count(*) FROM timer WHERE kind = 'do'",
    "asleep": "SELECT count(*) FROM timer WHERE kind = 'sleep'",
    "waiting for an event": "SELECT count(*) FROM timer WHERE kind = 'waitForEvent'",
    "with events buffered": """
        SELECT count(*) FROM mailbox JOIN instance USING (number)
        WHERE status NOT IN ('complete', 'errored', 'terminated')""",
    "paused": "SELECT count(*) FROM instance WHERE status = 'paused'",
    "rolling back": "SELECT count(*) FROM instance WHERE status = 'rollingBack'",
    "queued": "SELECT count(*) FROM instance WHERE status = 'queued'",
}
"""The states in which a kill has to meet some instance, and how to count them."""


class Snapshot(NamedTuple):
    """The journal as a kill has left it."""

    statuses: dict[str, str]
    lines: set[Line]
    states: dict[str, int]

    @property
    def unfinished(self) -> int:
        """How many instances have not ended."""
        return sum(status not in TERMINAL for status in self.statuses.values())


def snapshot(journal: Path, scratch: Path) -> Snapshot:
    """Read the journal without touching it; it must be whole."""
    for old in scratch.glob("*"):
        old.unlink()
    scratch.mkdir(exist_ok=True)
    for part in journal.parent.glob(f"{journal.name}*"):
        if part.suffix not in (".lock", ".sqlite-shm"):
            shutil.copy(part, scratch)
    database = sqlite3.connect(scratch / journal.name)
    try:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        return Snapshot(
            dict(database.execute("SELECT id, status FROM instance")),
            set(database.execute("SELECT number, seq, event, step, body FROM entry")),
            {name: database.execute(sql).fetchone()[0] for name, sql in STATES.items()},
        )
    finally:
        database.close()


async def read_all(journal: Path, workflows: Iterable[str]) -> list[StoredInstance]:
    """Every instance, with the events that waits have taken back at their places."""
    opened = SqliteJournal(journal)
    await opened.open()
    try:
        rows = [
            row
            for name in workflows
            for row in await opened.rows(InstanceQuery(name, limit=10_000))
        ]
        loaded = await opened.load([row.creation.key for row in rows])
    finally:
        await opened.close()
    return [_whole(stored) for stored in loaded.values() if isinstance(stored, StoredInstance)]


def _whole(stored: StoredInstance) -> StoredInstance:
    waits: dict[StepKey | None, str] = {}
    entries = dict(stored.entries)
    for _, entry in stored.entries:
        match entry:
            case Entry(step=step, fact=facts.WaitStarted(event_type=event_type)):
                waits[step] = event_type
            case Entry(step=step, fact=facts.WaitCompleted() as taken):
                assert taken.event_seq not in entries, f"event {taken.event_seq} is taken twice"
                received = facts.EventReceived(waits[step], taken.payload)
                entries[taken.event_seq] = Entry(taken.received_ms, None, received)
            case _:
                pass
    assert sorted(entries) == list(range(1, len(entries) + 1)), "entries are missing"
    return stored._replace(entries=sorted(entries.items()))


def judge_by_the_laws(stored: list[StoredInstance]) -> None:
    """Hold the laws of the simulation against the journal."""
    trace = Trace()
    for row, entries, _ in stored:
        agreement_of_row(row, fold(row.creation, entries))
        lines = [EntryRow(row.number, seq, entry) for seq, entry in entries]
        trace.add(Committed(row.modified_ms, Commit(created=[row], entries=lines)))
    for law in LAWS:
        law(trace)


def read_effects(effects: Path) -> dict[str, list[Call]]:
    """What was called, by instance and in order."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for line in effects.read_text().splitlines():
        instance, step, attempt, what = line.split("\t")
        calls[instance].append((step, int(attempt), what))
    return calls


def judge_the_effects(stored: StoredInstance, calls: list[Call]) -> None:
    """No attempt was called twice, or unknown to the journal, or after the step had ended; handlers went backwards."""
    started, succeeded, undoing = _attempts_of(stored)
    order = list(started)
    last: dict[str, int] = {}
    ended: set[tuple[str, int]] = set()
    undone: Counter[str] = Counter()
    undo_from = len(order)
    for step, attempt, what in calls:
        where = f"{stored.row.creation.id}: {what} of attempt {attempt} of {step!r}"
        match what:
            case "start":
                assert attempt > last.get(step, 0), f"{where} comes after {last[step]}"
                assert attempt <= started[step], f"{where}, which the journal does not know"
                assert attempt <= succeeded.get(step, attempt), f"{where}: the step has ended"
                assert not undone, f"{where} comes after a handler"
                last[step] = attempt
            case "end":
                ended.add((step, attempt))
            case "undo":
                assert order.index(step) <= undo_from, f"{where} comes too late"
                undo_from = order.index(step)
                undone[step] += 1
                assert undone[step] <= undoing[step], f"{where}: too many calls"
            case _:
                pass
    for step, attempt in succeeded.items():
        assert (step, attempt) in ended, (
            f"{stored.row.creation.id}: {step} has a result from nowhere"
        )


def _attempts_of(stored: StoredInstance) -> tuple[Counter[str], dict[str, int], Counter[str]]:
    """By step, in order of their starts: attempts started, the attempt that succeeded, calls of the handler."""
    started: Counter[str] = Counter()
    succeeded: dict[str, int] = {}
    undoing: Counter[str] = Counter()
    for _, entry in stored.entries:
        match entry.step, entry.fact:
            case StepKey(name=name), facts.AttemptStarted(attempt=attempt):
                started[name] = attempt
            case StepKey(name=name), facts.AttemptSucceeded(attempt=attempt):
                succeeded[name] = attempt
            case StepKey(name=name), facts.RollbackAttemptStarted():
                undoing[name] += 1
            case _:
                pass
    return started, succeeded, undoing
