"""The journal as Cloudflare's subscriptions show it (Cloudflare: Workers API, subscribe; specification 12.3).

Every entry with a number below 100 is an event; our own are not shown, nor are the engine's own steps. An event tells more than its entry: the params
that the instance started with, the config of a step that is rolled back. So a log is read from its beginning, by one
`EventLog`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import msgspec

from emulator.domain import entries as facts
from emulator.domain import values
from emulator.domain.config import StepConfig
from emulator.domain.entries import Entry, Fact
from emulator.domain.instance import Creation
from emulator.domain.limits import MAX_SAFE_INTEGER
from emulator.domain.steps import StepKey
from emulator.errors import InvalidSubscription
from emulator.projection.rendering import REDACTED, Json, config_json, failure_json

EVENT_TYPES: Final[dict[type[Fact], str]] = {
    facts.WorkflowQueued: "workflow_queued",
    facts.WorkflowStarted: "workflow_started",
    facts.WorkflowSucceeded: "workflow_completed",
    facts.WorkflowFailed: "workflow_errored",
    facts.WorkflowTerminated: "workflow_terminated",
    facts.StepStarted: "step_started",
    facts.StepSucceeded: "step_completed",
    facts.StepFailed: "step_errored",
    facts.SleepStarted: "sleep_started",
    facts.SleepCompleted: "sleep_completed",
    facts.AttemptStarted: "attempt_started",
    facts.AttemptSucceeded: "attempt_completed",
    facts.AttemptFailed: "attempt_errored",
    facts.WaitStarted: "wait_started",
    facts.WaitCompleted: "wait_completed",
    facts.WaitTimedOut: "wait_timed_out",
    facts.RollbackStarted: "rollback_started",
    facts.RollbackStepStarted: "rollback_step_started",
    facts.RollbackAttemptStarted: "rollback_attempt_started",
    facts.RollbackAttemptSucceeded: "rollback_attempt_completed",
    facts.RollbackAttemptFailed: "rollback_attempt_errored",
    facts.RollbackStepSucceeded: "rollback_step_completed",
    facts.RollbackStepFailed: "rollback_step_errored",
    facts.RollbackCompleted: "rollback_completed",
    facts.RollbackFailed: "rollback_errored",
    facts.WorkflowRunning: "workflow_running",
    facts.WorkflowPaused: "workflow_paused",
    facts.WorkflowWaitingForPause: "workflow_waiting_for_pause",
    facts.WorkflowWaiting: "workflow_waiting",
}
"""The type of the event that a fact is shown as."""

TERMINAL_EVENTS: Final = frozenset(
    {"workflow_completed", "workflow_errored", "workflow_terminated"}
)
"""The types after which nothing comes, unless the instance is restarted."""


MAX_CURSOR: Final = MAX_SAFE_INTEGER
"""The largest whole number of JavaScript's."""


class EventFilter(NamedTuple):
    """Which events a subscription wants: those after number `cursor`, of these types."""

    cursor: int = 0
    types: frozenset[str] = frozenset(EVENT_TYPES.values())


def event_filter(cursor: object = None, types: object = None) -> EventFilter:
    """Check the options of a subscription; None is one that is not given (Cloudflare: Workers API, subscribe).

    Raises:
        InvalidSubscription: the cursor is no whole number from 0 up, or the types are no list of types of events.
    """
    wanted = EventFilter()
    if cursor is not None:
        if type(cursor) is not int or not 0 <= cursor <= MAX_CURSOR:
            raise InvalidSubscription(
                detail=f"cursor must be a whole number from 0 up, not {cursor!r}"
            )
        wanted = wanted._replace(cursor=cursor)
    if types is not None:
        if not isinstance(types, (list, tuple)):
            raise InvalidSubscription(detail=f"filter must be a list of types, not {types!r}")
        for each in cast("list[Any]", types):
            if not isinstance(each, str) or each not in wanted.types:
                known = ", ".join(sorted(wanted.types))
                raise InvalidSubscription(detail=f"filter: {each!r} is none of {known}")
        wanted = wanted._replace(types=frozenset(cast("list[str]", types)))
    return wanted


class EventLog:
    """The events of one instance. Give it every entry, in order."""

    def __init__(self, creation: Creation) -> None:
        self._creation = creation
        self._configs: dict[StepKey, StepConfig] = {}
        self._rollback_configs: dict[StepKey, StepConfig] = {}

    def event(self, seq: int, entry: Entry) -> Json | None:
        """Give the event that entry number `seq` is shown as; None for one that is not shown."""
        fact = entry.fact
        event_type = EVENT_TYPES.get(type(fact))
        if event_type is None or (entry.step is not None and entry.step.is_internal):
            return None
        shown: Json = {
            "instanceId": self._creation.id,
            "eventId": seq,
            "timestamp": entry.at_ms,
            "type": event_type,
        }
        if entry.step is None:
            shown.update(self._of_instance(fact))
        else:
            shown["stepName"] = entry.step.label
            shown.update(self._of_step(entry.step, fact))
        return shown

    def _of_instance(self, fact: Fact) -> Json:
        match fact:
            case facts.WorkflowStarted():
                return {"params": values.plain(self._creation.params)}
            case facts.WorkflowSucceeded(result):
                return _output(values.plain(result))
            case facts.WorkflowFailed(error):
                return {"error": failure_json(error)}
            case _:
                return {}

    def _of_step(self, step: StepKey, fact: Fact) -> Json:
        match fact:
            case facts.StepStarted(config, rollback):
                self._configs[step] = config
                if rollback is not None:
                    self._rollback_configs[step] = rollback
                return {"config": config_json(config)}
            case facts.StepSucceeded(result):
                return _output(self._shown(step, result))
            case facts.RollbackStepStarted():
                return {"config": config_json(self._rollback_configs[step])}
            case facts.RollbackStepFailed(error) if error is not None:
                return {"error": failure_json(error)}
            case facts.SleepStarted(duration_ms):
                return {"durationMs": duration_ms}
            case facts.WaitStarted(event_type):
                return {"eventType": event_type}
            case _:
                return _of_attempt(fact)

    def _shown(self, step: StepKey, result: msgspec.Raw) -> object:
        return values.plain(result) if self._configs[step].sensitive is None else REDACTED


def _of_attempt(fact: Fact) -> Json:
    match fact:
        case (
            facts.AttemptStarted(attempt)
            | facts.AttemptSucceeded(attempt)
            | facts.RollbackAttemptStarted(attempt)
            | facts.RollbackAttemptSucceeded(attempt)
        ):
            return {"attempt": attempt}
        case facts.AttemptFailed(attempt, error, delay_ms) | facts.RollbackAttemptFailed(
            attempt, error, delay_ms
        ):
            delay = {} if delay_ms is None else {"retryDelayMs": delay_ms}
            return {"attempt": attempt, **delay, "error": failure_json(error)}
        case _:
            return {}


def _output(output: object) -> Json:
    return {} if output is None else {"output": output}
