"""`rollback=` on `step.do`: compensation that the engine calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bindings import NonRetryableError, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import RollbackPhase, StepError
from tests.unit.bindings.project import AT_ONCE, ONCE, Project, in_virtual_time, pause_for

BOTH_MEMORIES = pytest.mark.parametrize("max_live", [0, 1_000])


def booking(log: list[str], ending: Callable[[WorkflowStep], Any]) -> Any:
    """A workflow of three steps, two of which can be undone, and an ending."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def cancel_hotel() -> None:
            log.append("cancel hotel")

        def cancel_flight() -> None:
            log.append("cancel flight")

        @step.do("hotel", rollback=cancel_hotel)
        async def hotel() -> str:
            log.append("hotel")
            return "h1"

        @step.do("note")
        async def note() -> None:
            log.append("note")

        @step.do("flight", rollback=cancel_flight)
        async def flight() -> str:
            log.append("flight")
            return "f1"

        await hotel()
        await note()
        await flight()
        return await ending(step)

    return run


async def fail(step: WorkflowStep) -> None:
    raise LookupError("no seats")


async def nap(step: WorkflowStep) -> str:
    await step.sleep("nap", "1 hour")
    return "slept"


async def nap_and_fail(step: WorkflowStep) -> None:
    await step.sleep("nap", "1 hour")
    raise LookupError("no seats")


DONE = ["hotel", "note", "flight"]
UNDONE = ["cancel flight", "cancel hotel"]


@BOTH_MEMORIES
@pytest.mark.parametrize("ending", [fail, nap_and_fail])
@in_virtual_time
async def test_a_failed_workflow_undoes_its_steps_newest_first(ending: Any, max_live: int) -> None:
    log: list[str] = []
    async with Project(booking(log, ending), max_live=max_live) as project:
        status = await project.outcome()
        assert log == DONE + UNDONE
        assert status == {
            "status": "errored",
            "error": {"message": "no seats", "name": "LookupError"},
            "output": None,
            "rollback": {"outcome": "complete", "error": None},
        }


@BOTH_MEMORIES
@in_virtual_time
async def test_a_workflow_that_completes_undoes_nothing(max_live: int) -> None:
    log: list[str] = []
    async with Project(booking(log, nap), max_live=max_live) as project:
        assert await project.result() == "slept"
        assert log == DONE


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize(
    "moment", ["parked", "unloaded", "restarted", "paused", "paused, restarted"]
)
@in_virtual_time
async def test_terminating_undoes_only_what_it_is_told_to(moment: str, rollback: bool) -> None:
    log: list[str] = []
    async with Project(booking(log, nap)) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        if moment == "unloaded":
            await pause_for(60)
        if "paused" in moment:
            await instance.pause()
        if "restarted" in moment:
            await project.restart()
        instance = project.handle(instance)
        await instance.terminate(rollback=rollback)
        status = await instance.status()
        assert status["status"] == "terminated"
        assert status["error"] is None
        assert status["rollback"] == ({"outcome": "complete", "error": None} if rollback else None)
        assert log == (DONE + UNDONE if rollback else DONE)
        await pause_for(7_200)
        assert await instance.status() == status


@in_virtual_time
async def test_handlers_see_why_they_are_called() -> None:
    told: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo(ctx: JsDict, error: Exception, output: Any, step_name: str) -> None:
            told.append([ctx.step.name, ctx.attempt, ctx.config.timeout, output, step_name, error])

        async def undo_failed(output: Any, error: Exception) -> None:
            told.append([output, error])

        @step.do("good", config={"timeout": "1 minute"} | AT_ONCE, rollback=undo)
        async def good(ctx: JsDict) -> Any:
            if ctx.attempt < 2:
                raise RuntimeError
            return {"id": 7}

        @step.do("bad", config=ONCE, rollback=undo_failed)
        async def bad() -> None:
            raise RuntimeError("caught")

        await good()
        try:
            await bad()
        except StepError:
            await step.sleep("nap", "1 hour")
        raise NonRetryableError("for good")

    async with Project(run, max_live=0) as project:
        assert await project.error() == ("NonRetryableError", "for good")
    (none, error), first = told
    assert none is None
    assert first[:5] == ["good", 2, "1 minute", {"id": 7}, "good-1"]
    assert first[3].id == 7
    assert isinstance(error, NonRetryableError)
    assert str(error) == str(first[5]) == "for good"


@in_virtual_time
async def test_a_termination_is_an_error_to_handlers() -> None:
    told: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        def undo(error: Any) -> None:
            told.append([error.name, error.message])

        await step.do("a", rollback=undo)(lambda: None)()
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await instance.terminate({"rollback": True})
        assert told == [["Terminated", "Instance terminated during rollback"]]


@in_virtual_time
async def test_a_handler_is_tried_by_its_own_config() -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo() -> None:
            attempts.append(project.now_ms())
            if len(attempts) < 4:
                raise RuntimeError("not yet")

        config = {"retries": {"limit": 3, "delay": "1 minute", "backoff": "constant"}}

        @step.do("a", config=ONCE, rollback=undo, rollback_config=config)
        async def a() -> None: ...

        await a()
        raise LookupError("why")

    async with Project(run) as project:
        status = await project.outcome()
        assert status.rollback == {"outcome": "complete", "error": None}
        gaps = [b - a for a, b in pairwise(attempts)]
        assert gaps == [60_000] * 3


