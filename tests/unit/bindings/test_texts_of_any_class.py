"""Texts and numbers of classes of the user's, such as members of an `Enum`: the engine takes them for what they are.

What the journal's text says is what the next life of the engine finds.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

import pytest
from msgspec import Raw

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, EntryRow, InstanceQuery
from emulator.journal.rows import (
    commit_to_columns,
    entry_from_row,
    entry_to_row,
    from_json,
    to_json,
)
from tests.unit.bindings.project import NAME, Project, in_virtual_time


class Word(str, Enum):  # noqa: UP042 - the kind that prints as something else than it is
    """As people write them who support old Pythons."""

    CHARGE = "charge"
    PAID = "paid"
    LINEAR = "linear"
    FIRST = "first"
    MINUTE = "1 minute"


class Number(IntEnum):
    """Numbers of a class."""

    TWO = 2


class Length(float):
    """A number with a unit, say."""


class AsText(MemoryJournal):
    """A journal in memory that has of everything what its text says, as one in a file has."""

    async def commit(self, commit: Commit) -> None:
        """See `Journal.commit`."""
        to_json(commit_to_columns(commit))
        commit.entries[:] = [_read_back(row) for row in commit.entries]
        await super().commit(commit)


def _read_back(row: EntryRow) -> EntryRow:
    stored = from_json(to_json(entry_to_row(row)), tuple[int, int, int, int, str | None, Raw])
    *columns, body = stored
    key = InstanceKey(NAME, "")
    entry = entry_from_row((*columns, bytes(body).decode()), key)  # pyright: ignore[reportArgumentType]
    return EntryRow(row.number, row.seq, entry)


class TextProject(Project):
    """A project with such a journal."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.journal = AsText()


@in_virtual_time
async def test_a_text_of_another_class_is_the_text() -> None:
    charged: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        config = {
            "retries": {"limit": Number.TWO, "delay": Length(1_000), "backoff": Word.LINEAR},
            "timeout": Word.MINUTE,
        }

        @step.do(Word.CHARGE, config=config, rollback=undo, rollback_config=config)
        async def charge(ctx: JsDict) -> Any:
            charged.append(project.now_ms())
            if len(charged) < 3:
                raise OSError
            return ctx

        step.create_hook(token=Word.FIRST)
        await step.set_attributes({Word.PAID: Word.FIRST})
        done = await charge()
        await step.get_writable(Word.FIRST).write(1)
        await step.sleep(Word.MINUTE, Word.MINUTE)
        answer = await step.wait_for_event(Word.PAID, Word.PAID)
        return [done.step.name, done.config, answer.type, answer.payload]

    async def undo() -> None:
        """Never called."""

    async with TextProject(run) as project:
        first = await project.workflow.create(id=Word.FIRST, attributes={Word.CHARGE: Word.PAID})
        assert first.id == "first"
        await project.becomes("first", "waiting")
        await project.restart()
        await (await project.workflow.get(Word.FIRST)).send_event(type=Word.PAID, payload=1)
        name, config, answered, payload = (await project.ended("first"))["output"]
        assert (name, answered, payload) == ("charge", "paid", 1)
        retries = {"limit": 2, "delay": 1_000, "backoff": "linear"}
        assert config == {"retries": retries, "timeout": "1 minute"}
        one, two, three = charged
        assert (two - one, three - two) == (1_000, 2_000)
        [row] = await project.engine.journal.rows(InstanceQuery(NAME, limit=9))
        assert row.attributes == {"charge": "paid", "paid": "first"}


@pytest.mark.parametrize("timeout", [2**54, 2**63, 10**30, 1e300, "1000000 years"])
@in_virtual_time
async def test_the_longest_timeouts_are_for_ever(timeout: Any) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("patient", config={"timeout": timeout})
        async def patient() -> int:
            return 1

        return await patient()

    async with TextProject(run) as project:
        assert await project.result() == 1


class Token(str):
    """A text that no encoder knows."""

    __slots__ = ()


@in_virtual_time
async def test_so_is_a_reason_and_the_step_from_which_to_restart() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.do(Word.CHARGE)(lambda: calls.append(1))()
        await step.sleep("nap", "1 hour")

    calls: list[int] = []
    async with TextProject(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await instance.restart(from_={"name": Word.CHARGE})
        await project.becomes(instance, "waiting")
        assert len(calls) == 2
        await instance.run.cancel(Token("enough"))
        assert (await project.ended(instance))["status"] == "terminated"
