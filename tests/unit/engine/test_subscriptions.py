"""Following the events of an instance while its journal changes under the reader's eyes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.engine.subscription import Subscription
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import InstanceRow
from emulator.projection.events import event_filter
from tests.unit.bindings.project import NAME, Project, in_virtual_time


class Changing(MemoryJournal):
    """Something happens right after the next look at a row."""

    then: Callable[[], Awaitable[object]] | None = None

    async def row(self, key: InstanceKey) -> InstanceRow | None:
        """One instance's row, as it was."""
        row = await super().row(key)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return row


@in_virtual_time
async def test_no_event_is_told_with_the_params_of_a_former_instance() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None: ...

    async def replace() -> None:
        await instance.delete()
        await project.ended(await project.workflow.create(id="a", params=2))

    project = Project(run)
    project.journal = journal = Changing()
    async with project:
        instance = await project.workflow.create(id="a", params=1)
        await project.ended(instance)
        journal.then = replace
        wanted = event_filter(types=["workflow_started"])
        reader = Subscription(project.engine, InstanceKey(NAME, "a"), wanted)
        assert [event["params"] for event in await reader.more()] == [2]
