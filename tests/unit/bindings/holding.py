"""Workflows that hold a token, and what the journal has of their hooks."""

from __future__ import annotations

from typing import Any

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import Project

T = "order:1"


async def work(step: WorkflowStep, name: str = "work") -> int:
    @step.do(name)
    async def nothing() -> int:
        return 1

    return await nothing()


async def holds(event: JsDict, step: WorkflowStep) -> Any:
    """Hold the token until a payload comes."""
    return await step.create_hook(token=T)


async def hooks_of(project: Project, instance: Any) -> list[str]:
    """What the journal has of the instance's hooks."""
    kinds = (kind for kind, _ in await project.history(instance))
    return [kind for kind in kinds if kind.startswith("Hook")]
