"""asyncio in user code: timeouts, races, task groups, swallowed cancellations, steps that nobody awaits."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import EngineStopped, StepError, WorkflowTimeoutError
from tests.unit.bindings.project import (
    ONCE,
    Project,
    in_virtual_time,
    pause_for,
    refusal_of,
)

BOTH_MEMORIES = pytest.mark.parametrize("max_live", [0, 1_000])


def napping(step: WorkflowStep, name: str, seconds: float) -> Awaitable[Any]:
    """A step that takes a while and returns its name."""

    @step.do(name)
    async def nap() -> str:
        await pause_for(seconds)
        return name

    return nap()


@BOTH_MEMORIES
@pytest.mark.parametrize("ending", ["terminate", "pause", "restart", "delete"])
@in_virtual_time
async def test_code_that_swallows_its_cancellation_achieves_nothing(
    ending: str, max_live: int, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[None] = []
    bodies: list[None] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        lives.append(None)
        if ending == "restart" and len(lives) == 2:
            return "second life"
        while True:
            rounds.append(None)
            assert len(rounds) < 10_000, "it spins"
            try:
                await step.sleep("nap", "1 hour")
                await step.do("more")(lambda: bodies.append(None))()
            except BaseException:
                pass

    lives: list[None] = []
    async with Project(run, max_live=max_live) as project:
        instance = await project.workflow.create()
        await pause_for(60)
        await getattr(instance, ending)()
        after = await project.history(instance) if ending != "delete" else []
        await pause_for(86_400)
        if ending == "delete":
            assert await project.listed() == set()
        else:
            status = await instance.status()
            expected = {"terminate": "terminated", "pause": "paused", "restart": "complete"}
            assert status["status"] == expected[ending]
            if ending != "restart":
                assert await project.history(instance) == after
        assert bodies == []
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


STUBBORN = """
import asyncio

from bindings import Workflow, WorkflowEntrypoint
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from emulator.domain.instance import InstanceKey
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.memory import MemoryJournal
from emulator.timing.clock import SystemClock


class Stubborn(WorkflowEntrypoint):
    async def run(self, event, step):
        while True:
            try:
                await step.sleep("nap", "1 hour")
            except BaseException:
                pass


async def main():
    definition = WorkflowDefinition("w", program_of(Stubborn, None, None))
    engine = Engine(MemoryJournal(), SystemClock(), [definition])
    await engine.start()
    instance = await Workflow(EngineHost(engine), "w").create(id="a")
    await engine.until(InstanceKey("w", "a"), lambda state: state.status == "waiting" or None)
    await instance.terminate()
    await engine.close()


