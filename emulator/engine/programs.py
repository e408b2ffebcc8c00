"""What user code looks like from below: a `Program` with a `run(event, step)`, and what is known of its workflow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.config import PRODUCTION_DEFAULTS, StepConfig
from emulator.domain.cron import Cron
from emulator.domain.failure import Failure, failure_of
from emulator.domain.instance import Creation, Schedule
from emulator.domain.limits import DEFAULT_INSTANCE_STEPS, DEFAULT_RETENTION_MS
from emulator.domain.status import InstanceStatus
from emulator.engine.frames import traceback_of
from emulator.engine.steps import StepContext
from emulator.errors import WorkflowNotFound

log = logging.getLogger("workflow_emulator")


class RunEvent(NamedTuple):
    """What started the instance, as `run()` gets it. `timestamp_ms` is the creation, the same in every incarnation.

    `code` is the hash of the code that a dynamic workflow was created with.
    """

    payload: object
    timestamp_ms: int
    instance_id: str
    workflow_name: str
    schedule: Schedule | None
    code: str | None = None

    @classmethod
    def of(cls, creation: Creation) -> RunEvent:
        """That of an instance.

        Raises:
            JournalCorrupt: its params do not decode.
        """
        return cls(
            values.decode(creation.params),
            creation.created_ms,
            creation.id,
            creation.workflow,
            creation.schedule,
            creation.code,
        )


class Program(Protocol):
    """User code. A new one is made for every incarnation."""

    async def run(self, event: RunEvent, step: StepContext) -> object:
        """Do the work; what it returns is the instance's output."""
        ...


@dataclass(frozen=True)
class WorkflowDefinition:
    """A workflow that the engine can run.

    `program` makes the user code of one incarnation. `concurrency_limit` is how many instances may run at once (None: any
    number), `step_limit` how many `do` steps one incarnation may ask for, and the retentions for how long finished
    instances are kept that were created without (Cloudflare: wrangler configuration, workflows; None: as long as the engine).
    `schedules` are for `emulator.engine.schedules`. `preserve_non_retryable_message` is Cloudflare's compatibility flag: without it, an uncaught NonRetryableError ends the
    instance with a general text.
    """

    name: str
    program: Callable[[], Program]
    class_name: str = ""
    script_name: str = ""
    step_limit: int = DEFAULT_INSTANCE_STEPS
    concurrency_limit: int | None = None
    success_retention_ms: int | None = DEFAULT_RETENTION_MS
    error_retention_ms: int | None = DEFAULT_RETENTION_MS
    defaults: StepConfig = field(default=PRODUCTION_DEFAULTS)
    schedules: tuple[Cron, ...] = ()
    preserve_non_retryable_message: bool = True

    def expires_ms(self, state: InstanceState) -> int | None:
        """Until when a finished instance is kept, counted from its end; None for one that has not ended, or stays.

        "Success" includes being terminated (Cloudflare: Workers API, create, retention).
        """
        if state.ended_ms is None:
            return None
        made = state.creation
        if state.status is InstanceStatus.ERRORED:
            chosen_ms, default_ms = made.error_retention_ms, self.error_retention_ms
        else:
            chosen_ms, default_ms = made.success_retention_ms, self.success_retention_ms
        kept_ms = default_ms if chosen_ms is None else chosen_ms
        return None if kept_ms is None else state.ended_ms + kept_ms


def definition_of(
    workflow: str, definitions: Mapping[str, WorkflowDefinition]
) -> WorkflowDefinition:
    """What is known of a workflow.

    Raises:
        WorkflowNotFound: nothing is.
    """
    if workflow not in definitions:
        known = ", ".join(sorted(definitions)) or "none"
        raise WorkflowNotFound(
            f'(workflow.not_found) Workflow "{workflow}" does not exist. There are: {known}'
        )
    return definitions[workflow]


def uncaught(
    error: BaseException, definition: WorkflowDefinition, creation: Creation, *, told: bool
) -> Failure:
    """What is stored of what `run()` raised. It is logged, and where it comes from if no step has `told` that before."""
    failure = failure_of(error)
    log.error(
        "workflow %s, instance %s: run() raised %s",
        *(creation.workflow, creation.id, failure.text),
        exc_info=None if told else traceback_of(error),
    )
    if failure.name == "NonRetryableError" and not definition.preserve_non_retryable_message:
        return Failure(
            "WorkflowFatalError",
            "The execution of the Workflow instance was terminated, as a step threw an NonRetryableError "
            "and it was not handled",
        )
    return failure
