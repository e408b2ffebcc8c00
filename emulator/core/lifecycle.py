"""The rules of an instance's life: create, run, park, pause, resume, terminate, restart, recover.

Theory of operation
===================
What people may do in which status is one table, `OPERATIONS`. What is not in it for a status changes nothing, but for
two refusals: a finished instance cannot be terminated, and takes no event (Cloudflare: Workers API, workflows; the
statuses and the transitions are in specification 4).

An instance runs only while it has a slot. It asks for one when it is created, resumed, restarted, recovered, or wakes;
without a free one it is queued. Which instance comes next is not its own affair: see `engine.admission`.

Restarting removes history: everything, or the named step and every step that started after it. What is left is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from emulator.core import attempts, hooks, rollbacks, waits
from emulator.core.decision import Decision
from emulator.core.effects import RequestSlot
from emulator.core.inputs import (
    AttributesRequested,
    CreateRequested,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    RunParked,
    RunRaised,
    RunReturned,
    TerminateRequested,
    UnloadRequested,
)
from emulator.core.state import InstanceState
from emulator.domain.entries import (
    AttemptInterrupted,
    AttributesChanged,
    RollbackAttemptInterrupted,
    WorkflowFailed,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
    WorkflowSucceeded,
    WorkflowTerminated,
    WorkflowWaiting,
    WorkflowWaitingForPause,
)
from emulator.domain.failure import Failure
from emulator.domain.limits import MAX_ATTRIBUTES
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import CLOUDFLARE_KINDS, StepKey, StepKind
from emulator.errors import CannotTerminate, InstanceFinished, InvalidAttributes, StepNotFound

_STEPS_TOLD: Final = 20
"""How many steps are told to somebody who names one that there is not."""


def create(decision: Decision, request: CreateRequested) -> None:
    """The instance begins, in the queue; it holds the token for which it was created."""
    decision.record(None, WorkflowQueued())
    if request.hook is not None:
        hooks.claim(decision, request.hook)
    if request.attributes:
        decision.record(None, AttributesChanged(dict(request.attributes)))
    if request.event is not None:
        waits.event_sent(decision, request.event)
    waits.receive_mocked(decision)
    decision.effects.append(RequestSlot(waking=False))


def slot_granted(decision: Decision) -> None:
    """It may run: its code starts, or goes on where it was parked. Whoever has left the queue meanwhile needs no slot."""
    state = decision.state
    if state.status not in (
        InstanceStatus.QUEUED,
        InstanceStatus.RUNNING,
        InstanceStatus.WAITING,
    ):
        return
    if state.status is InstanceStatus.QUEUED and state.started_ms is None:
        decision.record(None, WorkflowStarted())
    if state.status in (InstanceStatus.QUEUED, InstanceStatus.WAITING):
        decision.record(None, WorkflowRunning())
    if not state.life.running:
        decision.start_run()
        return
    for key in list(state.life.requested):
        step = state.steps.get(key)
        if step is not None and step.finished_seq:
            decision.answer(step)
    attempts.start_due_retries(decision)


def slot_refused(decision: Decision) -> None:
    """It was awake, and has to wait for a slot."""
    if decision.state.status in (InstanceStatus.WAITING, InstanceStatus.RUNNING):
        decision.record(None, WorkflowQueued())
        decision.stop_run()


def recover(decision: Decision) -> None:
    """The process has died and started again."""
    state = decision.state
    if state.life.incarnation:
        return  # an earlier input has taken it up
    match state.status:
        case InstanceStatus.QUEUED | InstanceStatus.RUNNING:
            attempts.fail_interrupted_attempts(decision)
            decision.effects.append(RequestSlot(waking=state.started_ms is not None))
        case InstanceStatus.WAITING:
            decision.wake()  # its code had timers of its own, which begin anew
        case InstanceStatus.WAITING_FOR_PAUSE:
            attempts.fail_interrupted_attempts(decision)
            attempts.pause_now(decision)
        case InstanceStatus.ROLLING_BACK:
            rollbacks.recover(decision)
        case _:
            pass


def shut_down(decision: Decision) -> None:
    """The emulator stops: attempts under way are taken back, and the code is unwound. The next start recovers it."""
    if decision.state.is_terminal:
        return  # what its code left behind has gone with it
    for step in decision.state.open.values():
        if step.in_flight:
            decision.record(step.key, AttemptInterrupted())
    rollback = decision.state.rollback
    if rollback is not None and rollback.in_flight:
        decision.record(rollback.current, RollbackAttemptInterrupted())
    decision.stop_run()


def run_returned(decision: Decision, result: RunReturned) -> None:
    """`run()` has returned: whatever it left behind goes with it."""
    decision.end(WorkflowSucceeded(result.result))


def run_raised(decision: Decision, result: RunRaised) -> None:
    """`run()` has raised: rollback if there is something to roll back, then the end."""
    run_failed(decision, result.error)


def run_failed(decision: Decision, error: Failure) -> None:
    """The instance has failed: it is compensated if there is something to roll back, and ends."""
    if rollbacks.has_eligible(decision.state):
        rollbacks.begin(decision, error, terminating=False)
    else:
        decision.end(WorkflowFailed(error))


def run_parked(decision: Decision, _: RunParked) -> None:
    """The code rests: every branch sleeps, waits or is to be tried again (Cloudflare: limits, concurrency)."""
    state = decision.state
    if state.life.registering:
        rollbacks.settled(decision)
        return
    if state.status is not InstanceStatus.RUNNING or not is_parked(decision):
        return
    attempts.come_back(decision)
    if state.life.in_flight:
        return
    state.life.at_rest = True
    if not waits.take_buffered(decision):
        decision.record(None, WorkflowWaiting())


def unload_requested(decision: Decision, _: UnloadRequested) -> None:
    """Nobody needs the incarnation in memory: the next timer or event starts a new one.

    Code that has only just come to rest stays, for it has not been said that it waits.
    """
    if decision.state.status is InstanceStatus.WAITING and is_parked(decision):
        decision.stop_run()


def is_parked(decision: Decision) -> bool:
    """Every branch of the code rests on a deadline or an event."""
    state = decision.state
    requested = state.life.requested
    return (
        bool(requested)
        and not state.life.in_flight
        and all(step in state.open for step in requested)
    )


def pause(decision: Decision, _: PauseRequested) -> None:
    """Stop as soon as no callback is being called; at once if none is."""
    state = decision.state
    decision.record(None, WorkflowWaitingForPause())
    if not state.life.in_flight:
        attempts.pause_now(decision)


def pause_queued(decision: Decision, _: PauseRequested) -> None:
    """It stands in the queue, new or woken: it leaves that, and gets no slot before it is resumed."""
    decision.clear_timers()
    decision.record(None, WorkflowPaused())


def resume(decision: Decision, _: ResumeRequested) -> None:
    """Go on after a pause; deadlines move by its length."""
    paused_ms = decision.state.paused_ms
    assert paused_ms is not None
    decision.record(None, WorkflowQueued(shift_ms=decision.now_ms - paused_ms))
    _arm_all(decision)
    decision.effects.append(RequestSlot(waking=True))


def cancel_pause(decision: Decision, _: ResumeRequested) -> None:
    """The pause had not taken hold: what stood still goes on."""
    state = decision.state
    decision.record(None, WorkflowRunning())
    waits.take_buffered(decision)
    for key in state.life.requested:
        step = state.open.get(key)
        if step is not None and step.due_ms is not None:
            decision.arm_again(step)


def terminate(decision: Decision, request: TerminateRequested) -> None:
    """End it: compensated first if that was asked."""
    state = decision.state
    if request.rollback and rollbacks.has_eligible(state):
        error, reason = rollbacks.TERMINATED, request.reason
        rollbacks.begin(decision, error, terminating=True, reason=reason)
    else:
        decision.end(WorkflowTerminated(request.reason))


def terminate_rolling_back(decision: Decision, request: TerminateRequested) -> None:
    """It is being compensated already: that goes on if it was asked for, or stops here."""
    if not request.rollback:
        decision.end(WorkflowTerminated(request.reason))


def refuse_termination(decision: Decision, _: TerminateRequested) -> None:
    """It has ended."""
    decision.refusal = CannotTerminate()


def restart(decision: Decision, request: RestartRequested) -> None:
    """Run it again, under the same id, with the same params and the same event timestamp. It keeps its attributes.

    It holds again the tokens that it held at the point from which it runs again, or cannot be restarted.
    """
    state = decision.state
    first = state.steps.get(request.from_step) if request.from_step is not None else None
    if first is None and request.from_step is not None:
        text = f'(instance.cannot_restart) Step "{request.from_step.name}" not found in execution history'
        decision.refusal = StepNotFound(text, hint=_steps_there(state, request.from_step.name))
        return
    first_seq = first.start_seq if first is not None else 0
    kept = hooks.survivors(state, first_seq)
    claims = [
        hook for hook in state.hooks.values() if hook.at_start and hook.created_seq >= first_seq
    ]
    decision.refusal = hooks.lost_token(decision, kept.hooks + claims, request.holders)
    if decision.refusal is not None:
        return
    attributes: dict[str, str | None] = {**state.attributes}
    decision.cut(None if first is None else _from(state, first.start_seq))
    decision.stop_run()
    state.life.losses = state.life.finished_at_loss = 0
    attempts.fail_interrupted_attempts(decision)
    decision.record(None, WorkflowQueued())
    if attributes:
        decision.record(None, AttributesChanged(attributes))
    for claim in claims:
        hooks.claim_again(decision, claim)
    hooks.reclaim(decision, kept)
    waits.receive_mocked(decision)
    _arm_all(decision)
    decision.effects.append(RequestSlot(waking=False))


def set_attributes(decision: Decision, request: AttributesRequested) -> None:
    """Attributes are set, as long as it has not ended (Workflow SDK: attributes)."""
    state = decision.state
    if state.is_terminal:
        decision.refusal = InstanceFinished(
            "(instance.in_finite_state) Instance reached a finite state, its attributes stay"
        )
        return
    after = {**state.attributes, **request.changes}
    if sum(value is not None for value in after.values()) > MAX_ATTRIBUTES:
        decision.refusal = InvalidAttributes(
            f"An instance has at most {MAX_ATTRIBUTES} attributes."
        )
        return
    decision.record(None, AttributesChanged(request.changes))


def delete(decision: Decision) -> None:
    """Remove it, whatever it does; no handler runs, and no token is retained."""
    decision.deleted = True
    decision.release_hooks()
    decision.stop_run()


def _steps_there(state: InstanceState, wanted: str) -> str:
    """Say from which steps it can be restarted: those of the name that is wanted first."""
    uses = Counter(
        (key.name, key.kind)
        for key in state.steps
        if key.kind in CLOUDFLARE_KINDS and not key.is_internal
    )
    named = sorted(uses, key=lambda use: use[0] != wanted)
    told: list[str] = []
    for name, kind in named[:_STEPS_TOLD]:
        times = uses[name, kind]
        told.append(f'"{name}" ({kind}{f", {times} times" if times > 1 else ""})')
    if len(named) > _STEPS_TOLD:
        told.append(f"{len(named) - _STEPS_TOLD} more")
    return (
        f"It has these steps: {', '.join(told) or 'none'}. The type is do unless another is given."
    )


def _from(state: InstanceState, first_seq: int) -> frozenset[StepKey]:
    """The steps that started with this entry or later."""
    return frozenset(step.key for step in state.steps.values() if step.start_seq >= first_seq)


def _arm_all(decision: Decision) -> None:
    for step in decision.state.open.values():
        is_unwanted = step.abandoned and step.key.kind is StepKind.DO
        if step.due_ms is not None and not is_unwanted:
            decision.arm(step.key, step.due_ms)


Operation = PauseRequested | ResumeRequested | TerminateRequested | RestartRequested

OPERATIONS: dict[type[Operation], dict[InstanceStatus, Callable[[Decision, Any], None]]] = {
    PauseRequested: {
        InstanceStatus.QUEUED: pause_queued,
        InstanceStatus.RUNNING: pause,
        InstanceStatus.WAITING: pause,
    },
    ResumeRequested: {
        InstanceStatus.PAUSED: resume,
        InstanceStatus.WAITING_FOR_PAUSE: cancel_pause,
    },
    TerminateRequested: {
        InstanceStatus.QUEUED: terminate,
        InstanceStatus.RUNNING: terminate,
        InstanceStatus.WAITING: terminate,
        InstanceStatus.WAITING_FOR_PAUSE: terminate,
        InstanceStatus.PAUSED: terminate,
        InstanceStatus.ROLLING_BACK: terminate_rolling_back,
        InstanceStatus.COMPLETE: refuse_termination,
        InstanceStatus.ERRORED: refuse_termination,
        InstanceStatus.TERMINATED: refuse_termination,
    },
    RestartRequested: dict.fromkeys(InstanceStatus, restart),
}
"""What each operation does in each status. A status that is not listed: nothing happens, and that is no error."""


def operate(decision: Decision, operation: Operation) -> None:
    """Look the operation up."""
    rule = OPERATIONS[type(operation)].get(decision.state.status)
    if rule is not None:
        rule(decision, operation)
