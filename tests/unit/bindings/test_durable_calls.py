"""What a run does to others from its body happens once, wherever its process dies (10.7 point 6; P8; A17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from bindings import HookNotFoundError, Run, WorkflowStep, get_hook_by_token, get_run
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.errors import (
    EntityConflictError,
    HookConflictError,
    InstanceAlreadyExists,
    InvalidAttributes,
)
from tests.unit.bindings.crashes import MAIN, Crashing, at_every_commit
from tests.unit.bindings.project import NAME, ONCE, Project, in_virtual_time, orders, refusal_of

T = "order:1"


def is_main(event: JsDict) -> bool:
    return event["instanceId"] == MAIN


async def naps(step: WorkflowStep) -> None:
    await step.sleep("nap", "1 day")


def is_complete(output: Any) -> Any:
    """A check that the instance returned this, and that nothing was left over by the way."""

    async def check(project: Crashing, status: JsDict) -> None:
        assert status["status"] == "complete", status
        assert status["output"] == output
        others = await project.listed() - {MAIN}
        for each in others:
            state = await project.handle(each).status()
            assert state["error"] is None

    return check


def test_a_child_is_created_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return event["payload"]
        child = await orders().create(params={"n": 1}, hook=T)
        await step.sleep("nap", "1 minute")
        other = await orders().create(params={"n": 2})
        assert child.id != other.id
        return [await Run(None, _key(each)).return_value() for each in (child.id, other.id)]

    async def check(project: Crashing, status: JsDict) -> None:
        await is_complete([{"n": 1}, {"n": 2}])(project, status)
        assert len(await project.listed()) == 3

    assert at_every_commit(run, check) > 8


def test_a_child_of_a_chosen_id_is_created_once_and_a_strangers_stays_a_strangers() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return None
        await orders().create(id="child")
        await step.sleep("nap", "1 minute")
        errors = [await refusal_of(orders().create(id="child")) for _ in range(2)]
        return [type(error).__name__ for error in errors]

    async def check(project: Crashing, status: JsDict) -> None:
        await is_complete(["InstanceAlreadyExists"] * 2)(project, status)
        assert await project.listed() == {MAIN, "child"}

    assert at_every_commit(run, check) > 5


def test_a_batch_is_created_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return await naps(step)
        listed = await orders().create_batch([{}, {"id": "b", "hook": T}, {"id": "b"}])
        await step.sleep("nap", "1 minute")
        told = await orders().create_batch(
            instances=[{"id": "b"}, {"id": "c", "hook": "order:2"}, {"hook": "order:2"}]
        )
        codes = [[error["index"], error["code"]] for error in told["errors"]]
        return [len(listed), listed[1].id, [each.id for each in told["created"]], codes]

    async def check(project: Crashing, status: JsDict) -> None:
        codes = [[0, 10405], [2, "hook_conflict"]]
        await is_complete([2, "b", ["c"], codes])(project, status)
        assert len(await project.listed()) == 4

    assert at_every_commit(run, check) > 5


def test_a_conflict_is_told_once_and_raised_again_by_every_replay() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return await step.sleep("nap", "10 minutes")
        owner = await orders().create(id="owner", hook=T)
        found: list[Any] = []
        for hook in (T, {"token": T}):
            error = await refusal_of(orders().create(id="loser", hook=hook))
            assert isinstance(error, HookConflictError)
            found.append([error.token, error.conflicting_run_id, error.conflicting_workflow])
        await step.sleep("nap", "1 hour")  # the token is free by now
        with pytest.raises(HookConflictError) as refused:
            await orders().create_batch([{"hook": T}, {"hook": T}])
        assert owner.id == "owner"
        return [*found, refused.value.token]

    async def check(project: Crashing, status: JsDict) -> None:
        fields = [T, "owner", NAME]
        await is_complete([fields, fields, T])(project, status)
        assert await project.listed() == {MAIN, "owner"}

    assert at_every_commit(run, check) > 8


def test_methods_of_a_run_are_told_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            await naps(step)
            return event["instanceId"]
        await orders().create(id="a", attributes={"colour": "red"})
        await orders().create(id="b", hook=T)
        a, b, none = (get_run(each, NAME) for each in ("a", "b", "none"))
        found: list[Any] = [await a.exists(), await none.exists(), await a.attributes()]
        found.append((await get_hook_by_token(T)).run_id)
        error = await refusal_of(get_hook_by_token("order:2"))
        found.append(type(error).__name__)
        await b.cancel("no longer needed")
        await step.sleep("a while", "1 minute")
        found += [await b.status(), await a.wake_up(["none-1"])]
        assert await a.wake_up() in (0, 1)  # a crash may come between the two commits
        found += [await a.return_value(), await a.status()]
        found += [type(await refusal_of(a.cancel())).__name__, await b.cancel()]
        return found

    expected = [
        True, False, {"colour": "red"}, "b", "HookNotFoundError", "cancelled", 0, "a", "completed",
        "EntityConflictError", None,
    ]  # fmt: skip
    assert at_every_commit(run, is_complete(expected)) > 20


def test_attributes_are_set_once_for_a_body() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.set_attributes({"a": "1", "b": "1"})
        await step.sleep("a while", "1 minute")
        await step.set_attributes({"a": None, "c": "1"})
        for wrong in ({"$a": "1"}, {str(n): "1" for n in range(64)}):
            error = await refusal_of(step.set_attributes(wrong))
            assert isinstance(error, InvalidAttributes)
        return await get_run(MAIN).attributes()

    async def check(project: Crashing, status: JsDict) -> None:
        await is_complete({"b": "1", "c": "1"})(project, status)
        kinds = [kind for kind, _ in await project.history(MAIN)]
        assert kinds.count("AttributesChanged") in (
            2,
            3,
        )  # a crash may come between the two commits

    assert at_every_commit(run, check) > 4


@in_virtual_time
async def test_what_a_replay_finds_stays_though_the_world_has_changed() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return await naps(step)
        other = get_run("other", NAME)
        found: list[Any] = [await other.status(), await other.exists()]
        await step.sleep("until it is over", "2 days")
        return [*found, await other.status()]

    async with Project(run, max_live=0) as project:
        await project.workflow.create(id="other")
        await project.workflow.create(id=MAIN)
        assert (await project.ended(MAIN))["output"] == ["running", True, "completed"]


@in_virtual_time
async def test_a_coroutine_that_a_plain_function_has_made_is_a_callback_too() -> None:
    """A decorator that is no coroutine function itself, or an object that is called: they are called in a thread."""

    def decorated(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Awaitable[Any]:
            return function(*given, **named)

        return call

    told: list[str] = []

    async def tell() -> None:
        """A run that waits for itself would wait until the timeout."""
        error = await refusal_of(Run(None, _key(MAIN)).return_value())
        told.append(str(error))

    class Telling:
        async def __call__(self) -> None:
            await tell()

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.do("decorated", config=ONCE, rollback=decorated(tell))(decorated(tell))()
        await step.do("called", config=ONCE)(Telling())()
        raise ValueError("to the rollback")

    async with Project(run) as project:
        await project.workflow.create(id=MAIN)
        await project.ended(MAIN)
    assert told == ["A run cannot wait for itself."] * 3


@in_virtual_time
async def test_what_a_thread_asks_on_a_loop_of_its_own_is_refused() -> None:
    """The answer would come to the engine's loop, and the thread would wait for ever."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        orders_, writable = orders(), step.get_writable()
        itself = await orders_.get(MAIN)

        @step.do("inner")
        async def inner() -> None: ...

        asked: list[Callable[[], Awaitable[Any]]] = [
            orders_.create,
            itself.status,
            lambda: itself.send_event(type="a"),
            lambda: writable.write("a chunk"),
            lambda: step.sleep("nap", "1 day"),
            lambda: step.do("inner")(inner)(),
        ]

        def each_on_a_loop_of_its_own() -> list[str]:
            return [str(asyncio.run(refusal_of(ask()))) for ask in asked[:4]]

        in_step = step.do("plain", config=ONCE)(each_on_a_loop_of_its_own)
        told = await in_step()
        told += await asyncio.to_thread(
            lambda: [str(asyncio.run(refusal_of(ask()))) for ask in asked[4:]]
        )
        return told

    async with Project(run) as project:
        await project.workflow.create(id=MAIN)
        told = (await project.ended(MAIN))["output"]
        assert len(told) == 6
        assert all("called on an event loop of its own" in each for each in told), told
        assert await project.listed() == {MAIN}
        assert {label for _, label in await project.history(MAIN) if label} == {"plain-1"}


