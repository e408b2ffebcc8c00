"""Retention: how long finished instances are kept, and how they go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DAY_MS, MAX_VALUE_BYTES
from emulator.domain.values import JsDict
from emulator.engine.turn import BYTES_PER_TURN
from emulator.errors import InstanceNotFound
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, HookQuery
from tests.unit.bindings.project import NAME, ONCE, Project, in_virtual_time, pause_for, refusal_of

DAY_S = DAY_MS / 1000
A_DAY = {"success_retention": "1 day", "error_retention": "1 day"}


async def work(event: JsDict, step: WorkflowStep) -> Any:
    """`payload` says what to do: nothing, `fail`, `wait` for a year at most, or `run` for two days."""
    match event["payload"]:
        case "fail":
            raise ValueError("as asked")
        case "wait":
            await step.wait_for_event("go", "go", timeout="365 days")
        case "run":

            @step.do("run", config={**ONCE, "timeout": "9 days"})
            async def run() -> None:
                await pause_for(2 * DAY_S)

            await run()
        case _:
            pass


class ObservedJournal(MemoryJournal):
    """Counts what it is asked, takes its time for a commit, and remembers how many instances each has removed."""

    def __init__(self, commit_s: float = 0) -> None:
        super().__init__()
        self.looks = 0
        self.removed: list[int] = []
        self._commit_s = commit_s

    async def commit(self, commit: Commit) -> None:
        await pause_for(self._commit_s)
        await super().commit(commit)
        if commit.deleted:
            self.removed.append(len(commit.deleted))

    async def expired(self, until_ms: int, limit: int) -> list[tuple[InstanceKey, int]]:
        self.looks += 1
        return await super().expired(until_ms, limit)


@in_virtual_time
async def test_a_finished_instance_goes_when_its_time_is_up_and_its_id_is_free() -> None:
    async with Project(work) as project:
        await project.outcome(id="a", retention=A_DAY)
        await pause_for(DAY_S - 1)
        assert (await project.handle("a").status())["status"] == "complete"
        await pause_for(2)
        assert isinstance(await refusal_of(project.workflow.get("a")), InstanceNotFound)
        assert await project.listed() == set()
        assert (await project.outcome(id="a", params="fail"))["status"] == "errored"


@in_virtual_time
async def test_success_covers_terminated_and_error_covers_errored() -> None:
    retention = {"success_retention": "1 day", "error_retention": "2 days"}
    async with Project(work) as project:
        await project.outcome(id="complete", retention=retention)
        await project.outcome(id="errored", params="fail", retention=retention)
        await project.workflow.create(id="terminated", params="wait", retention=retention)
        await project.handle("terminated").terminate()
        await pause_for(DAY_S + 2)
        assert await project.listed() == {"errored"}
        await pause_for(DAY_S)
        assert await project.listed() == set()


@in_virtual_time
async def test_an_instances_own_retention_precedes_its_workflows() -> None:
    async with Project(
        work, success_retention_ms=3 * DAY_MS, error_retention_ms=4 * DAY_MS
    ) as project:
        await project.outcome(id="own", retention={"successRetention": DAY_MS})
        await project.outcome(id="other", retention={"errorRetention": DAY_MS})
        await project.outcome(id="failed", params="fail")
        left: list[set[str]] = []
        for _ in range(4):
            await pause_for(DAY_S + 1)
            left.append(await project.listed())
    assert left == [{"other", "failed"}, {"other", "failed"}, {"failed"}, set()]


@in_virtual_time
async def test_without_any_setting_instances_are_kept_for_seven_days() -> None:
    async with Project(work) as project:
        await project.outcome(id="complete")
        await project.outcome(id="errored", params="fail")
        await pause_for(7 * DAY_S - 1)
        assert await project.listed() == {"complete", "errored"}
        await pause_for(2)
        assert await project.listed() == set()


@in_virtual_time
async def test_an_instance_that_has_not_ended_never_goes() -> None:
    async with Project(work, concurrency_limit=1) as project:
        await project.workflow.create(id="waits", params="wait", retention=A_DAY)
        await project.becomes("waits", "waiting")
        await project.workflow.create(id="paused", params="wait", retention=A_DAY)
        await project.handle("paused").pause()
        await project.workflow.create(id="runs", params="run", retention=A_DAY)
        await project.workflow.create(id="queued", params="wait", retention=A_DAY)
        await pause_for(1.5 * DAY_S)
        assert await project.listed() == {"waits", "paused", "runs", "queued"}
        await pause_for(60 * DAY_S)
        assert await project.listed() == {"waits", "paused", "queued"}


@in_virtual_time
async def test_a_restarted_instance_stays_and_its_time_counts_from_its_second_end() -> None:
    async with Project(work) as project:
        await project.outcome(id="a", params="run", retention=A_DAY)
        await pause_for(0.5 * DAY_S)
        await project.handle("a").restart()
        await project.ended("a")
        await pause_for(DAY_S - 10)
        assert await project.listed() == {"a"}
        await pause_for(20)
        assert await project.listed() == set()


@pytest.mark.parametrize("commit_s", [0, 0.004])
@in_virtual_time
async def test_of_a_restart_and_an_expiry_at_the_same_moment_one_wins(commit_s: float) -> None:
    """Whoever is restarted stays, whoever has expired is not found, and there is nothing between."""
    project = Project(work)
    project.journal = ObservedJournal(commit_s)
    async with project:
        ids = [f"i{number}" for number in range(400)]
        for start in range(0, 400, 100):
            batch = [{"id": each, "retention": A_DAY} for each in ids[start : start + 100]]
            for instance in await project.workflow.create_batch(batch):
                await project.ended(instance)
        await pause_for(DAY_S - 2)

        async def restart(number: int, instance_id: str) -> bool:
            await pause_for(number / 100)
            try:
                await project.handle(instance_id).restart()
            except InstanceNotFound:
                return False
            await project.ended(instance_id)
            return True

        stayed = await asyncio.gather(*(restart(*each) for each in enumerate(ids)))
        restarted = {each for each, stays in zip(ids, stayed, strict=True) if stays}
        assert 0 < len(restarted) < 400
        assert await project.listed() == restarted


@in_virtual_time
async def test_many_go_in_batches_between_which_others_go_on() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"] == "work":
            for _ in range(60):

                @step.do("work")
                async def work() -> None:
                    await pause_for(0.01)

                await work()

    journal = ObservedJournal()
    project = Project(run)
    project.journal = journal
    async with project:
        instances = [each for _ in range(10) for each in await create_hundred(project)]
        for instance in instances:
            await project.ended(instance)
        await pause_for(DAY_S - 0.1)
        began_ms = project.now_ms()
        await project.result(id="works", params="work")
        assert project.now_ms() - began_ms < 2 * 600
        await pause_for(5)
        assert await project.listed() == {"works"}
    assert sum(journal.removed) == 1_000
    assert max(journal.removed) == 100
    assert journal.removed[:3] == [1, 2, 4]  # they could be large


async def create_hundred(project: Project) -> Any:
    return await project.workflow.create_batch([{"retention": A_DAY}] * 100)


@in_virtual_time
async def test_a_start_in_the_middle_of_an_expiry_goes_on_with_it() -> None:
    journal = ObservedJournal()
    project = Project(work)
    project.journal = journal
    async with project:
        for instance in [each for _ in range(5) for each in await create_hundred(project)]:
            await project.ended(instance)
        await pause_for(DAY_S - 0.1)
        while not journal.removed:
            await pause_for(0.005)
        await project.restart()
        assert sum(journal.removed) < 500
        await pause_for(5)
        assert await project.listed() == set()


@in_virtual_time
async def test_what_expires_while_the_emulator_is_down_goes_at_the_next_start() -> None:
    async with Project(work) as project:
        await project.outcome(id="a", retention=A_DAY)
        await project.engine.close()
        await pause_for(2 * DAY_S)
        await project.restart()
        await pause_for(1)
        assert await project.listed() == set()


@in_virtual_time
async def test_keep_all_keeps_history_for_as_long_as_it_is_asked_for() -> None:
    async with Project(work, keep_all=True) as project:
        await project.outcome(id="a", retention=A_DAY)
        await pause_for(60 * DAY_S)
        await project.restart()
        await pause_for(DAY_S)
        assert await project.listed() == {"a"}
        project.keep_all = False
        await project.restart()
        await pause_for(1)
        assert await project.listed() == set()


@in_virtual_time
async def test_who_watches_an_instance_hears_that_it_has_expired() -> None:
    async with Project(work) as project:
        instance = await project.workflow.create(id="a", retention=A_DAY)
        await project.ended(instance)
        gone = project.becomes(instance, "queued")
        assert isinstance(await refusal_of(gone), InstanceNotFound)
        assert await project.listed() == set()


@in_virtual_time
async def test_nothing_is_looked_for_while_nothing_expires() -> None:
    journal = ObservedJournal()
    project = Project(work)
    project.journal = journal
    async with project:
        await project.outcome(id="a")
        await pause_for(1)
        before = journal.looks
        await pause_for(6 * DAY_S)
        assert journal.looks == before
        await pause_for(2 * DAY_S)
        after = journal.looks
        assert journal.removed == [1]
        await pause_for(30 * DAY_S)
        assert journal.looks == after


@in_virtual_time
async def test_what_is_left_of_a_token_goes_with_its_retention_though_its_instance_went_before() -> (
    None
):
    async with Project(work) as project:
        await project.outcome(hook={"token": "order"}, min_retention="5 days", retention=A_DAY)
        await pause_for(2 * DAY_S)
        assert await project.listed() == set()
        assert len(await project.journal.hooks(HookQuery())) == 1
        await pause_for(4 * DAY_S)
        assert await project.journal.hooks(HookQuery()) == []


@in_virtual_time
async def test_an_instance_may_expire_while_a_large_turn_has_put_its_restart_off() -> None:
    project = Project(work)
    project.journal = ObservedJournal(commit_s=1)
    async with project:
        other = await project.workflow.create(params="wait", retention=A_DAY)
        instance = await project.workflow.create(id="a", retention=A_DAY)
        await project.ended(instance)
        ended_ms = await project.engine.read(InstanceKey(NAME, "a"), lambda state: state.ended_ms)
        assert ended_ms is not None
        await pause_for(DAY_S - 0.5 - (project.engine.now_ms() - ended_ms) / 1000)
        large = "x" * (MAX_VALUE_BYTES - 1_000)
        too_much = range(2 * BYTES_PER_TURN // len(large))
        sends = [other.send_event(type="large", payload=large) for _ in too_much]
        *sent, refusal = await asyncio.gather(*sends, instance.restart(), return_exceptions=True)
        assert set(sent) == {None}
        assert isinstance(refusal, InstanceNotFound)
        assert (await project.workflow.create(id="a")).id == "a"
