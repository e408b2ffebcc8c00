"""`WorkflowEntrypoint`: the class that users subclass, and how the engine runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bindings.ambient import Place, here
from bindings.context import run_event
from bindings.hints import Hints
from bindings.host import Host
from bindings.step import WorkflowStep
from emulator.domain.config import PRODUCTION_DEFAULTS, StepConfig
from emulator.domain.instance import InstanceKey
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

    def __init__(
        self,
        workflow: WorkflowEntrypoint,
        defaults: StepConfig,
        hints: Hints,
        host: Host | None,
        implicit_dependencies: bool,
    ) -> None:
        self._workflow = workflow
        self._implicit_dependencies = implicit_dependencies
        self._defaults = defaults
        self._hints = hints
        self._host = host

    async def run(self, event: RunEvent, step: StepContext) -> object:
        place = Place(InstanceKey(event.workflow_name, event.instance_id), self._host, None)
        steps = WorkflowStep(
            step,
            self._defaults,
            self._hints,
            place,
            event.timestamp_ms,
            implicit_dependencies=self._implicit_dependencies,
        )
        here.set(Place(place.key, place.host, steps))
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
    host: Host | None = None,
    *,
    implicit_dependencies: bool = True,
) -> Callable[[], Program]:
    """What the engine calls for every incarnation: a new object of the class, with `ctx` and `env`.

    `host` is who runs its instances, for what they do to each other. `implicit_dependencies`: a parameter of a step names
    the step that it depends on, unless the step says `depends` (Cloudflare: compatibility flags).
    """
    hints = Hints()
    return lambda: _Program(workflow(ctx, env), defaults, hints, host, implicit_dependencies)
