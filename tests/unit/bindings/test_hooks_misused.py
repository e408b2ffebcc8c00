"""What a wrong use of hooks gets: an error of its own, and nothing is written (specification of hooks 10.6)."""

from __future__ import annotations

from typing import Any

import pytest

from bindings import (
    HookNotFoundError,
    WorkflowStep,
    get_hook_by_token,
    resume_hook,
)
from emulator.domain.values import JsDict
from emulator.errors import (
    HookRetentionTooLong,
    InvalidHook,
    PayloadTooLarge,
    SerializationError,
    WorkflowContextError,
)
from tests.unit.bindings.holding import T, holds, hooks_of
from tests.unit.bindings.project import (
    ONCE,
    Project,
    in_virtual_time,
    orders,
    refusal_of,
)


@in_virtual_time
async def test_a_payload_that_cannot_be_stored_is_refused_and_nothing_written() -> None:
    async with Project(holds) as project:
        instance = await project.workflow.create(hook=T)
        for payload, error in (
            (object(), SerializationError),
            ((1, 2), SerializationError),
            ("x" * (1 << 20) + "x", PayloadTooLarge),
        ):
            assert type(await refusal_of(resume_hook(T, payload))) is error
        for resume_id in ("", 5, "\ud800", "\x1f", "x" * 513, b"r"):
            wrong: Any = resume_id
            refused = await refusal_of(resume_hook(T, 1, resume_id=wrong))
            assert isinstance(refused, InvalidHook), resume_id
        for token in ("", None, 5, "\ud800"):
            wrong = token
            assert isinstance(await refusal_of(resume_hook(wrong, 1)), InvalidHook)
            assert isinstance(await refusal_of(get_hook_by_token(wrong)), InvalidHook)
        await resume_hook(T, "good")
        assert (await project.ended(instance))["output"] == "good"


@in_virtual_time
async def test_who_holds_nothing_takes_nothing() -> None:
    async with Project(holds) as project:
        for _ in range(2):
            refused = await refusal_of(resume_hook(T, 1))
            assert isinstance(refused, HookNotFoundError)
            assert (refused.token, refused.code) == (T, "hook_not_found")
            assert isinstance(await refusal_of(get_hook_by_token(T)), HookNotFoundError)
            instance = await project.workflow.create(hook=T)
            await resume_hook(T, 1)
            await project.ended(instance)


# where it may be called


@in_virtual_time
async def test_a_hook_is_opened_in_the_body_of_a_run_only() -> None:
    kept: list[WorkflowStep] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        kept.append(step)
        hook = step.create_hook(token=T)
        found: list[str] = []

        @step.do("in a callback", config=ONCE)
        async def call() -> None:
            for opens in (step.create_hook, step.create_webhook):
                with pytest.raises(WorkflowContextError):
                    opens()
            with pytest.raises(WorkflowContextError):
                await hook

        await call()
        for call_ in (resume_hook(T, 1), orders().resume_hook(T, 1)):
            with pytest.raises(WorkflowContextError, match=r"step\.do") as refused:
                await call_
            assert refused.value.code == "workflow.context"
            found.append(refused.value.name)
        return found

    async with Project(run) as project:
        assert await project.result(hook=T) == ["WorkflowContextError"] * 2
        with pytest.raises(RuntimeError):
            kept[0].create_hook()


@in_virtual_time
async def test_a_bad_hook_fails_the_run_with_the_name_of_the_mistake() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        wrong: Any
        for options, error in (
            ({"token": ""}, InvalidHook),
            ({"token": 5}, InvalidHook),
            ({"min_retention": 0}, InvalidHook),
            ({"min_retention": "31 days"}, HookRetentionTooLong),
            ({"metadata": object()}, SerializationError),
            ({"schema": "no class"}, InvalidHook),
            ({"is_webhook": True}, TypeError),
        ):
            wrong = options
            with pytest.raises(error):
                step.create_hook(**wrong)
        for options, error in (
            ({"token": T}, TypeError),
            ({"min_retention": 5}, TypeError),
            ({"respond_with": "automatic"}, InvalidHook),
            ({"respond_with": 5}, InvalidHook),
        ):
            wrong = options
            with pytest.raises(error):
                step.create_webhook(**wrong)
        return "unharmed"

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["output"] == "unharmed"
        assert await hooks_of(project, instance) == []
