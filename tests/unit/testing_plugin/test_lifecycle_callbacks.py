"""Callbacks for the end of runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowEntrypoint, register_lifecycle_hooks
from wrangler_compat.testing import TestProject


class Work(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        if event["payload"] == "fail":
            raise ValueError("on purpose")
        await step.sleep("nap", "1 hour")
        return event["payload"]


async def test_each_end_is_told_once_and_a_callback_that_raises_harms_nobody(
    workflows: TestProject, caplog: pytest.LogCaptureFixture
) -> None:
    workflows.add(Work)
    told: list[object] = []

    async def completed(run: Any, workflow_name: str) -> None:
        told.append((workflow_name, await run.return_value()))
        raise RuntimeError("after all")

    def failed(run: Any, workflow_name: str, error: Exception) -> None:
        told.append((run.run_id, str(error)))
        raise RuntimeError("and here")

    env = workflows.env.WORK  # opens the project
    unregister = register_lifecycle_hooks(on_run_completed=completed, on_run_failed=failed)
    good = await env.create(params="done")
    bad = await env.create(id="bad", params="fail")
    cancelled = await env.create()
    await workflows.settle()
    await cancelled.terminate()
    await workflows.until(good, "complete")
    await workflows.until(bad, "errored")
    await workflows.settle()
    assert told == [("bad", "on purpose"), ("work", "done")]
    assert caplog.text.count("a lifecycle callback raised") == 2
    await good.pause()
    await good.run.wake_up()
    unregister()
    unregister()
    await workflows.until(await env.create(params="fail"), "errored")
    await workflows.settle()
    assert len(told) == 2


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_callback_raises_cannot_end_the_engine(
    workflows: TestProject,
    caplog: pytest.LogCaptureFixture,
    kind: type[BaseException],
    is_async: bool,
) -> None:
    workflows.add(Work)

    def at_once(**_: Any) -> None:
        raise kind

    async def later(**_: Any) -> None:
        raise kind

    env = workflows.env.WORK  # opens the project
    unregister = register_lifecycle_hooks(on_run_failed=later if is_async else at_once)
    await workflows.until(await env.create(params="fail"), "errored")
    await workflows.settle()
    assert "a lifecycle callback raised" in caplog.text
    unregister()
    await workflows.until(await env.create(params="done"), "complete")


def test_without_a_project_there_is_nothing_to_register_at() -> None:
    with pytest.raises(RuntimeError, match="while a project runs"):
        register_lifecycle_hooks()
