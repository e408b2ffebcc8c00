"""An instance that does not decode is reported as that, for as long as it is there."""

from __future__ import annotations

from collections.abc import Sequence

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.errors import InstanceNotFound, JournalCorrupt
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, StoredInstance
from tests.unit.bindings.project import Project, in_virtual_time, pause_for, refusal_of


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
