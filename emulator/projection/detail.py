"""What an instance looks like from outside: a fold of its journal for people to read.

Theory of operation
===================
`core.evolve` keeps what the rules need to go on; this fold keeps what somebody wants to see: every attempt with its
times, the rollback, the end. Both read the same entries. Everything that shows an instance (the two REST APIs, the
bindings, the inspector) renders this one `InstanceDetail`, so no two views can disagree.

Steps are listed in the order in which they started, the handlers of a rollback after them. A payload of a hook shows as
an event that is waited for; what nobody has written as a step does not show. Times are wall-clock
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from emulator.domain import entries as facts
from emulator.domain.config import StepConfig
from emulator.domain.entries import Entry
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind


class Attempt(msgspec.Struct, frozen=True):
    """One call of a callback. `success` is None while it runs."""

    start_ms: int
    end_ms: int | None = None
    success: bool | None = None
    error: Failure | None = None


class DoDetail(msgspec.Struct, frozen=True):
    """A `do` step, or the rollback of one. `success` is None while it runs or waits for a retry.

    `result` is the stored value, also of a step whose output must not be shown (`config.sensitive`).
    """

    name: str
    start_ms: int
    config: StepConfig
    is_rollback: bool = False
    end_ms: int | None = None
    success: bool | None = None
    result: msgspec.Raw | None = None
    error: Failure | None = None
    attempts: tuple[Attempt, ...] = ()


class SleepDetail(msgspec.Struct, frozen=True):
    """A sleep. `due_ms` is when it ends, or was to end; `until` says that no pause shifts that."""

    name: str
    start_ms: int
    due_ms: int
    until: bool = False
    end_ms: int | None = None


class WaitDetail(msgspec.Struct, frozen=True):
    """A wait for an event, and what it took. `due_ms` is when it gives up; None: never."""

    name: str
    start_ms: int
    due_ms: int | None
    event_type: str
    end_ms: int | None = None
    received_ms: int | None = None
    payload: msgspec.Raw | None = None
    error: Failure | None = None

    @property
    def is_for_hook(self) -> bool:
        """Whether it is a payload of a hook that is waited for, which nobody can send as an event."""
        return self.event_type.startswith(facts.HOOK_CHANNEL)


StepDetail = DoDetail | SleepDetail | WaitDetail


class RollbackDetail(msgspec.Struct, frozen=True):
    """How a rollback ended. `error` is the handler's that stopped it."""

    outcome: Literal["complete", "failed"]
    error: Failure | None = None


class InstanceDetail(msgspec.Struct, frozen=True):
    """An instance as people see it. `success` is None until it has completed or errored.

    `reason` is what was said by who terminated it.
    """

    creation: Creation
    status: InstanceStatus
    queued_ms: int
    started_ms: int | None
    ended_ms: int | None
    success: bool | None
    output: msgspec.Raw | None
    error: Failure | None
    rollback: RollbackDetail | None
    steps: tuple[StepDetail, ...]
    reason: str | None = None
    attributes: Mapping[str, str] = {}


def detail(
    creation: Creation, status: InstanceStatus, entries: Iterable[tuple[int, Entry]]
) -> InstanceDetail:
    """Fold the whole journal of an instance into what is shown of it."""
    view = _View()
    for _, entry in entries:
        view.see(entry)
    return InstanceDetail(
        creation,
        status,
        creation.created_ms if view.queued_ms is None else view.queued_ms,
        view.started_ms,
        view.ended_ms,
        view.success,
        view.output,
        view.error,
        view.rollback,
        (*view.steps.values(), *view.rollbacks.values()),
        view.reason,
        view.attributes,
    )


