"""The dictionaries that user code is given: the event, the step context, an event that was waited for."""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256

from bindings.convert import js_dict, local_datetime
from emulator.domain.config import DYNAMIC_DELAY, StepConfig
from emulator.domain.values import JsDict
from emulator.engine.programs import RunEvent
from emulator.engine.step_code import AttemptContext
from emulator.engine.steps import WaitedEvent

_STEP_ID_BYTES = 15


def run_event(event: RunEvent) -> JsDict:
    """What `run()` gets: `payload`, `timestamp`, `instanceId`, `workflowName`, and `schedule` of a cron instance."""
    made = js_dict(
        payload=event.payload,
        timestamp=local_datetime(event.timestamp_ms),
        instanceId=event.instance_id,
        workflowName=event.workflow_name,
    )
    if event.schedule is not None:
        made["schedule"] = js_dict(
            cron=event.schedule.cron, scheduledTime=event.schedule.scheduled_ms
        )
    return made


def waited_event(event: WaitedEvent) -> JsDict:
    """What `wait_for_event` gives: `payload` (only if there is one), `type`, `timestamp` of its arrival."""
    made = js_dict(payload=event.payload) if event.has_payload else _WithoutPayload()
    made.update(type=event.event_type, timestamp=local_datetime(event.received_ms))
    return made


class _WithoutPayload(JsDict):
    """An event that was sent without a payload. Asked for, it is None; JSON has no key (Cloudflare: it is undefined)."""

    __slots__ = ()
    payload = None

    def __missing__(self, key: str) -> None:
        if key != "payload":
            raise KeyError(key)


def step_context(context: AttemptContext) -> JsDict:
    """What a callback gets as `ctx`: `step` (name, count), `attempt`, `config`. A copy: changing it changes nothing."""
    return StepInfo(context)


class StepInfo(JsDict):
    """Cloudflare's step context. What it has beyond that is an attribute and no key, so that it prints the same."""

    __slots__ = ("_context",)

    def __init__(self, context: AttemptContext) -> None:
        step = js_dict(name=context.step.name, count=context.step.count)
        super().__init__(step=step, attempt=context.attempt, config=_config(context.config))
        object.__setattr__(self, "_context", context)

    @property
    def step_id(self) -> str:
        """A text that is the same in every attempt of the step and differs from every other step's: an idempotency key.

        (Workflow SDK: getStepMetadata.)
        """
        made, step = self._context.creation, self._context.step
        named = (made.workflow, made.id, str(made.created_ms), step.label)
        digest = sha256("\0".join(named).encode()).digest()[:_STEP_ID_BYTES]
        return "step_" + b32encode(digest).decode().lower()


def _config(config: StepConfig) -> JsDict:
    """The resolved config, values as the user wrote them; a computed delay is left out (Cloudflare: step context)."""
    retries = js_dict(limit=config.retries.limit, backoff=config.retries.backoff)
    if config.retries.delay != DYNAMIC_DELAY:
        retries["delay"] = config.retries.delay
    made = js_dict(retries=retries, timeout=config.timeout)
    if config.sensitive is not None:
        made["sensitive"] = config.sensitive
    return made
