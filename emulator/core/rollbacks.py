"""The rules of rollback: compensating what has been done.

Theory of operation
===================
When `run()` raises, or somebody terminates with `rollback`, every `do` step that started with a handler is compensated:
finished, failed (even if the failure was caught) or under way. The order is the reverse of the order in which the steps
started; one at a time; each tried by its own config. The first handler that fails for good stops the sequence. The
instance's error and final status are not changed by any of it (Cloudflare: rollback options, specification 8).

Handlers are code: they live in the incarnation that asked for their steps. After a crash, or for a sleeping instance,
`run()` is replayed only to find them again: ended steps answer, all others stay open, nothing is invoked or written.
That ends when every handler needed has been seen, when `run()` ends, or when it comes to rest.
"""

from __future__ import annotations

import msgspec

from emulator.core.attempts import INTERRUPTED, delay_before_retry
from emulator.core.decision import Decision
from emulator.core.effects import InvokeRollback
from emulator.core.inputs import RollbackRaised, RollbackReturned, TimerFired
from emulator.core.state import InstanceState, RollbackState, StepState
from emulator.domain.config import has_attempt_left
from emulator.domain.entries import (
    RollbackAttemptFailed,
    RollbackAttemptStarted,
    RollbackAttemptSucceeded,
    RollbackCompleted,
    RollbackFailed,
    RollbackStarted,
    RollbackStepFailed,
    RollbackStepStarted,
    RollbackStepSucceeded,
    WorkflowFailed,
    WorkflowTerminated,
)
from emulator.domain.failure import Failure
from emulator.domain.steps import StepKey

TERMINATED = Failure("Terminated", "Instance terminated during rollback")
"""The error that handlers see when somebody terminates with `rollback` (Cloudflare's name and text)."""


def has_eligible(state: InstanceState) -> bool:
    """Some step started with a handler."""
    return any(step.rollback is not None for step in state.steps.values())


def begin(
    decision: Decision, error: Failure, *, terminating: bool, reason: str | None = None
) -> None:
    """Start compensating. Whatever else runs is interrupted."""
    total_steps = sum(step.rollback is not None for step in decision.state.steps.values())
    decision.record(None, RollbackStarted(error, total_steps, terminating, reason))
    decision.clear_timers()
    decision.stop_run(keep_handlers=True)
    if _has_handlers(decision.state):
        proceed(decision)
    else:
        decision.start_run(registering=True)


def recover(decision: Decision, error: Failure = INTERRUPTED) -> None:
    """The process has died during a rollback: the handler that ran has failed an attempt, and all must be found again."""
    rollback = _rollback_of(decision.state)
    if rollback.in_flight:
        step = _current(decision.state)
        assert step.rollback is not None
        left = has_attempt_left(step.rollback, rollback.attempt)
        _fail_attempt(decision, step.key, error, 0 if left else None)
    if not decision.state.is_terminal:
        decision.start_run(registering=True)


def lost(decision: Decision, error: Failure, *, may_go_on: bool) -> None:
    """The process with the handlers has ended, and the emulator goes on; or the rollback stops here."""
    if may_go_on:
        decision.stop_run()
        recover(decision, error)
        return
    rollback = _rollback_of(decision.state)
    if rollback.current is None:
        decision.record(rollback.pending[-1], RollbackStepStarted())
    step = _current(decision.state).key
    if not rollback.in_flight:
        decision.record(step, RollbackAttemptStarted(rollback.attempt + 1))
    _fail_attempt(decision, step, error, None)


def registered(decision: Decision) -> None:
    """The replay has asked for another step: if no handler is missing, it has served."""
    if _has_handlers(decision.state):
        settled(decision)


def settled(decision: Decision) -> None:
    """The replay will find no more handlers."""
    decision.stop_run(keep_handlers=True)
    proceed(decision)


def proceed(decision: Decision) -> None:
    """Go on with the step under way, or with the next one; or end."""
    rollback = _rollback_of(decision.state)
    if rollback.current is not None:
        if rollback.due_ms is not None and rollback.due_ms > decision.now_ms:
            decision.arm(rollback.current, rollback.due_ms)
        else:
            _start_attempt(decision)
        return
    if rollback.pending:
        decision.record(rollback.pending[-1], RollbackStepStarted())
        _start_attempt(decision)
    else:
        decision.record(None, RollbackCompleted(rollback.total_steps, rollback.total_steps))
        _end(decision)


def returned(decision: Decision, result: RollbackReturned) -> None:
    """A handler returned: the step is compensated."""
    if not _is_current(decision.state, result.step, result.attempt):
        return
    decision.record(result.step, RollbackAttemptSucceeded(result.attempt))
    decision.record(result.step, RollbackStepSucceeded())
    proceed(decision)


def raised(decision: Decision, result: RollbackRaised) -> None:
    """A handler failed: another attempt, or the end of the rollback."""
    if not _is_current(decision.state, result.step, result.attempt):
        return
    config = decision.state.steps[result.step].rollback
    assert config is not None
    delay_ms = delay_before_retry(config, result)
    _fail_attempt(decision, result.step, result.error, delay_ms, result.delay_error)
    if not decision.state.is_terminal:
        proceed(decision)


def timer_fired(decision: Decision, timer: TimerFired) -> None:
    """The delay of a handler's retry is over. While the handlers are being found again, that has to wait."""
    rollback = _rollback_of(decision.state)
    if (
        rollback.current == timer.step
        and rollback.due_ms is not None
        and not decision.state.life.registering
    ):
        proceed(decision)


def _fail_attempt(
    decision: Decision,
    step: StepKey,
    error: Failure,
    delay_ms: int | None,
    step_error: Failure | None = None,
) -> None:
    """Record that an attempt failed; without a delay the rollback ends here."""
    rollback = _rollback_of(decision.state)
    decision.record(step, RollbackAttemptFailed(rollback.attempt, error, delay_ms))
    if delay_ms is None:
        decision.record(step, RollbackStepFailed(step_error))
        completed_steps = rollback.total_steps - len(rollback.pending)
        decision.record(None, RollbackFailed(rollback.total_steps, completed_steps))
        _end(decision)


def _start_attempt(decision: Decision) -> None:
    rollback = _rollback_of(decision.state)
    step = _current(decision.state)
    key = step.key
    assert step.rollback is not None
    assert step.config is not None
    decision.disarm(key)
    attempt = rollback.attempt + 1
    decision.record(key, RollbackAttemptStarted(attempt))
    output = step.outcome if isinstance(step.outcome, msgspec.Raw) else None
    decision.effects.append(
        InvokeRollback(
            key, attempt, step.rollback, rollback.error, output, step.attempt, step.config
        )
    )


def _end(decision: Decision) -> None:
    rollback = _rollback_of(decision.state)
    if rollback.terminating:
        decision.end(WorkflowTerminated(rollback.reason))
    else:
        decision.end(WorkflowFailed(rollback.error))


def _has_handlers(state: InstanceState) -> bool:
    pending, handlers = _rollback_of(state).pending, state.life.handlers
    return len(handlers) >= len(pending) and all(step in handlers for step in pending)


def _rollback_of(state: InstanceState) -> RollbackState:
    assert state.rollback is not None
    return state.rollback


def _current(state: InstanceState) -> StepState:
    key = _rollback_of(state).current
    assert key is not None
    return state.steps[key]


def _is_current(state: InstanceState, step: StepKey, attempt: int) -> bool:
    rollback = state.rollback
    return (
        rollback is not None
        and rollback.in_flight
        and rollback.current == step
        and rollback.attempt == attempt
    )
