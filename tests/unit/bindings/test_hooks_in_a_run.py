"""Hooks that a run opens: registration, payloads, conflicts, disposal (specification of hooks 1, 10.6, 10.8)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from bindings import (
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    Run,
    WorkflowStep,
    get_hook_by_token,
    resume_hook,
)
from emulator.domain.values import JsDict
from emulator.errors import (
    EntityConflictError,
    HookResumeConflictError,
    InvalidDuration,
    WorkflowContextError,
    WorkflowTimeoutError,
)
from tests.unit.bindings.holding import T, holds, hooks_of, work
from tests.unit.bindings.project import (
    NAME,
    Project,
    in_virtual_time,
    pause_for,
    refusal_of,
)

# registration


@in_virtual_time
async def test_opening_a_hook_alone_registers_nothing_the_next_operation_does() -> None:
    found: list[object] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        step.create_hook(token=T)
        await pause_for(1)
        found.append(await refusal_of(get_hook()))
        await work(step)
        found.append((await get_hook()).run_id)

    async def get_hook() -> Any:
        # In a task of nobody's, or it would be an operation itself.
        return await outside(get_hook_by_token(T))

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["status"] == "complete"
        assert isinstance(found[0], HookNotFoundError)
        assert found[1] == instance.id
        assert not await project.tokens()


async def outside(call: Any) -> Any:
    """Call something as code outside of any run does."""
    from bindings.ambient import here

    here.set(None)
    return await call


@pytest.mark.parametrize("raises", [False, True])
def test_the_end_of_the_run_registers_what_is_left(raises: bool) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        step.create_hook(token=T, min_retention="1 day")
        step.create_hook(token="order:2").dispose()
        if raises:
            raise ValueError("on purpose")

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            instance = await project.workflow.create()
            await project.ended(instance)
            assert await hooks_of(project, instance) == [
                "HookCreated", "HookCreated", "HookDisposed",
            ]  # fmt: skip
            assert await project.tokens() == {T: instance.id}

    test()


@in_virtual_time
async def test_two_hooks_and_one_given_up_and_opened_again_in_one_go() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first = step.create_hook(token=T)
        other = step.create_hook(token="order:2")
        first.dispose()
        again = step.create_hook(token=T)
        await work(step)
        assert await first.get_conflict() is None
        assert await again.get_conflict() is None
        return [await other, await again]

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        assert await hooks_of(project, instance) == [
            "HookCreated", "HookCreated", "HookDisposed", "HookCreated",
        ]  # fmt: skip
        await resume_hook(T, "b")
        await project.restart()
        await resume_hook("order:2", "a")
        assert (await project.ended(instance))["output"] == ["a", "b"]


@pytest.mark.parametrize("claims", [False, True])
def test_a_token_that_the_run_holds_is_a_conflict_with_itself(claims: bool) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first, second = step.create_hook(token=T), step.create_hook(token=T)
        assert await first.get_conflict() is None
        conflict = await second.get_conflict()
        assert conflict is not None
        with pytest.raises(WorkflowContextError):
            await conflict.return_value()
        with pytest.raises(HookConflictError):
            await second
        return conflict.run_id

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            instance = await project.workflow.create(**({"hook": T} if claims else {}))
            assert (await project.ended(instance))["output"] == instance.id

    test()


@in_virtual_time
async def test_a_claim_that_was_given_up_is_opened_as_any_other() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        with step.create_hook(token=T):
            pass
        async with step.create_hook(token=T) as again:
            conflict = await again.get_conflict()
            return conflict and conflict.run_id

    async with Project(run) as project:
        assert await project.result(hook=T) is None
        assert not await project.tokens()


@in_virtual_time
async def test_hooks_without_a_token_get_one_that_is_the_same_in_every_replay() -> None:
    seen: list[list[str]] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hooks = [step.create_hook(), step.create_hook(), step.create_hook("approval")]
        seen.append([hook.token for hook in hooks])
        await work(step)
        await step.sleep("nap", "1 minute")
        return [await hook for hook in hooks]

    async with Project(run) as project:
        instance = await project.workflow.create()
        other = await project.workflow.create()
        await project.becomes(instance, "waiting")
        await project.restart()
        await project.becomes(instance, "waiting")
        for number, token in enumerate(seen[0]):
            assert (await resume_hook(token, number)).run_id == instance.id
        assert (await project.ended(instance))["output"] == [0, 1, 2]
        await project.handle(other).terminate()
    assert seen[0] != seen[1]
    assert len({token for tokens in seen for token in tokens}) == 6
    assert all(len(token) >= 20 for token in seen[0])


# payloads


@in_virtual_time
async def test_an_iteration_that_is_cut_short_by_crashes_loses_and_doubles_nothing() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        found: list[Any] = []
        async for payload in step.create_hook(token=T):
            found.append(payload)
            await work(step)
            if len(found) == 10:
                break
        return found

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        for number in range(10):
            await resume_hook(T, number)
            for _ in range(number):
                await asyncio.sleep(0)
            await project.crash()
        assert (await project.ended(instance))["output"] == list(range(10))


@in_virtual_time
async def test_two_who_wait_get_two_payloads_in_the_order_in_which_they_asked() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        return await asyncio.gather(hook.receive(), hook.receive(), hook.receive())

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        for payload in "abc":
            await resume_hook(T, payload)
        assert (await project.ended(instance))["output"] == ["a", "b", "c"]


@in_virtual_time
async def test_a_receive_with_a_timeout() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        for wrong in (-1, "soon", "366 days", True):
            with pytest.raises(InvalidDuration):
                await hook.receive(timeout=wrong)
        with pytest.raises(WorkflowTimeoutError):
            await hook.receive(timeout="1 minute")
        return await hook.receive(timeout="1 hour")

    async with Project(run) as project:
        instance = await project.workflow.create()
        await pause_for(61)
        await resume_hook(T, "in time")
        assert (await project.ended(instance))["output"] == "in time"


@in_virtual_time
async def test_a_resume_id_is_for_one_payload() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        first = await hook
        await step.sleep("nap", "1 minute")
        return [first, await hook]

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        hooks = [await resume_hook(T, {"a": 1}, resume_id="r1") for _ in range(3)]
        await project.restart()
        hooks.append(await resume_hook(T, {"a": 1}, resume_id="r1"))
        assert len({each.hook_id for each in hooks}) == 1
        refused = await refusal_of(resume_hook(T, {"a": 2}, resume_id="r1"))
        assert isinstance(refused, HookResumeConflictError)
        assert isinstance(refused, EntityConflictError)
        assert refused.code == "resume_conflict"
        await resume_hook(T, {"a": 1}, resume_id="r2")
        assert (await project.ended(instance))["output"] == [{"a": 1}, {"a": 1}]


@in_virtual_time
async def test_a_resume_that_meets_the_end_comes_before_it_or_is_refused() -> None:
    async def ends(event: JsDict, step: WorkflowStep) -> None:
        hook = step.create_hook(token=T)
        await hook.get_conflict()

    refusals = 0
    async with Project(ends) as project:
        for round_ in range(1_000):
            instance = await project.workflow.create(hook=T)
            for _ in range(round_ % 23):
                await asyncio.sleep(0)
            try:
                await resume_hook(T, round_)
            except HookNotFoundError:
                refusals += 1
                continue
            finally:
                await project.ended(instance)
            # Taken by nobody, it went with the end: that would have been no place for it any more.
            kinds = [kind for kind, _ in await project.history(instance)]
            assert kinds.index("EventReceived") < kinds.index("WorkflowSucceeded")
    assert 0 < refusals < 1_000


# disposal


@in_virtual_time
async def test_giving_up_frees_the_token_though_it_is_retained() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T, min_retention="1 day")
        found = [await hook]
        hook.dispose()
        hook.dispose()
        found += [payload async for payload in hook]
        await work(step)
        found.append(await hook)
        with pytest.raises(HookDisposedError) as disposed:
            await hook
        assert disposed.value.token == T
        assert await hook.get_conflict() is None
        await step.sleep("nap", "1 hour")
        return found

    async with Project(run) as project:
        first = await project.workflow.create(hook=T, min_retention="1 day")
        await resume_hook(T, 1)
        await resume_hook(T, 2)
        await project.becomes(first, "waiting")
        assert isinstance(await refusal_of(resume_hook(T, 3)), HookNotFoundError)
        second = await project.workflow.create(hook=T)
        await project.restart()
        assert (await project.ended(first))["output"] == [1, 2]
        assert await project.tokens() == {T: second.id}


@in_virtual_time
async def test_who_waits_is_told_when_the_hook_is_given_up() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T)
        waits = [asyncio.ensure_future(hook.receive()) for _ in range(2)]
        await step.sleep("nap", "1 minute")
        hook.dispose()
        await work(step)
        errors = await asyncio.gather(*waits, return_exceptions=True)
        return [type(error).__name__ for error in errors]

    async with Project(run) as project:
        assert await project.result() == ["HookDisposedError"] * 2


# conflicts


@in_virtual_time
async def test_a_conflict_is_raised_where_a_payload_is_awaited_and_the_same_after_a_replay() -> (
    None
):
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"].get("owns"):
            return await holds(event, step)
        hook = step.create_hook(token=T)
        waits = asyncio.gather(hook.receive(), anext(aiter(hook)), return_exceptions=True)
        found = [_fields(error) for error in await waits]
        conflict, again = await hook.get_conflict(), await hook.get_conflict()
        assert conflict == again
        assert isinstance(conflict, Run)
        found.append([conflict.run_id, conflict.workflow_name])
        await step.sleep("nap", "1 hour")
        assert type(await refusal_of(anext(aiter(hook)))) is HookConflictError
        return found

    async with Project(run) as project:
        owner = await project.workflow.create(hook=T, params={"owns": True})
        second = await project.workflow.create()
        await project.becomes(second, "waiting")
        await resume_hook(T, "end")
        await project.ended(owner)
        await project.restart()
        fields = [T, owner.id, NAME]
        assert (await project.ended(second))["output"] == [fields, fields, [owner.id, NAME]]


def _fields(error: object) -> list[str]:
    assert isinstance(error, HookConflictError)
    return [error.token, error.conflicting_run_id, error.conflicting_workflow]


@in_virtual_time
async def test_a_conflict_that_nobody_catches_is_the_runs_error() -> None:
    async with Project(holds) as project:
        owner = await project.workflow.create(hook=T)
        name, message = await project.error()
        assert name == "HookConflictError"
        assert (
            message == f'Hook token "{T}" is already in use by another workflow (run "{owner.id}")'
        )


@in_virtual_time
async def test_a_token_retained_by_a_finished_run_is_a_conflict_in_a_run_too() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"].get("owns"):
            return "done"
        conflict = await step.create_hook(token=T).get_conflict()
        assert conflict is not None
        return [conflict.run_id, await conflict.status(), await conflict.return_value()]

    async with Project(run) as project:
        owner = await project.workflow.create(hook=T, min_retention="1 hour", params={"owns": True})
        await project.ended(owner)
        assert await project.result() == [owner.id, "completed", "done"]


@in_virtual_time
async def test_a_replay_may_name_an_instant_that_has_passed_since() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        until = datetime.fromtimestamp(event.payload / 1000, UTC)
        step.create_hook(token=T, min_retention=until)
        await step.sleep("nap", "1 hour")
        return "done"

    async with Project(run, max_live=0) as project:
        assert await project.result(params=project.now_ms() + 60_000) == "done"
        text = "it must end in the future."
        assert text in (await project.error(params=project.now_ms() - 1))[1]
