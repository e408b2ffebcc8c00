"""`Run`, and the five things that a run can do about a token that another one holds (specification of hooks 3, 10.6)."""

from __future__ import annotations

from typing import Any

import pytest

from bindings import HookNotFoundError, Run, WorkflowStep, get_run, resume_hook
from emulator.domain.values import JsDict
from emulator.errors import (
    EntityConflictError,
    InvalidInput,
    InvalidInstanceId,
    InvalidWorkflowName,
    WorkflowContextError,
    WorkflowRunCancelledError,
    WorkflowRunFailedError,
    WorkflowRunNotFoundError,
)
from tests.unit.bindings.project import (
    NAME,
    ONCE,
    Project,
    in_virtual_time,
    orders,
    pause_for,
    refusal_of,
)

T = "order:1"


async def owns(event: JsDict, step: WorkflowStep) -> Any:
    """Hold the token until a payload says how to end."""
    hook = step.create_hook(token=T)
    while True:
        payload = await hook
        if payload == "fail":
            raise ValueError("on purpose")
        if payload != "go on":
            return payload


def second(strategy: Any) -> Any:
    """A workflow whose second instance finds the token taken."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["instanceId"] == "owner":
            return await owns(event, step)
        conflict = await step.create_hook(token=T).get_conflict()
        assert conflict is not None
        return await strategy(conflict, step)

    return run


async def begun(project: Project) -> None:
    await project.workflow.create(id="owner", hook=T)
    await project.workflow.create(id="second")
    await pause_for(1)


# strategies


@in_virtual_time
async def test_reject() -> None:
    async def reject(conflict: Run, step: WorkflowStep) -> Any:
        return {"status": "duplicate", "run": conflict.run_id}

    async with Project(second(reject)) as project:
        await begun(project)
        output = (await project.ended("second"))["output"]
        assert output == {"status": "duplicate", "run": "owner"}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("the result", "the result"),
        ("fail", ["WorkflowRunFailedError", "owner", "ValueError", "on purpose"]),
        (None, ["WorkflowRunCancelledError", "owner"]),
    ],
)
def test_adopt(ending: str | None, expected: Any, restarts: bool) -> None:
    async def adopt(conflict: Run, step: WorkflowStep) -> Any:
        try:
            return await conflict.return_value()
        except WorkflowRunFailedError as error:
            return [type(error).__name__, error.run_id, error.error_name, error.error_message]
        except WorkflowRunCancelledError as error:
            return [type(error).__name__, error.run_id]

    @in_virtual_time
    async def test() -> None:
        async with Project(second(adopt)) as project:
            await begun(project)
            if restarts:
                await project.crash()
            if ending is None:
                await project.handle("owner").terminate()
            else:
                await resume_hook(T, ending)
            assert (await project.ended("second"))["output"] == expected

    test()


@in_virtual_time
async def test_inspect_then_decide() -> None:
    async def inspect(conflict: Run, step: WorkflowStep) -> Any:
        if await conflict.status() == "completed":
            return await conflict.return_value()
        await step.sleep("a while", "1 hour")
        return [await conflict.exists(), await conflict.status()]

    async with Project(second(inspect)) as project:
        await begun(project)
        await project.handle("owner").delete()
        output = await project.ended("second")
        assert output["status"] == "errored"
        assert output["error"]["name"] == "WorkflowRunNotFoundError"


@in_virtual_time
async def test_signal() -> None:
    async def signal(conflict: Run, step: WorkflowStep) -> Any:
        assert await conflict.status() in ("pending", "running")

        @step.do("signal")
        async def call() -> str:
            return (await resume_hook(T, "a signal")).run_id

        @step.do("signal one who has ended", config=ONCE)
        async def late() -> None:
            await resume_hook(T, "too late")

        found: list[Any] = [await call()]
        await step.sleep("a while", "1 minute")
        error = await refusal_of(late())
        assert isinstance(error, HookNotFoundError)
        return [*found, error.token]

    async with Project(second(signal)) as project:
        await begun(project)
        assert (await project.ended("second"))["output"] == ["owner", T]
        assert (await project.ended("owner"))["output"] == "a signal"


@pytest.mark.parametrize("is_retained", [False, True])
def test_supersede(is_retained: bool) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["instanceId"] == "owner":
            return await owns(event, step)
        for _ in range(3):
            hook = step.create_hook(token=T)
            conflict = await hook.get_conflict()
            if conflict is None:
                return [await hook]
            await conflict.cancel()
        return "gave up"

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            options = {"min_retention": "1 day"} if is_retained else {}
            await project.workflow.create(id="owner", hook=T, **options)
            await project.workflow.create(id="second")
            await pause_for(1)
            assert (await project.handle("owner").status())["status"] == "terminated"
            if not is_retained:
                await resume_hook(T, "for the new owner")
            output = (await project.ended("second"))["output"]
            assert output == ("gave up" if is_retained else ["for the new owner"])

    test()


@in_virtual_time
async def test_a_duplicate_start_is_routed_to_the_owner() -> None:
    async with Project(owns) as project:

        async def submit(payload: str) -> list[Any]:
            try:
                created = await project.workflow.create(hook=T)
            except EntityConflictError:
                hook = await project.workflow.resume_hook(T, payload)
                return [hook.run_id, False]
            return [created.id, True]

        answers = [await submit(payload) for payload in ("a", "go on", "end")]
        first = answers[0][0]
        assert answers == [[first, True], [first, False], [first, False]]
        assert (await project.ended(first))["output"] == "end"
        assert (await submit("late"))[1]


# the handle


@in_virtual_time
async def test_the_words_for_every_status() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return await owns(event, step)

    async with Project(run, concurrency_limit=1) as project:
        run_of = get_run
        for how, word in (("end", "completed"), ("fail", "failed"), (None, "cancelled")):
            instance = await project.workflow.create(hook=T)
            assert await run_of(instance.id, NAME).status() in ("pending", "running")
            await project.becomes(instance, "waiting")
            assert await run_of(instance.id).status() == "running"
            await instance.pause()
            assert await run_of(instance.id).status() == "running"
            await instance.resume()
            if how is None:
                await run_of(instance.id).cancel()
            else:
                await resume_hook(T, how)
            await project.ended(instance)
            assert await run_of(instance.id).status() == word
            assert run_of(instance.id).run_id == instance.id


@in_virtual_time
async def test_cancelling_what_has_ended() -> None:
    async with Project(owns) as project:
        await project.workflow.create(id="a", hook=T)
        run = get_run("a", NAME)
        for wrong in ("x" * 513, "\U0001f600" * 257, 5, "\ud800"):
            reason: Any = wrong
            with pytest.raises(InvalidInput, match="reason"):
                await run.cancel(reason)
        assert await run.status() == "running"
        await run.cancel("x" * 512)
        await run.cancel()
        await run.terminate()
        await project.workflow.create(id="b", hook=T)
        await resume_hook(T, "end")
        await project.ended("b")
        with pytest.raises(EntityConflictError, match="completed") as refused:
            await get_run("b").cancel()
        assert refused.value.code == "conflict"
        assert await get_run("b").status() == "completed"


@in_virtual_time
async def test_results_of_runs_that_have_none() -> None:
    async with Project(owns) as project:
        for number, (ending, error) in enumerate(
            (("fail", WorkflowRunFailedError), (None, WorkflowRunCancelledError))
        ):
            instance = await project.workflow.create(id=f"i{number}", hook=T)
            if ending is None:
                await instance.terminate()
            else:
                await resume_hook(T, ending)
            refused = await refusal_of(get_run(instance.id).return_value())
            assert type(refused) is error
        none = get_run("none")
        for call in (none.status, none.return_value, none.cancel, none.wake_up, none.attributes):
            refused = await refusal_of(call())
            assert isinstance(refused, WorkflowRunNotFoundError)
            assert (refused.run_id, refused.code) == ("none", "run.not_found")
        assert not await none.exists()


@pytest.mark.parametrize("workflow", [NAME, None])
@pytest.mark.parametrize("in_step", [False, True])
def test_a_run_cannot_wait_for_itself(workflow: str | None, in_step: bool) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        me = get_run(event["instanceId"], workflow)

        @step.do("adopt", config=ONCE)
        async def adopt() -> Any:
            return await me.return_value()

        error = await refusal_of(adopt() if in_step else me.return_value())
        return type(error).__name__

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            assert await project.result() == WorkflowContextError.__name__

    test()


@in_virtual_time
async def test_waking_a_run_up() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("first", "1 day")
        await step.sleep("second", "1 day")
        return "awake"

    async with Project(run, max_live=0) as project:
        instance = await project.workflow.create()
        begun_ms = project.now_ms()
        await project.becomes(instance, "waiting")
        handle = get_run(instance.id)
        assert await handle.wake_up(["second-1"]) == 0
        assert await handle.wake_up(["first-1", "second-1"]) == 1
        await pause_for(1)
        assert await handle.wake_up() == 1
        assert await handle.return_value() == "awake"
        assert await handle.wake_up() == 0
        assert project.now_ms() - begun_ms < 10_000


@in_virtual_time
async def test_functions_without_a_binding_mean_the_project_that_runs() -> None:
    async with Project(owns) as project:
        await project.workflow.create(id="a", hook=T)
        assert (await orders().get_hook_by_token(T)).run_id == "a"
    with pytest.raises(WorkflowContextError, match="while a project runs"):
        await resume_hook(T, 1)
    with pytest.raises(WorkflowContextError):
        await get_run("a").status()


@in_virtual_time
async def test_the_streams_of_a_run() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["instanceId"] == "reader":
            other = get_run("writer", NAME)
            refusal = await refusal_of(anext(aiter(other.readable())))
            assert isinstance(refusal, WorkflowContextError)
            return await other.stream_info()
        async with step.get_writable() as out:
            await out.write("one")
            await out.write("two")
        return None

    async with Project(run) as project:
        await project.result(id="writer")
        handle = get_run("writer", NAME)
        assert [chunk async for chunk in handle.readable(start_index=-1)] == ["two"]
        shown = {"namespace": "default", "tailIndex": 1, "done": True}
        assert await project.result(id="reader") == shown
        assert await handle.list_streams() == [shown]
        with pytest.raises(InvalidInput, match="Say which workflow"):
            get_run("writer").readable()
        with pytest.raises(WorkflowRunNotFoundError):
            await get_run("nobody", NAME).list_streams()


@in_virtual_time
async def test_who_waits_for_a_result_does_not_keep_the_only_slot_from_it() -> None:
    async def adopt(conflict: Run, step: WorkflowStep) -> Any:
        return await conflict.return_value()

    async with Project(second(adopt), concurrency_limit=1) as project:
        await begun(project)
        await project.becomes("second", "running")
        await project.workflow.resume_hook(T, "result")
        for instance in ("owner", "second"):
            assert (await project.ended(instance))["output"] == "result"


@in_virtual_time
async def test_a_result_that_comes_after_a_month_is_adopted_across_restarts() -> None:
    async def adopt(conflict: Run, step: WorkflowStep) -> Any:
        return await conflict.return_value()

    async with Project(second(adopt)) as project:
        await begun(project)
        await pause_for(10 * 86_400)
        await project.restart()
        await pause_for(20 * 86_400)
        await project.workflow.resume_hook(T, "late")
        assert (await project.ended("second"))["output"] == "late"


@pytest.mark.parametrize("run_id", [None, {"id": "a"}, 7, "", "\ud800", "a.b"])
def test_a_handle_has_an_id_that_a_run_can_have(run_id: Any) -> None:
    with pytest.raises(InvalidInstanceId):
        get_run(run_id)


@pytest.mark.parametrize("workflow", [{"name": "a"}, 7, "", "a b"])
def test_a_handle_has_a_workflow_that_there_can_be(workflow: Any) -> None:
    with pytest.raises(InvalidWorkflowName):
        get_run("a", workflow)
