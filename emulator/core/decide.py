"""`decide`: one input to an instance, and what follows from it. Dispatch only; the rules are in the modules beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.core import attempts, hooks, inputs, lifecycle, losses, rollbacks, sleeps, waits
from emulator.core.decision import Decision
from emulator.core.inputs import (
    DoRequested,
    Input,
    RunInput,
    SleepRequested,
    StepRequest,
    TimerFired,
    WaitRequested,
)
from emulator.core.modifiers import ModifiersChanged
from emulator.core.state import InstanceState, StepState
from emulator.domain.failure import failure_of
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKind


def decide(state: InstanceState, item: Input, now_ms: int) -> Decision:
    """Apply the rules to one input. The state is changed by the entries that are decided, at once.

    A stale input (of a dead incarnation, of a deadline that has moved) decides nothing. What the rules do not allow is a
    `refusal`, with no entry and no effect.
    """
    decision = Decision(state, now_ms)
    if isinstance(item, RunInput) and item.incarnation != state.life.incarnation:
        return decision
    _RULES[type(item)](decision, item)
    return decision


def _step_requested(decision: Decision, request: StepRequest) -> None:
    state, life = decision.state, decision.state.life
    life.requested[request.step] = None
    life.at_rest = False
    if isinstance(request, DoRequested) and request.rollback is not None:
        life.handlers.add(request.step)
    step = state.steps.get(request.step)
    if life.registering:
        if step is not None and step.finished_seq:
            decision.answer(step)
        rollbacks.registered(decision)
    elif step is not None and step.finished_seq and state.status is not InstanceStatus.WAITING:
        decision.answer(step)
    elif state.status is InstanceStatus.RUNNING:
        _REQUESTS[type(request)](decision, request)
    else:
        # A pause is pending, or the code had come to rest and moves again: nothing new starts before that is settled.
        life.held.append(request)
        if state.status is InstanceStatus.WAITING:
            decision.wake()


def _step_abandoned(decision: Decision, request: inputs.StepAbandoned) -> None:
    state, life = decision.state, decision.state.life
    life.requested.pop(request.step, None)
    step = state.steps.get(request.step)
    if step is not None and not life.registering and step.key.kind in _ABANDONED:
        _ABANDONED[step.key.kind](decision, step)
    if state.status is InstanceStatus.WAITING:
        # The code had come to rest and moves again. What it rested on may be gone: as one that runs it is taken up after a
        # crash.
        decision.wake()


def _hook_requested(decision: Decision, request: inputs.HookRequested) -> None:
    state, life = decision.state, decision.state.life
    life.requested[request.step] = None
    life.at_rest = False
    if life.registering:
        if request.step in state.steps:
            decision.answer(state.steps[request.step])
    elif diverged := hooks.divergence(state, request):
        lifecycle.run_failed(decision, failure_of(diverged))
    else:
        hooks.requested(decision, request)


def _release_held(decision: Decision) -> None:
    life = decision.state.life
    held, life.held = life.held, []
    for request in held:
        if request.step in life.requested:
            _step_requested(decision, request)


def _slot_granted(decision: Decision, _: inputs.SlotGranted) -> None:
    lifecycle.slot_granted(decision)
    _release_held(decision)


def _operation(decision: Decision, operation: lifecycle.Operation) -> None:
    lifecycle.operate(decision, operation)
    if decision.state.status is InstanceStatus.RUNNING:
        _release_held(decision)


def _modifiers_changed(decision: Decision, change: ModifiersChanged) -> None:
    decision.state.modifiers = change.modifiers
    waits.receive_mocked(decision)


def _timer_fired(decision: Decision, timer: TimerFired) -> None:
    state = decision.state
    if state.status is InstanceStatus.ROLLING_BACK:
        rollbacks.timer_fired(decision, timer)
        return
    step = state.open.get(timer.step)
    if step is None or step.due_ms is None:
        return
    if state.status not in (InstanceStatus.RUNNING, InstanceStatus.WAITING) and not (
        # The callback that the pause waits for may sleep by a step of its own. (Events wait for the end of the pause.)
        state.status is InstanceStatus.WAITING_FOR_PAUSE and step.key.kind is StepKind.SLEEP
    ):
        return
    if step.due_ms > decision.now_ms:
        decision.arm_again(step)  # it has moved, or the clock was set back
        return
    if _is_on_the_way_to(state, step):
        return  # asked for, it takes what is there, or is armed again
    _DEADLINES[step.key.kind](decision, step)


def _is_on_the_way_to(state: InstanceState, step: StepState) -> bool:
    """Whether code that is replayed may still come to a wait: an event that was there in time may be in the mailbox."""
    life = state.life
    return (
        step.key.kind is StepKind.WAIT
        and not step.abandoned
        and life.running
        and not life.at_rest
        and step.key not in life.requested
    )


def _run_ended(decision: Decision, result: inputs.RunReturned | inputs.RunRaised) -> None:
    if decision.state.life.registering:
        rollbacks.settled(decision)
    elif isinstance(result, inputs.RunReturned):
        lifecycle.run_returned(decision, result)
    else:
        lifecycle.run_raised(decision, result)


_REQUESTS: dict[type[StepRequest], Callable[[Decision, Any], None]] = {
    DoRequested: attempts.do_requested,
    SleepRequested: sleeps.sleep_requested,
    WaitRequested: waits.wait_requested,
    inputs.ReceiveRequested: hooks.received,
}

_ABANDONED: dict[StepKind, Callable[[Decision, StepState], None]] = {
    StepKind.DO: attempts.abandoned,
    StepKind.WAIT: waits.abandoned,
}

_DEADLINES: dict[StepKind, Callable[[Decision, StepState], None]] = {
    StepKind.DO: attempts.retry_due,
    StepKind.SLEEP: sleeps.sleep_over,
    StepKind.WAIT: waits.wait_over,
}

_RULES: dict[type[Input], Callable[[Decision, Any], None]] = {
    DoRequested: _step_requested,
    SleepRequested: _step_requested,
    WaitRequested: _step_requested,
    inputs.ReceiveRequested: _step_requested,
    inputs.HookRequested: _hook_requested,
    inputs.HookDisposeRequested: hooks.disposed,
    inputs.HookResumed: hooks.resumed,
    inputs.StepAbandoned: _step_abandoned,
    inputs.AttemptReturned: attempts.attempt_returned,
    inputs.AttemptRaised: attempts.attempt_raised,
    inputs.RollbackReturned: rollbacks.returned,
    inputs.RollbackRaised: rollbacks.raised,
    inputs.RunReturned: _run_ended,
    inputs.RunRaised: _run_ended,
    inputs.RunLost: losses.run_lost,
    inputs.RunParked: lifecycle.run_parked,
    inputs.UnloadRequested: lifecycle.unload_requested,
    TimerFired: _timer_fired,
    inputs.SlotGranted: _slot_granted,
    inputs.SlotRefused: lambda decision, _: lifecycle.slot_refused(decision),
    inputs.Recovered: lambda decision, _: lifecycle.recover(decision),
    inputs.ShutdownRequested: lambda decision, _: lifecycle.shut_down(decision),
    inputs.CreateRequested: lifecycle.create,
    inputs.EventSent: waits.event_sent,
    inputs.WakeUpRequested: sleeps.wake_up,
    inputs.AttributesRequested: lifecycle.set_attributes,
    inputs.PauseRequested: _operation,
    inputs.ResumeRequested: _operation,
    inputs.TerminateRequested: _operation,
    inputs.RestartRequested: _operation,
    inputs.DeleteRequested: lambda decision, _: lifecycle.delete(decision),
    ModifiersChanged: _modifiers_changed,
}
