"""The rules of `step.do`: attempts, retries, results.

Theory of operation
===================
A step is asked for by every incarnation; what is done depends on what the journal knows of it. Unknown: it starts, with
its first attempt. Ended: the stored outcome is the answer. Between retries: its timer is armed; an attempt is only ever
invoked for code that asks for it. An attempt's start is committed before its callback is called, so a callback that
kills the process uses up an attempt: at recovery it has failed with `WorkflowInternalError`, and the next may start.

`retries.limit` counts the retries after the first attempt. A failed attempt without a further one ends the step, and
the failure is stored: replay raises it again. While a pause is pending no attempt starts (Cloudflare: pausing).

A step that the code has cancelled, such as the loser of a race, keeps the attempt under way, whose result is stored; no
retry follows. In a replay the code asks for it again, and most likely cancels it again: it is tried only if the code
comes to rest on it.
"""

from __future__ import annotations

from emulator.core.decision import Decision
from emulator.core.effects import InvokeAttempt
from emulator.core.inputs import AttemptRaised, AttemptReturned, DoRequested, RollbackRaised
from emulator.core.state import StepState
from emulator.domain.config import StepConfig, has_attempt_left, retry_delay_ms
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    RetriesAbandoned,
    StepFailed,
    StepStarted,
    StepSucceeded,
    WorkflowPaused,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind

INTERRUPTED = Failure("WorkflowInternalError", "Attempt failed due to internal workflows error")
"""The error of an attempt whose process died (Cloudflare's name and text)."""


def do_requested(decision: Decision, request: DoRequested) -> None:
    """`run()` asks for a step that has not ended."""
    step = decision.state.open.get(request.step)
    if step is None:
        decision.record(request.step, StepStarted(request.config, request.rollback))
        start_attempt(decision, decision.state.open[request.step])
        return
    if step.in_flight:
        # An incarnation asks for a step once, so another one has left this attempt behind.
        fail_interrupted_attempt(decision, step)
    if step.finished_seq:
        decision.answer(step)
    elif step.abandoned:
        return  # see `come_back`
    elif step.due_ms is not None and not _is_due(decision, step):
        # Stored once more: the timer may have fired before the clock was set back.
        decision.arm(step.key, step.due_ms)
    else:
        start_attempt(decision, step)


def start_attempt(decision: Decision, step: StepState) -> None:
    """Begin the next attempt."""
    assert step.config is not None
    attempt = step.attempt + 1
    if step.due_ms is not None:
        decision.disarm(step.key)
    decision.record(step.key, AttemptStarted(attempt))
    decision.state.life.in_flight.add(step.key)
    modifiers = decision.state.modifiers
    mocked = None if modifiers is None else modifiers.verdict(step.key, attempt)
    decision.effects.append(InvokeAttempt(step.key, attempt, step.config, mocked))


def abandoned(decision: Decision, step: StepState) -> None:
    """User code cancelled a step: nobody waits for a retry."""
    if not (step.finished_seq or step.abandoned):
        decision.record(step.key, RetriesAbandoned())
        if step.due_ms is not None:
            decision.disarm(step.key)


def come_back(decision: Decision) -> None:
    """The code rests. Steps that it had cancelled, and asks for again, are tried again when they are due."""
    for step in _asked_for(decision):
        if step.abandoned:
            if step.due_ms is not None and not _is_due(decision, step):
                decision.arm(step.key, step.due_ms)
            else:
                start_attempt(decision, step)


def attempt_returned(decision: Decision, result: AttemptReturned) -> None:
    """A callback returned: the step has its result."""
    if not _is_current(decision, result.step, result.attempt):
        return
    decision.record(result.step, AttemptSucceeded(result.attempt))
    decision.record(result.step, StepSucceeded(result.result))
    _after_attempt(decision, decision.state.steps[result.step])


