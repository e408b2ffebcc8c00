"""Rules with numbers: an instance goes on by the rules that it was created under."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.core import decide, sleeps
from emulator.core.decision import Decision
from emulator.core.inputs import SleepRequested
from emulator.core.state import InstanceState
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.logic import CURRENT_LOGIC, LOGIC
from emulator.domain.status import InstanceStatus
from emulator.engine.engine import Engine
from emulator.engine.programs import RunEvent, WorkflowDefinition
from emulator.engine.steps import StepContext
from emulator.errors import InstanceTooNew
from emulator.journal.archive import from_document, to_document
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import InstanceQuery, InstanceRow, StoredInstance
from emulator.journal.schema import MIGRATIONS
from emulator.journal.sqlite import SqliteJournal
from emulator.testing.clock import LoopClock
from tests.unit.bindings.project import in_virtual_time

NEXT = CURRENT_LOGIC + 1
NULL = msgspec.Raw(b"null")
NAP_MS = 3_600_000


class Sleeper:
    """Sleeps twice, an hour each time."""

    async def run(self, event: RunEvent, step: StepContext) -> object:
        for _ in range(2):
            await step.sleep("nap", NAP_MS)
        return None


def engine_over(journal: MemoryJournal) -> Engine:
    return Engine(journal, LoopClock(), [WorkflowDefinition("sleeper", Sleeper)], max_live=0)


def created(name: str, engine: Engine, logic: int = CURRENT_LOGIC) -> Creation:
    return Creation("sleeper", name, NULL, engine.now_ms(), logic=logic)


def ended_ms(state: InstanceState) -> int | None:
    return state.ended_ms


def sleep_by_number(decision: Decision, request: SleepRequested) -> None:
    """The planted rule: from the next number on every sleep takes twice as long."""
    assert request.duration_ms is not None
    if decision.state.creation.logic >= NEXT:
        request = msgspec.structs.replace(request, duration_ms=2 * request.duration_ms)
    sleeps.sleep_requested(decision, request)


def test_numbers_are_counted_without_gaps_from_the_first_release() -> None:
    assert list(LOGIC) == list(range(1, CURRENT_LOGIC + 1))


@in_virtual_time
async def test_old_instances_go_on_by_the_old_rules_and_new_ones_by_the_new() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal)
    await engine.start()
    old = created("old", engine)
    await engine.create([old], may_be_taken=True)
    await engine.until(old.key, lambda state: state.status == "waiting" or None)
    await engine.close()

    with pytest.MonkeyPatch.context() as upgrade:
        requests: Any = vars(decide)["_REQUESTS"]
        upgrade.setitem(requests, SleepRequested, sleep_by_number)
        upgrade.setattr("emulator.engine.recovery.CURRENT_LOGIC", NEXT)
        engine = engine_over(journal)
        await engine.start()
        new = created("new", engine, NEXT)
        await engine.create([new], may_be_taken=True)
        for creation, hours in ((old, 2), (new, 4)):
            took_ms = await engine.until(creation.key, ended_ms) - creation.created_ms
            assert round(took_ms / NAP_MS) == hours
        await engine.close()


@in_virtual_time
async def test_an_instance_of_a_later_version_is_left_alone_and_named() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal)
    await engine.start()
    later, ours = created("later", engine, NEXT), created("ours", engine)
    await engine.create([later, ours], may_be_taken=True)
    await engine.close()
    before = await journal.load([later.key])

    engine = engine_over(journal)
    await engine.start()
    with pytest.raises(InstanceTooNew, match=f'"later".*logic {NEXT}.*up to {CURRENT_LOGIC}'):
        await engine.read(later.key, lambda state: state.status)
    await engine.until(ours.key, ended_ms)
    assert len(await journal.rows(InstanceQuery("sleeper"))) == 2, "listings show it"
    await engine.close()
    assert await journal.load([later.key]) == before


async def test_instances_from_before_the_numbers_count_as_the_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(MIGRATIONS[0] + "PRAGMA user_version = 1;")
        old.execute(
            "INSERT INTO instance (workflow, id, status, created_ms, modified_ms, waking, source, params) "
            "VALUES ('orders', '1', 'complete', 5, 5, 0, 'binding', 'null')"
        )
    old.close()
    journal = SqliteJournal(path)
    await journal.open()
    row = await journal.row(InstanceKey("orders", "1"))
    assert row is not None
    assert (row.creation.logic, row.creation.code) == (1, None)
    await journal.close()


def test_a_journal_as_a_document_keeps_its_number_and_its_code() -> None:

    creation = Creation("orders", "acme:1", NULL, 0, code="abc", logic=NEXT)
    stored = StoredInstance(InstanceRow(1, creation, InstanceStatus.QUEUED, 0), [])
    assert from_document(to_document(stored), "here") == stored
    without = msgspec.json.decode(to_document(stored))
    del without["code"], without["logic"]
    assert from_document(msgspec.json.encode(without), "here").row.creation.logic == 1
