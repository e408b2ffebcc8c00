"""Hooks in the harness: what waits for them, and who reaches them from a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bindings import BaseHook, HookNotFoundError, WorkflowEntrypoint, get_run, resume_hook
from wrangler_compat.testing import TestProject, introspect_workflow_instance


@dataclass
class Approval(BaseHook):
    approved: bool


class Review(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        await step.sleep("reading", "2 hours")
        approval = await Approval.wait(step, token="document:7", metadata={"title": "Plan"})
        return "yes" if approval.approved else "no"


@pytest.fixture
def project(workflows: TestProject) -> TestProject:
    workflows.add(Review)
    return workflows


async def test_a_test_waits_until_a_run_waits_for_a_hook(project: TestProject) -> None:
    async with introspect_workflow_instance(project.env.REVIEW, "r-1") as review:
        await project.env.REVIEW.create(id="r-1")
        hook = await review.wait_for_hook("document:7")
        assert (hook.token, hook.metadata) == ("document:7", {"title": "Plan"})
        await project.env.REVIEW.resume_hook(hook.token, {"approved": True})
        await review.wait_for_status("complete")
        assert await review.get_output() == "yes"


async def test_a_hook_that_never_comes_is_said_to_never_come(project: TestProject) -> None:
    async with introspect_workflow_instance(project.env.REVIEW, "r-1") as review:
        await project.env.REVIEW.create(id="r-1")
        with pytest.raises(AssertionError, match='will not wait for the hook "document:8"'):
            await review.wait_for_hook("document:8")


async def test_functions_that_name_no_binding_mean_the_project_under_test(
    project: TestProject,
) -> None:
    instance = await project.env.REVIEW.create(id="r-1")
    await project.settle()
    with pytest.raises(HookNotFoundError):
        await resume_hook("document:7", {"approved": True})
    assert await get_run("r-1").wake_up(["reading-1"]) == 1
    await project.settle()
    await Approval(approved=False).resume("document:7")
    await project.until(instance, "complete")
    assert await instance.run.return_value() == "no"