@in_virtual_time
async def test_in_a_callback_they_are_direct_and_leave_nothing_in_the_journal() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return await naps(step)

        @step.do("all of it", config=ONCE)
        async def work() -> Any:
            child = await orders().create(hook=T)
            other = Run(None, _key(child.id))
            await step.set_attributes({"a": "1"})
            found = [await other.status(), (await get_hook_by_token(T)).run_id == child.id]
            await other.cancel()
            return [*found, await other.status()]

        return await work()

    async with Project(run) as project:
        await project.workflow.create(id=MAIN)
        assert (await project.ended(MAIN))["output"] == ["running", True, "cancelled"]
        steps = {label for _, label in await project.history(MAIN) if label}
        assert steps == {"all of it-1"}


@in_virtual_time
async def test_refusals_are_told_at_once_and_not_tried_again() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return None
        errors = [
            await refusal_of(orders().create(id=MAIN)),
            await refusal_of(get_hook_by_token(T)),
            await refusal_of(get_run("done", NAME).cancel()),
        ]
        return [type(error).__name__ for error in errors]

    async with Project(run) as project:
        await project.workflow.create(id="done")
        await project.ended("done")
        begun_ms = project.now_ms()
        await project.workflow.create(id=MAIN)
        expected = ["InstanceAlreadyExists", "HookNotFoundError", "EntityConflictError"]
        assert (await project.ended(MAIN))["output"] == expected
        assert project.now_ms() == begun_ms


@in_virtual_time
async def test_the_names_of_these_steps_are_nobodys() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return await naps(step)
        other = get_run("other", NAME)

        @step.do("run.status")
        async def status() -> str:
            return "mine"

        @step.do("$run.status")
        async def dollar() -> str:
            return "mine too"

        return [await status(), await other.status(), await dollar()]

    async with Project(run, step_limit=2) as project:
        await project.workflow.create(id="other")
        await project.workflow.create(id=MAIN)
        found = (await project.ended(MAIN))["output"]
        assert found == ["mine", "running", "mine too"], "it counts as no step"


@in_virtual_time
async def test_calls_side_by_side_are_different_steps() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if not is_main(event):
            return None
        children = await asyncio.gather(*(orders().create(hook=f"order:{n}") for n in range(5)))
        await step.sleep("nap", "1 hour")
        assert isinstance(await refusal_of(get_hook_by_token("order:0")), HookNotFoundError)
        return len({child.id for child in children})

    async with Project(run, max_live=0) as project:
        await project.workflow.create(id=MAIN)
        assert (await project.ended(MAIN))["output"] == 5
        assert len(await project.listed()) == 6


def test_the_classes_of_refusals_are_related() -> None:
    assert issubclass(InstanceAlreadyExists, EntityConflictError)
    assert issubclass(HookConflictError, EntityConflictError)


def _key(instance_id: str) -> InstanceKey:
    return InstanceKey(NAME, instance_id)
