"""An instance that does not decode is reported as that, for as long as it is there; a value in it that does not is its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

from bindings import WorkflowStep
from emulator.domain.entries import Entry, StepSucceeded
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.errors import InstanceNotFound, JournalCorrupt
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, StoredInstance
from tests.unit.bindings.project import ONCE, Project, in_virtual_time, pause_for, refusal_of

NONSENSE = msgspec.Raw(b'{"$type"')


class Damaged(MemoryJournal):
    """None of what it has decodes."""

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """Errors."""
        there = await self.existing(keys)
        return {key: JournalCorrupt("Entry 1 cannot be read.") for key in there}, len(keys)


@in_virtual_time
async def test_a_damaged_instance_that_has_been_removed_does_not_exist() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None: ...

    project = Project(run, max_live=0)
    project.journal = Damaged()
    async with project:
        instance = await project.workflow.create()
        await pause_for(1)
        assert isinstance(await refusal_of(instance.status()), JournalCorrupt)
        await project.journal.commit(Commit(deleted=[1]))
        assert isinstance(await refusal_of(instance.status()), InstanceNotFound)


class Nonsense(MemoryJournal):
    """The params of its instances, or the results of their steps, are no stored values."""

    def __init__(self, what: Literal["params", "result"]) -> None:
        super().__init__()
        self._what = what

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """What was stored, but for that."""
        found, many = await super().load_some(keys)
        return {key: self._spoilt(each) for key, each in found.items()}, many

    def _spoilt(self, stored: StoredInstance | JournalCorrupt) -> StoredInstance:
        assert isinstance(stored, StoredInstance)
        if self._what == "params":
            creation = replace(stored.row.creation, params=NONSENSE)
            return stored._replace(row=stored.row._replace(creation=creation))
        entries = [(seq, _spoilt_result(entry)) for seq, entry in stored.entries]
        return stored._replace(entries=entries)


def _spoilt_result(entry: Entry) -> Entry:
    fact = entry.fact
    if isinstance(fact, StepSucceeded):
        return replace(entry, fact=replace(fact, result=NONSENSE))
    return entry


@pytest.mark.parametrize("what", ["params", "result"])
@in_virtual_time
async def test_an_instance_with_a_value_that_is_none_fails_and_harms_no_other(
    what: Literal["params", "result"],
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def release() -> None: ...

        @step.do("reserve", rollback=release, rollback_config=ONCE)
        async def reserve() -> int:
            return 1

        await reserve()
        await step.sleep("nap", event["payload"])

    project = Project(run, max_live=0)
    project.journal = Nonsense(what)
    async with project:
        await project.workflow.create(id="damaged", params="1 hour")
        await project.becomes("damaged", "waiting")
        status = await project.ended("damaged")
        assert status["status"] == "errored"
        assert status["error"]["message"].startswith("A stored value does not decode")
        assert status["rollback"]["outcome"] == "failed"
        assert await project.result(params=0) is None