@pytest.mark.parametrize("failing", ["raises", "hangs", "non-retryable"])
@in_virtual_time
async def test_the_first_handler_that_fails_for_good_stops_the_rest(failing: str) -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo(ctx: JsDict) -> None:
            log.append(ctx.step.name)
            if ctx.step.name != "b":
                return
            if failing == "hangs":
                await pause_for(3_600)
            raise (NonRetryableError if failing == "non-retryable" else RuntimeError)("stuck")

        config = {"retries": {"limit": 1, "delay": 0}, "timeout": "1 second"}
        for name in ("a", "b", "c"):
            await step.do(name, rollback=undo, rollback_config=config)(lambda: None)()
        raise LookupError("first")

    async with Project(run) as project:
        status = await project.outcome()
        assert log == ["c", "b"] if failing == "non-retryable" else ["c", "b", "b"]
        assert status.error == {"message": "first", "name": "LookupError"}
        assert status.rollback.outcome == "failed"
        expected = "Execution timed out after 1000ms" if failing == "hangs" else "stuck"
        assert status.rollback.error.message == expected


@in_virtual_time
async def test_order_is_that_of_the_starts_of_the_steps() -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo(step_name: str) -> None:
            log.append(step_name)

        def declare(seconds: int) -> Any:
            @step.do("same", rollback=undo)
            async def same() -> None:
                await pause_for(seconds)

            return same

        await asyncio.gather(declare(3)(), declare(1)(), declare(2)())
        raise LookupError

    async with Project(run) as project:
        await project.error()
        assert log == ["same-3", "same-2", "same-1"]


@in_virtual_time
async def test_a_rollback_that_a_restart_cuts_off_goes_on_where_it_was() -> None:
    log: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo(ctx: JsDict) -> None:
            log.append(f"undo {ctx.step.name}")
            await pause_for(10)
            log.append(f"undone {ctx.step.name}")

        for name in ("a", "b", "c"):
            await step.do(name, rollback=undo)(lambda: log.append("do"))()
        raise LookupError("why")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(15)
        assert (await instance.status())["status"] == "running"
        await project.restart()
        status = await project.ended(instance)
        assert log == [
            "do", "do", "do", "undo c", "undone c", "undo b", "undo b", "undone b", "undo a", "undone a",
        ]  # fmt: skip
        assert status.error.message == "why"
        assert status.rollback.outcome == "complete"


@in_virtual_time
async def test_a_handler_that_the_code_no_longer_has_fails_the_rollback() -> None:
    lives: list[None] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        lives.append(None)
        handler = (lambda: None) if len(lives) == 1 else None
        await step.do("a", rollback=handler)(lambda: None)()
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await project.restart()
        await project.handle(instance).terminate(rollback=True)
        status = await project.handle(instance).status()
        assert status["status"] == "terminated"
        assert status.rollback.error.name == "RollbackMissing"


@in_virtual_time
async def test_a_step_cannot_be_asked_for_while_steps_are_undone() -> None:
    caught: list[Exception] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo() -> None:
            directly = step.do("more")(lambda: 1)
            for way in (directly, lambda: asyncio.gather(directly())):
                try:
                    await way()
                except RollbackPhase as error:
                    caught.append(error)

        await step.do("a", rollback=undo)(lambda: None)()
        raise LookupError

    async with Project(run) as project:
        await project.error()
        text = "Cannot execute steps during rollback phase"
        assert [str(error) for error in caught] == [text, text]


@pytest.mark.parametrize("rollback", ["yes", 1, None])
@in_virtual_time
async def test_the_option_to_roll_back_is_a_bool(rollback: Any) -> None:
    log: list[str] = []
    async with Project(booking(log, nap)) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        if rollback is None:
            await instance.terminate(rollback=None)
            assert log == DONE
            return
        with pytest.raises(Exception, match="rollback must be true or false"):
            await instance.terminate(rollback=rollback)
        with pytest.raises(TypeError, match="does not take 'force'"):
            await instance.terminate(force=True)
        with pytest.raises(TypeError, match="got 'rollback' twice"):
            await instance.terminate({"rollback": True}, rollback=True)
        assert (await instance.status())["status"] == "waiting"


@in_virtual_time
async def test_terminating_with_rollback_waits_for_the_handlers() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def undo() -> None:
            await pause_for(30)

        await step.do("a", rollback=undo)(lambda: None)()
        await step.sleep("nap", "1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        began_ms = project.now_ms()
        await instance.terminate(rollback=True)
        assert project.now_ms() - began_ms == 30_000
        assert (await instance.status())["status"] == "terminated"


@in_virtual_time
async def test_deleting_calls_no_handler() -> None:
    log: list[str] = []
    async with Project(booking(log, nap)) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await instance.delete()
        await pause_for(7_200)
        assert log == DONE