class _View:
    """The detail while it is being folded: its steps by key, and those of the rollback."""

    def __init__(self) -> None:
        self.queued_ms: int | None = None
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.success: bool | None = None
        self.output: msgspec.Raw | None = None
        self.error: Failure | None = None
        self.rollback: RollbackDetail | None = None
        self.reason: str | None = None
        self.attributes: dict[str, str] = {}
        self.steps: dict[StepKey, StepDetail] = {}
        self.rollbacks: dict[StepKey, DoDetail] = {}
        self.rollback_configs: dict[StepKey, StepConfig] = {}

    def see(self, entry: Entry) -> None:
        if entry.step is None:
            self._instance(entry.at_ms, entry.fact)
        elif entry.step.is_internal:
            pass
        elif entry.fact.event in facts.ROLLBACK_EVENTS:
            self._compensation(entry.at_ms, entry.step, entry.fact)
        elif entry.step.kind is StepKind.DO:
            self._do(entry.at_ms, entry.step, entry.fact)
        else:
            self._rest(entry.at_ms, entry.step, entry.fact)

    def _instance(self, at_ms: int, fact: facts.Fact) -> None:
        match fact:
            case facts.WorkflowQueued(shift_ms):
                self._queued(at_ms, shift_ms)
            case facts.WorkflowStarted():
                self.started_ms = at_ms
            case facts.WorkflowSucceeded(result):
                self.ended_ms, self.success, self.output = at_ms, True, result
            case facts.WorkflowFailed(error):
                self.ended_ms, self.success, self.error = at_ms, False, error
            case facts.WorkflowTerminated(reason):
                self.ended_ms, self.reason = at_ms, reason
            case facts.AttributesChanged(changes):
                merged = {**self.attributes, **changes}
                self.attributes = {
                    name: value for name, value in merged.items() if value is not None
                }
            case facts.RollbackCompleted():
                self.rollback = RollbackDetail("complete")
            case facts.RollbackFailed():
                failed = [step.error for step in self.rollbacks.values() if step.success is False]
                self.rollback = RollbackDetail("failed", failed[-1] if failed else None)
            case _:
                pass

    def _queued(self, at_ms: int, shift_ms: int) -> None:
        if self.queued_ms is None:
            self.queued_ms = at_ms
        if not shift_ms:
            return
        for key, step in self.steps.items():
            match step:
                case (
                    SleepDetail(due_ms=due_ms, end_ms=None, until=False)
                    | WaitDetail(due_ms=due_ms, end_ms=None)
                ) if due_ms is not None:
                    self._change(key, due_ms=due_ms + shift_ms)
                case _:
                    pass

    def _do(self, at_ms: int, key: StepKey, fact: facts.Fact) -> None:
        if isinstance(fact, facts.StepStarted):
            self.steps[key] = DoDetail(key.label, at_ms, fact.config)
            if fact.rollback is not None:
                self.rollback_configs[key] = fact.rollback
            return
        step = self.steps[key]
        assert isinstance(step, DoDetail)
        match fact:
            case facts.StepSucceeded(result):
                self._change(key, end_ms=at_ms, success=True, result=result)
            case facts.StepFailed(error):
                self._change(key, end_ms=at_ms, success=False, error=error or _last_error(step))
            case _:
                self.steps[key] = _tried(step, at_ms, fact)

    def _rest(self, at_ms: int, key: StepKey, fact: facts.Fact) -> None:
        match fact:
            case facts.SleepStarted(_, wake_ms, until):
                self.steps[key] = SleepDetail(key.label, at_ms, wake_ms, until)
            case facts.WaitStarted(event_type, _, deadline_ms):
                self.steps[key] = WaitDetail(key.label, at_ms, deadline_ms, event_type)
            case facts.SleepCompleted():
                self._change(key, end_ms=at_ms)
            case facts.WaitCompleted(_, received_ms, payload):
                self._change(key, end_ms=at_ms, received_ms=received_ms, payload=payload)
            case facts.WaitTimedOut(error):
                self._change(key, end_ms=at_ms, error=error)
            case facts.WaitAbandoned():  # what it took has gone back
                self._change(key, end_ms=None, received_ms=None, payload=None)
            case _:
                pass

    def _compensation(self, at_ms: int, key: StepKey, fact: facts.Fact) -> None:
        if isinstance(fact, facts.RollbackStepStarted):
            config = self.rollback_configs[key]
            self.rollbacks[key] = DoDetail(key.label, at_ms, config, is_rollback=True)
            return
        step = self.rollbacks[key]
        match fact:
            case facts.RollbackStepSucceeded():
                step = msgspec.structs.replace(step, end_ms=at_ms, success=True)
            case facts.RollbackStepFailed(error):
                step = msgspec.structs.replace(
                    step, end_ms=at_ms, success=False, error=error or _last_error(step)
                )
            case _:
                step = _tried(step, at_ms, fact)
        self.rollbacks[key] = step

    def _change(self, key: StepKey, **changes: Any) -> None:
        self.steps[key] = msgspec.structs.replace(self.steps[key], **changes)


def _tried(step: DoDetail, at_ms: int, fact: facts.Fact) -> DoDetail:
    """The step after an attempt has begun or ended."""
    attempts = step.attempts
    match fact:
        case facts.AttemptStarted() | facts.RollbackAttemptStarted():
            attempts = (*attempts, Attempt(at_ms))
        case facts.AttemptSucceeded() | facts.RollbackAttemptSucceeded():
            attempts = (*attempts[:-1], Attempt(attempts[-1].start_ms, at_ms, success=True))
        case facts.AttemptInterrupted() | facts.RollbackAttemptInterrupted():
            attempts = attempts[:-1]
        case facts.AttemptFailed(_, error) | facts.RollbackAttemptFailed(_, error):
            attempts = (*attempts[:-1], Attempt(attempts[-1].start_ms, at_ms, False, error))
        case _:
            pass
    return msgspec.structs.replace(step, attempts=attempts)


def _last_error(step: DoDetail) -> Failure | None:
    return step.attempts[-1].error if step.attempts else None
