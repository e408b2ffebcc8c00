"""Hooks in a file: what a delete leaves, what happens to one that is older than they are, and secrets."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import Entry, EventReceived, StepStarted, WorkflowQueued
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import (
    Commit,
    EntryRow,
    HookQuery,
    InstanceRow,
    Journal,
    StoredInstance,
    TimerRow,
)
from emulator.journal.schema import MIGRATIONS
from emulator.journal.sqlite import SqliteJournal

KEY = InstanceKey("orders", "1")
CREATION = Creation("orders", "1", msgspec.Raw(b'{"a":1}'), 5, parent="orders/0/mark")
ROW = InstanceRow(1, CREATION, InstanceStatus.QUEUED, 5)
HOOK = HookRecord("hook_1", "orders", "1", "order:1", 5, msgspec.Raw(b'{"m":1}'), 99)
TOKEN = TokenKey("", "order:1")
STEP = StepKey(StepKind.DO, "charge", 1)
CONFIG = StepConfig(RetryConfig(1, 100), 1_000)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest) -> Journal:
    return MemoryJournal() if request.param == "memory" else SqliteJournal(":memory:")


async def test_a_delete_leaves_a_token_to_what_the_commit_says_of_it(journal: Journal) -> None:
    await journal.open()
    retained = replace(HOOK, stage=HookStage.RETAINED)
    await journal.commit(Commit(created=[ROW], hooks={"hook_1": HOOK}))
    await journal.commit(Commit(hooks={"hook_1": retained}))
    await journal.commit(Commit(deleted=[1]))
    assert await journal.existing([KEY]) == set()
    assert await journal.holders([TOKEN]) == {TOKEN: retained}
    await journal.commit(Commit(created=[ROW._replace(number=2)]))
    released = replace(HOOK, stage=HookStage.RELEASED)
    await journal.commit(Commit(deleted=[2], hooks={"hook_1": released}))
    assert await journal.holders([TOKEN]) == {}
    assert await journal.hooks(HookQuery()) == []
    await journal.close()


async def test_what_is_forgotten_is_what_was_retained_and_is_over(journal: Journal) -> None:
    await journal.open()
    live = replace(HOOK, hook_id="hook_2", token="b", retain_until_ms=1)
    for_ever = replace(HOOK, hook_id="hook_3", token="c", retain_until_ms=None)
    retained = replace(HOOK, stage=HookStage.RETAINED)
    hooks = {hook.hook_id: hook for hook in (retained, live, for_ever)}
    await journal.commit(Commit(hooks=hooks))
    for until_ms, left in ((98, 3), (99, 2), (2**53, 2)):
        await journal.forget_tokens(until_ms)
        assert len(await journal.hooks(HookQuery())) == left
    await journal.close()


async def test_a_file_of_the_first_format_gets_hooks_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    old = sqlite3.connect(path)
    old.executescript(f"{MIGRATIONS[0]}\nPRAGMA user_version = 1;")
    old.execute(
        "INSERT INTO instance (number, workflow, id, status, created_ms, modified_ms, waking, source, params)"
        " VALUES (1, 'orders', '1', 'waiting', 5, 6, 0, 'binding', '{\"a\":1}')"
    )
    body = msgspec.json.encode(StepStarted(CONFIG)).decode()
    old.execute("INSERT INTO entry VALUES (1, 1, 0, 5, NULL, '{}')")
    old.execute("INSERT INTO entry VALUES (1, 2, 5, 6, 'charge-1', ?)", [body])
    old.execute("INSERT INTO mailbox VALUES (1, 3, 6, 'paid', '7', NULL)")
    old.execute("INSERT INTO timer VALUES (1, 'do', 'charge-1', 50)")
    old.commit()
    old.close()
    journal = SqliteJournal(path)
    await journal.open()
    stored = (await journal.load([KEY]))[KEY]
    assert isinstance(stored, StoredInstance)
    assert stored.row.creation == replace(CREATION, parent=None)
    assert stored.row.status is InstanceStatus.WAITING
    assert stored.entries == [
        (1, Entry(5, None, WorkflowQueued())),
        (2, Entry(6, STEP, StepStarted(CONFIG))),
        (3, Entry(6, None, EventReceived("paid", msgspec.Raw(b"7")))),
    ]
    assert await journal.due(50, 9) == [(KEY, TimerRow(1, STEP, 50))]
    assert await journal.hooks(HookQuery()) == []
    await journal.commit(
        Commit(
            entries=[EntryRow(1, 4, Entry(7, STEP, StepStarted(CONFIG)))], hooks={"hook_1": HOOK}
        )
    )
    await journal.close()
    await journal.open()
    assert await journal.holders([TOKEN]) == {TOKEN: HOOK}
    await journal.close()


async def test_every_file_has_a_secret_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    seeds: list[str] = []
    for name in ("a", "b", "a"):
        journal = SqliteJournal(tmp_path / f"{name}.db")
        await journal.open()
        seeds.append(await journal.seed())
        await journal.close()
    assert seeds[0] == seeds[2] != seeds[1]
    assert len(seeds[0]) == 64


async def test_a_token_has_one_row_whatever_a_commit_says(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    for number in range(3):
        await journal.commit(Commit(hooks={"h": replace(HOOK, hook_id=f"hook_{number}")}))
    other = replace(HOOK, hook_id="hook_x", instance_id="tenant:1")
    await journal.commit(Commit(hooks={"hook_x": other}))
    assert [hook.hook_id for hook in await journal.hooks(HookQuery())] == ["hook_2", "hook_x"]
    await journal.close()