def attempt_raised(decision: Decision, result: AttemptRaised) -> None:
    """A callback failed: another attempt, or the end of the step."""
    if not _is_current(decision, result.step, result.attempt):
        return
    step = decision.state.open[result.step]
    assert step.config is not None
    delay_ms = delay_before_retry(step.config, result)
    fail_attempt(decision, step, result.error, delay_ms, result.delay_error)
    _after_attempt(decision, step)


def delay_before_retry(config: StepConfig, result: AttemptRaised | RollbackRaised) -> int | None:
    """How many milliseconds to wait for the next attempt of a callback or a handler; None when there is none."""
    if (
        not result.retryable
        or result.delay_error is not None
        or not has_attempt_left(config, result.attempt)
    ):
        return None
    if result.retry_after_ms is not None:
        return result.retry_after_ms
    return retry_delay_ms(config, result.attempt, result.base_delay_ms)


def fail_attempt(
    decision: Decision,
    step: StepState,
    error: Failure,
    delay_ms: int | None,
    step_error: Failure | None = None,
) -> None:
    """Record that an attempt failed; without a delay the step has failed, with `step_error` if that is another error."""
    decision.record(step.key, AttemptFailed(step.attempt, error, delay_ms))
    if delay_ms is None:
        decision.record(step.key, StepFailed(step_error))
    elif not step.abandoned:
        assert step.due_ms is not None
        decision.arm(step.key, step.due_ms)


def fail_interrupted_attempts(decision: Decision, error: Failure = INTERRUPTED) -> None:
    """Record the failure of the attempts that nobody calls any more."""
    for step in list(decision.state.open.values()):
        if step.in_flight:
            fail_interrupted_attempt(decision, step, error)


def fail_interrupted_attempt(
    decision: Decision, step: StepState, error: Failure = INTERRUPTED
) -> None:
    """Record the failure of an attempt that nobody calls any more; if another may follow, it is due at once."""
    assert step.config is not None
    has_another = has_attempt_left(step.config, step.attempt)
    fail_attempt(decision, step, error, 0 if has_another else None)


def retry_due(decision: Decision, step: StepState) -> None:
    """A retry's delay is over. The attempt starts once the code asks for the step, and its instance has a slot."""
    state = decision.state
    is_asked_for = step.key in state.life.requested
    if is_asked_for and state.status is not InstanceStatus.WAITING:
        start_attempt(decision, step)
        return
    decision.disarm(step.key)
    if is_asked_for or not state.life.running:
        decision.go_on()


def start_due_retries(decision: Decision) -> None:
    """Begin the retries whose delay was over while there was no slot for them."""
    for step in _asked_for(decision):
        if _is_due(decision, step):
            start_attempt(decision, step)


def _asked_for(decision: Decision) -> list[StepState]:
    """The steps that have not ended, and that the code asks for; by age."""
    state = decision.state
    return [
        step
        for step in state.open.values()
        if step.key.kind is StepKind.DO and step.key in state.life.requested
    ]


def _is_current(decision: Decision, key: StepKey, attempt: int) -> bool:
    return key in decision.state.life.in_flight and decision.state.open[key].attempt == attempt


def _is_due(decision: Decision, step: StepState) -> bool:
    """Whether the delay of a retry is over, or a test wants none."""
    if step.due_ms is None or step.due_ms <= decision.now_ms:
        return step.due_ms is not None
    modifiers = decision.state.modifiers
    return modifiers is not None and modifiers.skips_delay(step.key)


def _after_attempt(decision: Decision, step: StepState) -> None:
    state = decision.state
    state.life.in_flight.discard(step.key)
    if state.status is InstanceStatus.WAITING_FOR_PAUSE and not state.life.in_flight:
        pause_now(decision)
    elif step.finished_seq:
        decision.answer(step)
    elif _is_due(decision, step) and state.status is InstanceStatus.RUNNING:
        retry_due(decision, step)


def pause_now(decision: Decision) -> None:
    """Nothing is in flight any more: the pause takes hold, and deadlines stand still."""
    decision.record(None, WorkflowPaused())
    decision.clear_timers()
    decision.stop_run()
