"""The whole output of one step, which the detail of an instance shows shortened (specification http-api 2.1, route 14)."""

from __future__ import annotations

from emulator.domain import values
from emulator.domain.failure import Failure
from emulator.domain.values import StreamedOutput
from emulator.errors import StepNotFound
from emulator.projection.detail import DoDetail, InstanceDetail, WaitDetail
from emulator.projection.rendering import Json, event_of, failure_json, output_of


def step_output(detail: InstanceDetail, name: str, kind: str, attempt: int | None) -> Json:
    """What a step, or one attempt of it, came to; "running" with an error means that it waits for a retry.

    `name` has the step's number (`charge-1`); `kind` is "step" or "waitForEvent".

    Raises:
        StepNotFound: there is no such step, or no such attempt.
    """
    step = _found(detail, name, kind)
    return _wait(step) if isinstance(step, WaitDetail) else _do(step, attempt)


def streamed_output(
    detail: InstanceDetail, name: str, kind: str, attempt: int | None
) -> StreamedOutput | None:
    """What stands for the bytes that a step has returned as a stream; None if it has not, or they must not be shown.

    Raises:
        StepNotFound: there is no such step.
    """
    step = _found(detail, name, kind)
    if isinstance(step, WaitDetail) or step.result is None or step.config.sensitive is not None:
        return None
    result: object = values.decode(step.result)
    is_last = attempt in (None, len(step.attempts))
    return result if is_last and isinstance(result, StreamedOutput) else None


def _found(detail: InstanceDetail, name: str, kind: str) -> DoDetail | WaitDetail:
    for step in detail.steps:
        match step:
            case DoDetail(is_rollback=False) if (step.name, "step") == (name, kind):
                return step
            case WaitDetail() if (step.name, "waitForEvent") == (name, kind):
                return step
            case _:
                pass
    known = ", ".join(step.name for step in detail.steps) or "none"
    raise StepNotFound(f'There is no step "{name}" of the type {kind}. There are: {known}')


def _do(step: DoDetail, attempt: int | None) -> Json:
    success, error = step.success, step.error
    if attempt is not None:
        if attempt > len(step.attempts):
            raise StepNotFound(
                f'The step "{step.name}" has no attempt {attempt}: it had {len(step.attempts)}'
            )
        success, error = step.attempts[attempt - 1].success, step.attempts[attempt - 1].error
    elif success is None and step.attempts:
        error = step.attempts[-1].error
    output = {"output": output_of(step)} if success else {}
    return {"status": _status(success), "error": failure_json(error), **output}


def _wait(step: WaitDetail) -> Json:
    event = event_of(step)
    status = "waiting" if step.end_ms is None else _status(step.error is None)
    output = {} if event is None else {"output": event}
    error: Failure | None = step.error
    return {
        "status": status,
        "error": failure_json(error),
        **output,
        "event_type": step.event_type,
    }


def _status(success: bool | None) -> str:
    if success is None:
        return "running"
    return "complete" if success else "errored"
