"""`WorkflowEntrypoint`: the class that users subclass, and how the engine runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bindings.context import run_event
from bindings.step import WorkflowStep
from emulator.domain.config import PRODUCTION_DEFAULTS, StepConfig
from emulator.domain.values import JsDict
from emulator.engine.programs import Program, RunEvent
from emulator.engine.steps import StepContext


class WorkflowEntrypoint:
    """A workflow: subclass it and write `run` (Cloudflare: Python Workflows).

    `self.env` has the bindings and variables of the Worker, `self.ctx` its execution context.
    """

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env

    async def run(self, event: JsDict, step: WorkflowStep) -> Any:
        """Do the work; what it returns is the instance's output.

        It is called again from the top whenever the instance comes back to memory. Only `step` remembers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run(self, event, step)")


class _Program:
    """One incarnation of a workflow class."""

    def __init__(self, workflow: WorkflowEntrypoint, defaults: StepConfig, said: set[str]) -> None:
        self._workflow = workflow
        self._defaults = defaults
        self._said = said

    async def run(self, event: RunEvent, step: StepContext) -> object:
        steps = WorkflowStep(step, self._defaults, self._said)
        try:
            result: Any = self._workflow.run(run_event(event), steps)
            return await result if inspect.isawaitable(result) else result
        finally:
            steps._forget()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no business of users


def program_of(
    workflow: type[WorkflowEntrypoint],
    ctx: Any,
    env: Any,
    defaults: StepConfig = PRODUCTION_DEFAULTS,
) -> Callable[[], Program]:
    """What the engine calls for every incarnation: a new object of the class, with `ctx` and `env`."""
    said: set[str] = set()
    return lambda: _Program(workflow(ctx, env), defaults, said)
