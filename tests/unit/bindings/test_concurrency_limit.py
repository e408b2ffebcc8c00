"""`concurrency.limit`: who runs, who stands in the queue, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.status import InstanceStatus
from emulator.domain.values import JsDict
from emulator.engine import admission
from tests.unit.bindings.project import Project, in_virtual_time, pause_for


@pytest.fixture(autouse=True, params=[1, 2, 1_000])
def head_keys(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How much of the queue is in memory, which changes nothing."""
    monkeypatch.setattr(admission, "HEAD_KEYS", request.param)
    return request.param


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


@in_virtual_time
async def test_only_the_head_of_the_queue_is_in_memory(head_keys: int) -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        ids = [f"i{number}" for number in range(1_500)]
        for start in range(0, 1_500, 100):
            batch = [{"id": each, "params": ["work"]} for each in ids[start : start + 100]]
            await project.workflow.create_batch(batch)
        queue = project.engine._admissions["orders"]  # pyright: ignore[reportPrivateUsage]
        assert len(queue._new.head) == head_keys  # pyright: ignore[reportPrivateUsage]
        counts = await project.journal.status_counts("orders")
        assert counts == {"running": 1, "queued": 1_499}
        await project.ended(ids[-1])
        assert log == ids


@in_virtual_time
async def test_many_who_wake_at_once_are_served_first_and_in_their_order() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1, max_live=0) as project:
        sleepers = [f"sleeper{number}" for number in range(9)]
        for each in sleepers:
            await project.workflow.create(id=each, params=["sleep", "work"])
            await project.becomes(each, "waiting")
        await pause_for(55)
        new = [f"new{number}" for number in range(9)]
        await project.workflow.create_batch([{"id": each, "params": ["work"]} for each in new])
        await pause_for(7)
        await project.restart()
        await project.ended("new8")
        # The one that ran at the restart goes on first, for it held the slot.
        assert log == ["new0", "new0", *sleepers, *new[1:]]


@in_virtual_time
async def test_who_is_stopped_at_the_moment_of_his_turn_passes_it_on() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=1) as project:
        for number in range(6):
            await project.workflow.create(id=f"i{number}", params=["work"])
        await pause_for(1)
        # The end of the first is decided before the rest, which finds a slot granted to the second.
        await asyncio.gather(
            project.handle("i0").terminate(),
            project.handle("i1").pause(),
            project.handle("i1").resume(),
            project.handle("i2").delete(),
            project.handle("i3").send_event(type="go"),
        )
        running = await project.journal.status_counts("orders")
        assert running.get(InstanceStatus.RUNNING, 0) <= 1
        for number in (1, 3, 4, 5):
            await project.ended(f"i{number}")
        assert sorted(log) == ["i0", "i1", "i3", "i4", "i5"]


@in_virtual_time
async def test_a_limit_that_is_lifted_lets_all_in_and_one_that_is_lowered_holds() -> None:
    log: list[str] = []
    async with Project(worker(log), concurrency_limit=3) as project:
        ids = [f"i{number}" for number in range(8)]
        await project.workflow.create_batch([{"id": each, "params": ["work"]} for each in ids])
        await project.restart(concurrency_limit=2)
        await pause_for(1)
        assert (await project.journal.status_counts("orders"))[InstanceStatus.RUNNING] == 2
        await project.restart(concurrency_limit=None)
        await pause_for(1)
        assert await project.journal.status_counts("orders") == {"running": 8}
        for each in ids:
            await project.ended(each)


@in_virtual_time
async def test_an_instance_that_will_try_again_gives_its_slot_away() -> None:
    tried: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fragile", config={"retries": {"limit": 1, "delay": "1 hour"}})
        async def fragile(ctx: JsDict) -> None:
            tried.append(event.instanceId)
            if event.instanceId == "first" and ctx.attempt == 1:
                raise OSError

        await fragile()

    async with Project(run, concurrency_limit=1) as project:
        await project.workflow.create(id="first")
        await project.workflow.create(id="second")
        await project.ended("second")
        assert await statuses(project, "first") == ["waiting"]
        await project.ended("first")
        assert tried == ["first", "second", "first"]


@in_virtual_time
async def test_so_does_one_that_comes_back_to_a_step_it_had_cancelled() -> None:
    """A race that it wins in its first life, and not after a restart from the other branch."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event.instanceId == "second":
            return

        @step.do("fragile", config={"retries": {"limit": 5, "delay": "1 hour"}})
        async def fragile() -> None:
            raise OSError

        racing = {asyncio.ensure_future(fragile())}
        racing.add(asyncio.ensure_future(step.wait_for_event("go", "go")))
        _, losers = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
        for loser in losers:
            loser.cancel()
        await step.sleep("afterwards", "10 hours")

    async with Project(run, concurrency_limit=1) as project:
        first = await project.workflow.create(id="first")
        await project.becomes("first", "waiting")
        await first.send_event(type="go")
        await pause_for(2 * 3_600)
        await first.restart(from_={"name": "go", "type": "waitForEvent"})
        await pause_for(1)
        await project.workflow.create(id="second")
        await pause_for(1)
        assert await statuses(project, "first", "second") == ["waiting", "complete"]
