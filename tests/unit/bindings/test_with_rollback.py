"""`step.with_rollback`, `.undo` and `step.rollback_all`: compensation that the workflow calls."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import InvalidStep, StepError
from tests.unit.bindings.project import ONCE, Project, in_virtual_time


def declare(step: WorkflowStep, name: str, log: list[Any], *, undo_fails: bool = False) -> Any:
    """A step that gives its name, with an undo handler that logs what it gets."""

    @step.with_rollback(name)
    async def perform() -> str:
        log.append(name)
        return f"{name} done"

    @perform.undo(config=ONCE)
    async def compensate(error: BaseException | None, output: Any) -> None:
        log.append(["undo", output, str(error)])
        if undo_fails:
            raise RuntimeError(f"{name} is stuck")

    assert compensate is not None
    return perform


@pytest.mark.parametrize("max_live", [0, 1_000])
@in_virtual_time
async def test_what_has_succeeded_is_undone_newest_first_and_once(max_live: int) -> None:
    log: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first, second, third = (declare(step, name, log) for name in ("a", "b", "c"))
        try:
            assert await first() == "a done"
            await second()
            await step.do("fails", config=ONCE)(lambda: 1 / 0)()
            await third()
        except StepError as error:
            await step.sleep("nap", "1 hour")
            await step.rollback_all(error)
            await step.rollback_all(error)
            await step.sleep("nap", "1 hour")
        return "undone"

    async with Project(run, max_live=max_live) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["output"] == "undone"
        assert log == [
            "a",
            "b",
            ["undo", "b done", "division by zero"],
            ["undo", "a done", "division by zero"],
        ]
        steps = [step for kind, step in await project.history(instance) if kind == "StepSucceeded"]
        assert steps == ["a-1", "b-1", "undo b-1", "undo a-1"]


@in_virtual_time
async def test_a_handler_takes_what_it_names_and_may_be_a_plain_function() -> None:
    log: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.with_rollback("a", config={"timeout": "1 minute"})
        def perform(ctx: JsDict) -> Any:
            return ctx.config.timeout

        @perform.undo()
        def compensate(output: Any) -> None:
            log.append(output)

        @step.with_rollback("b")
        def nothing_to_undo() -> None: ...

        await perform()
        await nothing_to_undo()
        await step.rollback_all()
        assert compensate is not None

    async with Project(run) as project:
        await project.result()
        assert log == ["1 minute"]


@in_virtual_time
async def test_an_unknown_parameter_is_refused_when_it_is_declared() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.with_rollback("a")
        async def perform() -> None: ...

        with pytest.raises(InvalidStep, match=re.escape('Undo for "a" takes ctx, order; it can')):

            @perform.undo()
            async def compensate(ctx: JsDict, order: str) -> None: ...  # pyright: ignore[reportUnusedFunction]

    async with Project(run) as project:
        await project.result()


@in_virtual_time
async def test_the_first_handler_that_fails_stops_it() -> None:
    log: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for name in ("a", "b", "c"):
            await declare(step, name, log, undo_fails=name == "b")()
        await step.rollback_all(LookupError("why"))

    async with Project(run) as project:
        assert await project.error() == ("RuntimeError", "b is stuck")
        assert log[3:] == [["undo", "c done", "why"], ["undo", "b done", "why"]]


@pytest.mark.parametrize("failing", ["b", "ab"])
@in_virtual_time
async def test_it_goes_on_if_it_is_told_to_and_raises_afterwards(failing: str) -> None:
    log: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for name in ("a", "b", "c"):
            await declare(step, name, log, undo_fails=name in failing)()
        try:
            await step.rollback_all(continue_on_error=True)
        except ExceptionGroup as group:
            return [str(error) for error in group.exceptions]
        except StepError as error:
            return str(error)

    async with Project(run) as project:
        output = await project.result()
        assert output == ("b is stuck" if failing == "b" else ["b is stuck", "a is stuck"])
        assert [entry[1] for entry in log[3:]] == ["c done", "b done", "a done"]


@in_virtual_time
async def test_a_step_that_another_one_depends_on_is_undone_too() -> None:
    log: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        perform = declare(step, "a", log)

        @step.do("next")
        async def following(a: str) -> str:
            return a

        @step.do("listed", depends=[perform])
        async def listed(what: str) -> str:
            return what

        results = [await following(), await listed()]
        await step.rollback_all()
        return results

    async with Project(run) as project:
        assert await project.result() == ["a done", "a done"]
        assert log == ["a", ["undo", "a done", "None"]]