asyncio.run(main())
"""


def test_a_process_ends_though_code_swallows_everything() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STUBBORN], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("delay_ms", range(0, 120, 7))
@in_virtual_time
async def test_a_terminated_run_starts_no_step_wherever_it_was(delay_ms: int) -> None:
    log: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        while True:
            try:
                await asyncio.wait_for(napping(step, "work", 0.01), 1)
                async with asyncio.timeout(0):
                    await step.sleep("nap", 10)
            except TimeoutError:
                log.append(project.now_ms())

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(delay_ms / 1000)
        await instance.terminate()
        history, ended = await project.history(instance), len(log)
        await pause_for(60)
        assert (await instance.status())["status"] == "terminated"
        assert await project.history(instance) == history
        assert len(log) == ended


@in_virtual_time
async def test_wait_for_and_timeout_bound_a_step() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        results: list[Any] = [await asyncio.wait_for(napping(step, "quick", 1), 5)]
        for slow in (
            lambda: step.sleep("long", "1 hour"),
            lambda: step.wait_for_event("never", "never"),
            lambda: napping(step, "slow", 60),
        ):
            with pytest.raises(TimeoutError) as caught:
                await asyncio.wait_for(slow(), 5)
            assert not isinstance(caught.value, WorkflowTimeoutError)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await step.sleep("long", "1 hour")
        async with asyncio.timeout(50):
            results.append(await napping(step, "last", 1))
        return results

    async with Project(run) as project:
        assert await project.result() == ["quick", "last"]


@BOTH_MEMORIES
@in_virtual_time
async def test_gather_wait_and_task_groups_run_steps_at_once(max_live: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        gathered = await asyncio.gather(*(napping(step, "same", 3 - n) for n in range(3)))
        await step.sleep("nap", "1 hour")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(_of(napping(step, "a", 2)))
            second = group.create_task(_of(napping(step, "b", 1)))
        tasks = [asyncio.create_task(_of(napping(step, name, 1))) for name in "cd"]
        done, pending = await asyncio.wait(tasks)
        assert not pending
        return [*gathered, first.result(), second.result(), sorted(task.result() for task in done)]

    async with Project(run, max_live=max_live) as project:
        began_ms = project.now_ms()
        assert await project.result() == ["same", "same", "same", "a", "b", ["c", "d"]]
        assert (project.now_ms() - began_ms) // 1000 in (3_606, 3_607)


async def _of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@BOTH_MEMORIES
@in_virtual_time
async def test_a_failure_in_a_task_group_cancels_the_others(max_live: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config=ONCE)
        async def fails() -> None:
            await pause_for(1)
            raise LookupError("no")

        errors: list[str] = []
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_of(step.sleep("long", "1 day")))
                group.create_task(_of(fails()))
        except* StepError as caught:
            errors += [str(error) for error in caught.exceptions]
        await step.sleep("nap", "1 hour")
        return errors

    async with Project(run, max_live=max_live) as project:
        began_ms = project.now_ms()
        assert await project.result() == ["no"]
        assert project.now_ms() - began_ms < 2 * 3_600_000


@BOTH_MEMORIES
@in_virtual_time
async def test_the_loser_of_a_race_is_dropped_when_run_returns(max_live: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        racers = [
            asyncio.create_task(_of(napping(step, "quick", 0.05))),
            asyncio.create_task(_of(step.wait_for_event("never", "never", timeout="4 hours"))),
        ]
        done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    async with Project(run, max_live=max_live) as project:
        began_ms = project.now_ms()
        assert await project.result() == "quick"
        assert project.now_ms() - began_ms <= 60
        assert await project.timers() == 0


@BOTH_MEMORIES
@in_virtual_time
async def test_a_race_has_the_same_winner_in_every_replay(max_live: int) -> None:
    winners: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        racers = [
            asyncio.create_task(_of(napping(step, name, 5 - n))) for n, name in enumerate("abc")
        ]
        done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        winners.append(done.pop().result())
        await asyncio.wait(racers)
        await step.sleep("nap", "1 hour")
        return winners[-1]

    async with Project(run, max_live=max_live) as project:
        assert await project.result() == "c"
        assert set(winners) == {"c"}


@in_virtual_time
async def test_a_cancelled_sleep_wakes_nobody() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        sleeper = asyncio.create_task(step.sleep("nap", "2 seconds"))
        await pause_for(0.1)
        sleeper.cancel()
        await asyncio.wait([sleeper])
        return sleeper.cancelled()

    async with Project(run) as project:
        assert await project.result() is True
        assert await project.timers() == 0
        await pause_for(10)


@in_virtual_time
async def test_a_cancelled_wait_loses_no_event() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(step.wait_for_event("first", "a"), 1)
        await napping(step, "work", 5)
        return (await step.wait_for_event("second", "a"))["payload"]

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(3)
        await instance.send_event(type="a", payload="kept")
        assert (await project.ended(instance))["output"] == "kept"


@in_virtual_time
async def test_a_step_in_a_forgotten_task_does_not_outlive_the_run() -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("forgotten")
        async def forgotten() -> None:
            log.append("begun")
            await pause_for(60)
            log.append("ended")

        kept.append(asyncio.create_task(_of(forgotten())))
        await napping(step, "work", 1)
        return "done"

    kept: list[asyncio.Task[Any]] = []
    async with Project(run) as project:
        assert await project.result() == "done"
        await pause_for(600)
        assert log == ["begun"]
        assert kept[0].cancelled()


@pytest.mark.parametrize("max_live", [0, 1_000])
@in_virtual_time
async def test_a_task_that_asks_for_nothing_goes_with_the_run(max_live: int) -> None:
    async def beat() -> None:
        while True:
            beats.append(1)
            await pause_for(1)

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        kept.append(asyncio.create_task(beat()))
        await step.sleep("nap", "1 minute")
        await step.sleep("nap", "1 hour")

    beats: list[int] = []
    kept: list[asyncio.Task[None]] = []
    async with Project(run, max_live=max_live) as project:
        instance = await project.workflow.create()
        await pause_for(90)
        await instance.terminate()
        await pause_for(0)
        assert all(task.cancelled() for task in kept)
        beats.clear()
        await pause_for(100)
        assert not beats


@in_virtual_time
async def test_a_step_that_is_never_awaited_is_told_by_its_name() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("reserve stock")
        async def reserve() -> None: ...

        reserve()  # type: ignore[unused-coroutine]
        gc.collect()

    async with Project(run) as project:
        with pytest.warns(RuntimeWarning, match="coroutine 'reserve stock' was never awaited"):
            assert await project.result() is None


@in_virtual_time
async def test_a_step_of_a_dead_life_is_never_heard() -> None:
    kept: list[WorkflowStep] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        kept.append(step)
        return "done"

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.ended(instance)
        history = await project.history(instance)
        late = asyncio.create_task(kept[0].sleep("late", 1))
        await pause_for(60)
        assert late.cancelled()
        assert await project.history(instance) == history


CALLS: list[Callable[[Project], Awaitable[Any]]] = [
    lambda project: project.workflow.create(id="new"),
    lambda project: project.handle("a").send_event(type="go", payload=1),
    lambda project: project.handle("a").status(),
    lambda project: project.handle("a").pause(),
    lambda project: project.handle("a").terminate(rollback=True),
    lambda project: project.workflow.create_batch([{"id": "new"}, {"id": "a"}, {"id": "a"}]),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("turns", [1, 2, 3, 5])
@in_virtual_time
async def test_a_caller_that_is_cancelled_harms_nothing(
    call: Callable[[Project], Awaitable[Any]], turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return (await step.wait_for_event("w", "go"))["payload"]

    async with Project(run) as project:
        await project.workflow.create(id="a")
        await project.becomes("a", "waiting")
        caller = asyncio.create_task(_of(call(project)))
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        del caller
        gc.collect()
        other = await project.workflow.create(id="b")
        await other.send_event(type="go", payload="fine")
        assert (await project.ended(other))["output"] == "fine"
    assert not [record for record in caplog.records if record.name == "asyncio"]


@in_virtual_time
async def test_what_was_asked_takes_effect_though_the_caller_is_cancelled() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return (await step.wait_for_event("w", "go"))["payload"]

    async with Project(run) as project:
        creating = asyncio.create_task(project.workflow.create(id="a"))
        await asyncio.sleep(0)
        creating.cancel()
        await asyncio.wait([creating])
        await project.becomes("a", "waiting")
        sending = asyncio.create_task(project.handle("a").send_event(type="go", payload=1))
        await asyncio.sleep(0)
        sending.cancel()
        assert (await project.ended("a"))["output"] == 1


@in_virtual_time
async def test_clients_that_stop_waiting_leave_the_instance_to_the_others() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return await napping(step, "work", 10)

    async with Project(run) as project:
        instance = await project.workflow.create()
        clients = [asyncio.create_task(project.ended(instance)) for _ in range(10)]
        await pause_for(1)
        for client in clients[:9]:
            client.cancel()
        assert (await clients[9])["output"] == "work"
        assert all(client.cancelled() for client in clients[:9])


@in_virtual_time
async def test_a_run_that_cancels_itself_has_failed() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        raise asyncio.CancelledError("by hand")

    async with Project(run) as project:
        assert await project.error() == ("CancelledError", "by hand")


@in_virtual_time
async def test_finished_steps_leave_no_timers_and_tasks_behind() -> None:
    counts: list[tuple[int, int]] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for _ in range(300):
            await step.do("tiny")(_nothing)()
            timers = len(project.engine._timers)  # pyright: ignore[reportPrivateUsage]
            counts.append((len(asyncio.all_tasks()), timers))

    async with Project(run) as project:
        await project.result()
        assert counts[-1][0] <= counts[0][0] + 2
        assert counts[-1][1] <= counts[0][1] + 2


async def _nothing() -> None: ...


@in_virtual_time
async def test_an_error_of_a_wait_that_was_caught_leaves_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await refusal_of(step.wait_for_event("w", "a", timeout=100_000))
        return "ok"

    async with Project(run) as project:
        assert await project.result() == "ok"
    gc.collect()
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]


@in_virtual_time
async def test_a_close_that_is_cancelled_is_done_all_the_same() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        await project.workflow.create()
        closing = asyncio.ensure_future(project.engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        await project.engine.close()
        with pytest.raises(EngineStopped):
            await project.workflow.create()
        await project.restart()
        assert len(await project.listed()) == 1
