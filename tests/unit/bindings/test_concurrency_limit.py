"""`concurrency.limit`: who runs, who stands in the queue, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import Project, in_virtual_time, pause_for


def worker(log: list[str]) -> Any:
    """`params` says what to do, one after the other: `work` for ten seconds, `sleep` for a minute, `wait`."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for what in event["payload"]:
            match what:
                case "work":

                    @step.do("work")
                    async def work() -> None:
                        log.append(event.instanceId)
                        await pause_for(10)

                    await work()
                case "sleep":
                    await step.sleep("nap", "1 minute")
                case _:
                    await step.wait_for_event("go", "go")

    return run


async def statuses(project: Project, *ids: str) -> list[str]:
    return [(await project.handle(each).status())["status"] for each in ids]


@in_virtual_time
async def test_new_instances_run_first_come_first_served() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=2) as project:
        ids = [f"i{number}" for number in range(6)]
        await project.workflow.create_batch([{"id": each, "params": ["work"]} for each in ids])
        await pause_for(1)
        assert await statuses(project, *ids) == ["running"] * 2 + ["queued"] * 4
        began_ms = project.now_ms() - 1_000
        await project.ended("i5")
        assert log == ids
        assert project.now_ms() - began_ms == 30_000


@in_virtual_time
async def test_instances_that_rest_leave_their_slots_to_others() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=2) as project:
        began_ms = project.now_ms()
        instances = [
            await project.workflow.create(params=["work", "sleep", "work"]) for _ in range(10)
        ]
        for instance in instances:
            await project.ended(instance)
        # Ten times twenty seconds of work on two slots; of the minute's rest nearly all is hidden behind it.
        assert project.now_ms() - began_ms <= 131_000


@pytest.mark.parametrize("max_live", [0, 1_000])
@in_virtual_time
async def test_who_wakes_goes_before_who_is_new(max_live: int) -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1, max_live=max_live) as project:
        await project.workflow.create(id="sleeper", params=["sleep", "work"])
        await project.workflow.create(id="waiter", params=["wait", "work"])
        await project.becomes("sleeper", "waiting")
        await project.becomes("waiter", "waiting")
        await pause_for(54)
        for number in range(3):
            await project.workflow.create(id=f"new{number}", params=["work"])
        await pause_for(8)
        await project.handle("waiter").send_event(type="go")
        await pause_for(1)
        assert await statuses(project, "sleeper", "waiter", "new0", "new1") == [
            "queued",
            "queued",
            "running",
            "queued",
        ]
        await project.ended("new2")
        assert log == ["new0", "sleeper", "waiter", "new1", "new2"]


@in_virtual_time
async def test_the_queue_survives_a_restart_in_its_order() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        for number in range(4):
            await project.workflow.create(id=f"i{number}", params=["work"])
        await pause_for(5)
        await project.restart()
        await project.ended("i3")
        assert log == ["i0", "i0", "i1", "i2", "i3"]


@in_virtual_time
async def test_who_leaves_the_queue_is_not_waited_for() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        for number in range(5):
            await project.workflow.create(id=f"i{number}", params=["work"])
        await project.handle("i1").terminate()
        await project.handle("i2").delete()
        await project.handle("i3").pause()
        await project.ended("i4")
        assert log == ["i0", "i4"]
        await project.handle("i3").resume()
        await project.ended("i3")
        assert log == ["i0", "i4", "i3"]
        assert (await project.handle("i1").status())["status"] == "terminated"


@pytest.mark.parametrize("ending", ["terminate", "pause", "delete"])
@in_virtual_time
async def test_a_slot_is_free_when_its_holder_is_stopped(ending: str) -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        await project.workflow.create(id="first", params=["work", "work"])
        await project.workflow.create(id="second", params=["work"])
        await pause_for(5)
        await getattr(project.handle("first"), ending)()
        assert (await project.ended("second"))["status"] == "complete"
        assert log == ["first", "second"]


@in_virtual_time
async def test_a_restarted_instance_stands_at_the_end_of_the_queue() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        await project.workflow.create(id="first", params=["work"])
        await project.ended("first")
        await project.workflow.create(id="second", params=["work"])
        await project.workflow.create(id="third", params=["work"])
        await project.handle("first").restart()
        assert (await project.handle("first").status())["status"] == "queued"
        await project.ended("first")
        assert log == ["first", "second", "third", "first"]


@in_virtual_time
async def test_five_hundred_creates_sends_and_questions_at_once_all_come_to_an_end() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first = (await step.wait_for_event("first", "n"))["payload"]
        second = (await step.wait_for_event("second", "n"))["payload"]
        return [event["payload"], first, second]

    async with Project(run, max_live=50) as project:

        async def drive(number: int) -> None:
            instance = await project.workflow.create(id=f"i{number}", params=number)
            await asyncio.gather(
                instance.send_event(type="n", payload=1),
                instance.send_event(type="n", payload=2),
                instance.status(),
            )
            assert (await project.ended(instance))["output"] == [number, 1, 2]

        await asyncio.gather(*(drive(number) for number in range(500)))
        assert len(await project.listed()) == 500


@in_virtual_time
async def test_of_many_who_want_one_id_one_gets_it() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return event["payload"]

    async with Project(run) as project:
        answers = await asyncio.gather(
            *(project.workflow.create(id="one", params=number) for number in range(50)),
            return_exceptions=True,
        )
        assert sum(not isinstance(answer, Exception) for answer in answers) == 1
        winner = next(n for n, answer in enumerate(answers) if not isinstance(answer, Exception))
        assert (await project.ended("one"))["output"] == winner
