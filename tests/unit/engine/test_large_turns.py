"""What a turn takes when what has arrived is large: as much as fits, the rest in the turns after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_VALUE_BYTES
from emulator.domain.values import JsDict
from emulator.engine.turn import BYTES_PER_TURN
from emulator.errors import JournalCorrupt
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, StoredInstance
from tests.unit.bindings.project import NAME, Project, in_virtual_time, pause_for

MANY = 40
LARGE = "x" * (MAX_VALUE_BYTES - 1_000)


class Measured(MemoryJournal):
    """A journal that notes what each commit has, and loads as few instances at once as a journal may."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes_bytes: list[int] = []

    async def commit(self, commit: Commit) -> None:
        """Note how large it is: what it creates, results and payloads."""
        values = [row.creation.params for row in commit.created]
        facts = [row.entry.fact for row in commit.entries]
        values += [
            getattr(fact, name, None) or b"" for fact in facts for name in ("result", "payload")
        ]
        self.sizes_bytes.append(sum(map(len, values)))
        await super().commit(commit)

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """One."""
        return await self.load(keys[:1]), 1


async def _echo(event: JsDict, step: WorkflowStep) -> Any:
    await step.sleep("until all are there", "1 hour")
    sent = await step.wait_for_event("sent", "sent")

    @step.do("echo")
    async def echo() -> Any:
        return sent["payload"]

    return await echo()


@in_virtual_time
async def test_large_values_that_come_together_are_written_in_several_commits() -> None:
    project = Project(_echo, max_live=0)
    project.journal = journal = Measured()
    async with project:
        made = await asyncio.gather(
            *(project.workflow.create(params={"pad": LARGE}) for _ in range(MANY))
        )
        sends = [instance.send_event(type="sent", payload=LARGE) for instance in made]
        await asyncio.gather(*sends)
        for instance in made:
            status = await project.ended(instance)
            assert (status["status"], status["output"]) == ("complete", LARGE)
    assert sum(journal.sizes_bytes) > 5 * MANY * len(LARGE)
    assert max(journal.sizes_bytes) < BYTES_PER_TURN + 3 * MAX_VALUE_BYTES


@in_virtual_time
async def test_the_order_is_kept_though_instances_are_loaded_one_by_one() -> None:
    async def collect(event: JsDict, step: WorkflowStep) -> list[int]:
        await step.sleep("a while", "1 hour")
        return [(await step.wait_for_event(f"{n}", "sent"))["payload"] for n in range(4)]

    project = Project(collect, max_live=0)
    project.journal = Measured()
    async with project:
        made = [await project.workflow.create(id=f"i{n}") for n in range(MANY)]
        await pause_for(60)
        await asyncio.gather(
            *(each.send_event(type="sent", payload=n) for n in range(4) for each in made),
            *(project.workflow.create(id=f"j{n}") for n in range(MANY)),
        )
        for each in made:
            assert (await project.ended(each))["output"] == [0, 1, 2, 3]
        assert len(await project.listed()) == 2 * MANY


@in_virtual_time
async def test_all_that_ran_are_taken_up_though_they_are_loaded_one_by_one() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> int:
        @step.do("one")
        async def one() -> int:
            await pause_for(5)
            return 1

        return await one()

    project = Project(run)
    project.journal = Measured()
    async with project:
        for n in range(MANY):
            await project.workflow.create(id=f"{n}")
        await project.crash()
        for n in range(MANY):
            assert (await project.ended(f"{n}"))["output"] == 1
        assert await project.journal.status_counts(NAME) == {"complete": MANY}
