"""An `InstanceDetail` as JSON, in the two shapes that Cloudflare has for it.

`local` is what the explorer API of `wrangler dev` answers, `remote` what Cloudflare's REST API does (Cloudflare: REST
API, workflows/instances; specification http-api 2.3 and 3). They differ where the two services do: outputs as values or
as shortened JSON text, the end of an open sleep, the entries of a rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from emulator.domain import values
from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from emulator.projection.detail import (
    Attempt,
    DoDetail,
    InstanceDetail,
    SleepDetail,
    StepDetail,
    WaitDetail,
)

Json = dict[str, Any]

REDACTED: Final = "[REDACTED]"
"""What stands for the output of a step that is `sensitive: "output"`."""

MAX_OUTPUT_CHARS: Final = 1024
TRUNCATED: Final = "[truncated output]"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = (
    253_402_300_799_999  # the end of the year 9999, beyond which ISO 8601 has no four digits
)


@lru_cache(maxsize=256)  # a step and its attempt begin and end at the same times
def iso(at_ms: int) -> str:
    """Write an instant as Cloudflare does: ISO 8601 in UTC with milliseconds."""
    instant = _EPOCH + timedelta(milliseconds=min(at_ms, _LAST_MS))
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(at_ms: int | None) -> str | None:
    """Write an instant that may not have come."""
    return None if at_ms is None else iso(at_ms)


def output_of(step: DoDetail) -> Any:
    """The step's result as it may be shown: a JSON value, or `"[REDACTED]"`."""
    if step.result is None:
        return None
    return REDACTED if step.config.sensitive is not None else values.plain(step.result)


def event_of(wait: WaitDetail) -> Json | None:
    """The event that a wait took: `type`, `payload` (only if there is one), `timestamp`; None without one."""
    if wait.received_ms is None:
        return None
    payload = {} if wait.payload is None else {"payload": values.plain(wait.payload)}
    return {"type": wait.event_type, **payload, "timestamp": iso(wait.received_ms)}


def config_json(config: StepConfig) -> Json:
    """A step's config, values as the user wrote them."""
    retries = config.retries
    made: Json = {
        "retries": {"limit": retries.limit, "delay": retries.delay, "backoff": retries.backoff},
        "timeout": config.timeout,
    }
    if config.sensitive is not None:
        made["sensitive"] = config.sensitive
    return made


def failure_json(error: Failure | None) -> Json | None:
    """An error: `name` and `message`."""
    return None if error is None else {"name": error.name, "message": error.message}


def local_detail(detail: InstanceDetail) -> Json:
    """What `wrangler dev` answers about an instance."""
    steps = [step for step in detail.steps if not (isinstance(step, DoDetail) and step.is_rollback)]
    return {
        "status": detail.status,
        "params": values.plain(detail.creation.params),
        "queued": iso(detail.queued_ms),
        "start": iso_or_none(detail.started_ms),
        "end": iso_or_none(detail.ended_ms),
        "output": _plain_or_none(detail.output),
        "error": failure_json(detail.error),
        "steps": _each(steps, _local_do, _local_sleep, _local_wait),
        "step_count": len(steps),
    }


def remote_detail(
    detail: InstanceDetail, version_id: str, *, descending: bool = False, with_steps: bool = True
) -> Json:
    """What Cloudflare's API answers about an instance. Without steps their number stays."""
    ending: list[Json] = []
    if detail.status is InstanceStatus.TERMINATED:
        # The journal does not say who ended it.
        ending.append({"type": "termination", "trigger": {"source": "unknown"}})
    steps: list[Json] = []
    if with_steps:
        steps = _each(detail.steps, _remote_do, _remote_sleep, _remote_wait) + ending
    if descending:
        steps.reverse()
    made: Json = {
        "status": detail.status,
        "params": values.plain(detail.creation.params),
        "trigger": {"source": detail.creation.source},
        "versionId": version_id,
        "queued": iso(detail.queued_ms),
        "start": iso_or_none(detail.started_ms),
        "end": iso_or_none(detail.ended_ms),
        "success": detail.success,
        "error": failure_json(detail.error),
        "output": _plain_or_none(detail.output),
        "rollback": _rollback(detail),
        "step_count": len(detail.steps) + len(ending),
        "steps": steps,
    }
    if (schedule := detail.creation.schedule) is not None:
        made["schedule"] = {"cron": schedule.cron, "scheduledTime": schedule.scheduled_ms}
    return made


def _each(
    steps: Sequence[StepDetail],
    of_do: Callable[[DoDetail], Json],
    of_sleep: Callable[[SleepDetail], Json],
    of_wait: Callable[[WaitDetail], Json],
) -> list[Json]:
    rendered: list[Json] = []
    for step in steps:
        match step:
            case DoDetail():
                rendered.append(of_do(step))
            case SleepDetail():
                rendered.append(of_sleep(step))
            case WaitDetail():
                rendered.append(of_wait(step))
    return rendered


def _do(step: DoDetail) -> Json:
    return {
        "name": step.name,
        "start": iso(step.start_ms),
        "end": iso_or_none(step.end_ms),
        "success": step.success,
        "type": "rollback" if step.is_rollback else "step",
        "config": config_json(step.config),
        "attempts": [_attempt(attempt) for attempt in step.attempts],
    }


def _attempt(attempt: Attempt) -> Json:
    return {
        "start": iso(attempt.start_ms),
        "end": iso_or_none(attempt.end_ms),
        "success": attempt.success,
        "error": failure_json(attempt.error),
    }


def _local_do(step: DoDetail) -> Json:
    output = output_of(step)
    return _do(step) if output is None else {**_do(step), "output": output}


def _remote_do(step: DoDetail) -> Json:
    # JSON text, so that no result at all is null and the result null is "null".
    output = None if step.result is None else _shortened(output_of(step))
    return {**_do(step), "output": output}


def _sleep(step: SleepDetail, end_ms: int | None) -> Json:
    return {
        "name": step.name,
        "start": iso(step.start_ms),
        "end": iso_or_none(end_ms),
        "finished": step.end_ms is not None,
        "type": "sleep",
        "error": None,
    }


def _local_sleep(step: SleepDetail) -> Json:
    return _sleep(step, step.end_ms)


def _remote_sleep(step: SleepDetail) -> Json:
    return _sleep(step, step.due_ms if step.end_ms is None else step.end_ms)


def _wait(step: WaitDetail, end_ms: int | None) -> Json:
    return {
        "name": step.name,
        "start": iso(step.start_ms),
        "end": iso_or_none(end_ms),
        "finished": step.end_ms is not None,
        "type": "waitForEvent",
    }


def _local_wait(step: WaitDetail) -> Json:
    # The local engine keeps the name of a timeout and loses its message.
    error = None if step.error is None else {"name": step.error.name, "message": ""}
    return {**_wait(step, step.end_ms), "error": error, "output": event_of(step)}


def _remote_wait(step: WaitDetail) -> Json:
    event = event_of(step)
    return {
        **_wait(step, step.due_ms if step.end_ms is None else step.end_ms),
        "error": failure_json(step.error),
        "output": None if event is None else _shortened(event),
        "event_type": step.event_type,
    }


def _rollback(detail: InstanceDetail) -> Json | None:
    if detail.rollback is None:
        return None
    return {"outcome": detail.rollback.outcome, "error": failure_json(detail.rollback.error)}


def _plain_or_none(value: msgspec.Raw | None) -> Any:
    return None if value is None else values.plain(value)


def _shortened(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_OUTPUT_CHARS else text[:MAX_OUTPUT_CHARS] + TRUNCATED
