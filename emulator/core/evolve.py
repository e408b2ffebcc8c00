"""The fold: `evolve` applies one entry to the state that its actor owns, in place.

Replaying a journal is nothing but this, in order: `state = fold(creation, entries)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from emulator.core.effects import HookOwner, Outcome, ReceivedEvent
from emulator.core.state import HookState, InstanceState, RollbackState, StepState
from emulator.domain import entries as facts
from emulator.domain.entries import Entry, Fact
from emulator.domain.instance import Creation
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind


def fold(creation: Creation, entries: Iterable[tuple[int, Entry]]) -> InstanceState:
    """The state that a journal adds up to."""
    state = InstanceState(creation, modified_ms=creation.created_ms)
    for seq, entry in entries:
        evolve(state, seq, entry)
    return state


def evolve(state: InstanceState, seq: int, entry: Entry) -> None:
    """Apply one entry, which is number `seq` of the journal."""
    state.seq = seq
    _RULES[type(entry.fact)](state, seq, entry.at_ms, entry.step, entry.fact)


def cut(state: InstanceState, steps: frozenset[StepKey] | None) -> None:
    """Forget what a restart removes (see `journal.port.Cut`): everything, or these steps and all but the other steps."""
    fresh = InstanceState(state.creation, modified_ms=state.modified_ms)
    if steps is not None:
        fresh.seq = state.seq
        fresh.started_ms = state.started_ms
        fresh.steps = {key: step for key, step in state.steps.items() if key not in steps}
        fresh.open = {key: step for key, step in state.open.items() if key not in steps}
        for step in fresh.open.values():
            _note_wait(fresh, step)
        fresh.deliveries = _deliveries_taken(fresh)
        fresh.mailbox = _returned(fresh)
        fresh.hooks = {id_: hook for id_, hook in state.hooks.items() if hook.step not in steps}
    for name in InstanceState.__slots__:
        if name not in ("life", "modifiers"):
            setattr(state, name, getattr(fresh, name))


def _deliveries_taken(state: InstanceState) -> set[str]:
    steps = state.steps.values()
    events = [step.outcome for step in steps if isinstance(step.outcome, ReceivedEvent)]
    events += [event for step in steps for event in step.returned]
    return {event.delivery_id for event in events if event.delivery_id is not None}


def _returned(state: InstanceState) -> dict[int, ReceivedEvent]:
    """The events that waits have given back, and that no wait has taken since."""
    returned = {event.seq: event for step in state.steps.values() for event in step.returned}
    for step in state.steps.values():
        if isinstance(step.outcome, ReceivedEvent):
            returned.pop(step.outcome.seq, None)
    return dict(sorted(returned.items()))


def _set_status(state: InstanceState, status: InstanceStatus, at_ms: int) -> None:
    state.status = status
    state.modified_ms = at_ms


def _finish(state: InstanceState, key: StepKey, seq: int, outcome: Outcome) -> None:
    step = state.open.pop(key)
    if key.kind is StepKind.WAIT:
        alike = state.waits[step.event_type]
        del alike[key]
        if not alike:
            del state.waits[step.event_type]
    step.finished_seq = seq
    step.outcome = outcome
    step.due_ms = None
    step.in_flight = False


def _note_wait(state: InstanceState, step: StepState) -> None:
    if step.key.kind is StepKind.WAIT:
        state.waits.setdefault(step.event_type, {})[step.key] = step


def _queued(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.WorkflowQueued
) -> None:
    if fact.shift_ms:
        # A pause stops the clocks (Cloudflare: deadlines move by its length), but `sleep_until` names an instant.
        for step in state.steps.values():
            if step.due_ms is not None and not step.until:
                step.due_ms += fact.shift_ms
            if step.deadline_ms is not None:
                step.deadline_ms += fact.shift_ms
    state.paused_ms = None
    _set_status(state, InstanceStatus.QUEUED, at_ms)


def _started(state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact) -> None:
    state.started_ms = at_ms


def _running(state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact) -> None:
    _set_status(state, InstanceStatus.RUNNING, at_ms)


def _waiting(state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact) -> None:
    _set_status(state, InstanceStatus.WAITING, at_ms)


def _waiting_for_pause(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    _set_status(state, InstanceStatus.WAITING_FOR_PAUSE, at_ms)


def _paused(state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact) -> None:
    state.paused_ms = at_ms
    _set_status(state, InstanceStatus.PAUSED, at_ms)


def _end(state: InstanceState, status: InstanceStatus, at_ms: int) -> None:
    _set_status(state, status, at_ms)
    state.ended_ms = at_ms
    state.mailbox.clear()


def _succeeded(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.WorkflowSucceeded
) -> None:
    state.output = fact.result
    _end(state, InstanceStatus.COMPLETE, at_ms)


def _failed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.WorkflowFailed
) -> None:
    state.error = fact.error
    _end(state, InstanceStatus.ERRORED, at_ms)


def _terminated(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    _end(state, InstanceStatus.TERMINATED, at_ms)


def _step_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.StepStarted
) -> None:
    state.steps[key] = state.open[key] = StepState(
        key, seq, config=fact.config, rollback=fact.rollback
    )


def _attempt_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.AttemptStarted
) -> None:
    step = state.open[key]
    step.attempt = fact.attempt
    step.in_flight = True
    step.due_ms = None
    step.abandoned = False


def _attempt_succeeded(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact
) -> None:
    state.open[key].in_flight = False


def _attempt_failed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.AttemptFailed
) -> None:
    step = state.open[key]
    step.in_flight = False
    step.error = fact.error
    if fact.retry_delay_ms is not None:
        step.due_ms = at_ms + fact.retry_delay_ms


def _attempt_interrupted(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact
) -> None:
    step = state.open[key]
    step.in_flight = False
    step.attempt -= 1


def _step_succeeded(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.StepSucceeded
) -> None:
    _finish(state, key, seq, fact.result)


def _step_failed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.StepFailed
) -> None:
    _finish(state, key, seq, fact.error or state.open[key].error)


def _sleep_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.SleepStarted
) -> None:
    state.steps[key] = state.open[key] = StepState(key, seq, due_ms=fact.wake_ms, until=fact.until)


def _sleep_completed(state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact) -> None:
    _finish(state, key, seq, None)


def _wait_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.WaitStarted
) -> None:
    step = state.open.get(key)
    if step is None:
        step = state.steps[key] = state.open[key] = StepState(key, seq, event_type=fact.event_type)
        _note_wait(state, step)
    step.due_ms = step.deadline_ms = fact.deadline_ms
    step.timeout_ms, step.again = fact.timeout_ms, fact.again


def _wait_completed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.WaitCompleted
) -> None:
    state.mailbox.pop(fact.event_seq, None)
    event_type = state.open[key].event_type
    event = ReceivedEvent(
        fact.event_seq, event_type, fact.received_ms, fact.payload, fact.delivery_id
    )
    _note_delivery(state, event)
    _finish(state, key, seq, event)


def _wait_timed_out(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.WaitTimedOut
) -> None:
    _finish(state, key, seq, fact.error)


def _wait_abandoned(state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact) -> None:
    step = state.steps[key]
    step.abandoned = True
    if isinstance(step.outcome, ReceivedEvent):
        # Open again, and the event at its place: both are in order of age.
        event = msgspec.structs.replace(step.outcome, is_back=True)
        step.returned = (*step.returned, event)
        step.outcome, step.finished_seq, step.due_ms = None, 0, step.deadline_ms
        state.open[key] = step
        state.open = _by_age(state.open)
        _note_wait(state, step)
        state.waits[step.event_type] = _by_age(state.waits[step.event_type])
        state.mailbox[event.seq] = event
        state.mailbox = dict(sorted(state.mailbox.items()))


def _by_age(steps: dict[StepKey, StepState]) -> dict[StepKey, StepState]:
    return dict(sorted(steps.items(), key=lambda item: item[1].start_seq))


def _retries_abandoned(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact
) -> None:
    state.open[key].abandoned = True


def _event_received(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.EventReceived
) -> None:
    event = ReceivedEvent(seq, fact.event_type, at_ms, fact.payload, fact.delivery_id)
    _note_delivery(state, event)
    state.mailbox[seq] = event


def _note_delivery(state: InstanceState, event: ReceivedEvent) -> None:
    if event.delivery_id is not None:
        state.deliveries.add(event.delivery_id)


def _hook_created(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.HookCreated
) -> None:
    state.steps[key] = StepState(key, seq, finished_seq=seq, hook_id=fact.hook_id)
    state.hooks[fact.hook_id] = HookState(
        key,
        seq,
        at_ms,
        fact.hook_id,
        fact.token,
        fact.metadata,
        fact.retain_until_ms,
        fact.retention_ms,
        fact.is_webhook,
        fact.schema,
        fact.at_start,
    )


def _hook_conflicted(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.HookConflicted
) -> None:
    owner = HookOwner(fact.workflow, fact.id)
    state.steps[key] = StepState(key, seq, finished_seq=seq, outcome=owner)


def _hook_bound(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: facts.HookBound
) -> None:
    hook = _hook_of(state, key)
    hook.is_bound = True
    hook.retain_until_ms = fact.retain_until_ms
    hook.metadata = fact.metadata
    hook.schema = fact.schema


def _hook_disposed(state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact) -> None:
    _hook_of(state, key).disposed_seq = seq


def _hook_reclaimed(state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact) -> None:
    _hook_of(state, key).disposed_seq = 0


def _hook_of(state: InstanceState, key: StepKey) -> HookState:
    hook = state.hook_of(key)
    assert hook is not None, "an entry about a hook that there is not"
    return hook


def _attributes_changed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.AttributesChanged
) -> None:
    for name, value in fact.changes.items():
        if value is None:
            state.attributes.pop(name, None)
        else:
            state.attributes[name] = value


def _rollback_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.RollbackStarted
) -> None:
    # `steps` is in the order in which they started.
    pending = [step.key for step in state.steps.values() if step.rollback is not None]
    state.rollback = RollbackState(
        fact.error, fact.total_steps, fact.terminating, fact.reason, pending=pending
    )
    _set_status(state, InstanceStatus.ROLLING_BACK, at_ms)


def _rollback_of(state: InstanceState) -> RollbackState:
    assert state.rollback is not None, "a rollback entry without a rollback"
    return state.rollback


def _rollback_step_started(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    rollback = _rollback_of(state)
    rollback.current = key
    rollback.attempt = 0


def _rollback_attempt_started(
    state: InstanceState,
    seq: int,
    at_ms: int,
    key: StepKey | None,
    fact: facts.RollbackAttemptStarted,
) -> None:
    rollback = _rollback_of(state)
    rollback.attempt = fact.attempt
    rollback.in_flight = True
    rollback.due_ms = None


def _rollback_attempt_succeeded(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    _rollback_of(state).in_flight = False


def _rollback_attempt_failed(
    state: InstanceState,
    seq: int,
    at_ms: int,
    key: StepKey | None,
    fact: facts.RollbackAttemptFailed,
) -> None:
    rollback = _rollback_of(state)
    rollback.in_flight = False
    rollback.failure = fact.error
    if fact.retry_delay_ms is not None:
        rollback.due_ms = at_ms + fact.retry_delay_ms


def _rollback_attempt_interrupted(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    rollback = _rollback_of(state)
    rollback.in_flight = False
    rollback.attempt -= 1


def _rollback_step_succeeded(
    state: InstanceState, seq: int, at_ms: int, key: StepKey, fact: Fact
) -> None:
    rollback = _rollback_of(state)
    compensated = rollback.pending.pop()
    assert compensated == key
    rollback.current = None
    rollback.failure = None


def _rollback_step_failed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: facts.RollbackStepFailed
) -> None:
    rollback = _rollback_of(state)
    rollback.current = None
    rollback.failure = fact.error or rollback.failure


def _rollback_completed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    _rollback_of(state).outcome = "complete"


def _rollback_failed(
    state: InstanceState, seq: int, at_ms: int, key: StepKey | None, fact: Fact
) -> None:
    _rollback_of(state).outcome = "failed"


_RULES: dict[type[Fact], Callable[[InstanceState, int, int, Any, Any], None]] = {
    facts.WorkflowQueued: _queued,
    facts.WorkflowStarted: _started,
    facts.WorkflowSucceeded: _succeeded,
    facts.WorkflowFailed: _failed,
    facts.WorkflowTerminated: _terminated,
    facts.StepStarted: _step_started,
    facts.AttemptInterrupted: _attempt_interrupted,
    facts.StepSucceeded: _step_succeeded,
    facts.StepFailed: _step_failed,
    facts.SleepStarted: _sleep_started,
    facts.SleepCompleted: _sleep_completed,
    facts.AttemptStarted: _attempt_started,
    facts.AttemptSucceeded: _attempt_succeeded,
    facts.AttemptFailed: _attempt_failed,
    facts.WaitStarted: _wait_started,
    facts.WaitCompleted: _wait_completed,
    facts.WaitTimedOut: _wait_timed_out,
    facts.WaitAbandoned: _wait_abandoned,
    facts.RetriesAbandoned: _retries_abandoned,
    facts.EventReceived: _event_received,
    facts.HookCreated: _hook_created,
    facts.HookConflicted: _hook_conflicted,
    facts.HookBound: _hook_bound,
    facts.HookDisposed: _hook_disposed,
    facts.HookReclaimed: _hook_reclaimed,
    facts.AttributesChanged: _attributes_changed,
    facts.RollbackStarted: _rollback_started,
    facts.RollbackStepStarted: _rollback_step_started,
    facts.RollbackAttemptStarted: _rollback_attempt_started,
    facts.RollbackAttemptSucceeded: _rollback_attempt_succeeded,
    facts.RollbackAttemptFailed: _rollback_attempt_failed,
    facts.RollbackAttemptInterrupted: _rollback_attempt_interrupted,
    facts.RollbackStepSucceeded: _rollback_step_succeeded,
    facts.RollbackStepFailed: _rollback_step_failed,
    facts.RollbackCompleted: _rollback_completed,
    facts.RollbackFailed: _rollback_failed,
    facts.WorkflowRunning: _running,
    facts.WorkflowPaused: _paused,
    facts.WorkflowWaitingForPause: _waiting_for_pause,
    facts.WorkflowWaiting: _waiting,
}
