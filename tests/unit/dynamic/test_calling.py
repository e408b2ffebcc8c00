"""Calling the code of a step, as the engine and a tenant's process do."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from bindings.dynamic import create_dynamic_workflow_entrypoint
from emulator.engine.step_code import StepCode
from emulator.engine.threads import call_code
from emulator.timing.clock import SystemClock
from tests.unit.dynamic.dispatcher import Dispatcher, source

WHERE: ContextVar[str] = ContextVar("WHERE")


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_plain_function_and_an_awaitable_give_their_result(in_thread: bool) -> None:
    WHERE.set("here")

    def plain(told: str) -> list[object]:
        return [told, WHERE.get(), threading.current_thread() is threading.main_thread()]

    async def awaited(told: str) -> list[object]:
        return plain(told)

    assert await call_code(StepCode(plain, in_thread), "a") == ["a", "here", not in_thread]
    assert await call_code(StepCode(awaited, in_thread), "a") == ["a", "here", True]


@pytest.mark.parametrize("in_thread", [True, False])
async def test_stop_iteration_is_an_error_like_any_other(in_thread: bool) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
        await call_code(StepCode(lambda _: next(iter(())), in_thread), None)
    assert isinstance(raised.value.__cause__, StopIteration)


NEXT_OF_NONE = source(
    """
@step.do("a", config={"retries": {"limit": 0, "delay": 0}, "timeout": "1 second"})
def first():
    return next(iter([]))
await first()
"""
)


async def test_a_tenants_function_that_raises_it_fails_at_once() -> None:
    workflow = create_dynamic_workflow_entrypoint(isolation="process")
    async with Dispatcher(workflow, clock=SystemClock()) as running:
        error = (await running.outcome("acme", NEXT_OF_NONE))["error"]
        assert error == {"name": "RuntimeError", "message": "the step raised StopIteration"}
