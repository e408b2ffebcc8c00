"""The rules of hooks: tokens that an instance holds, and the payloads that reach it through them.

Theory of operation
===================
A hook is a step that ends as soon as it is asked for: it holds its token, or another instance does (its *owner*, whom
the step's outcome names). Whether a token is free only the journal knows, so the shell looks it up and tells: `holder`.
What `create` claims is the very step that `run()` asks for when it opens a hook with that token, so opening it finds the
step ended and registers nothing (Workflow SDK: atomic start, A4).

Payloads are events of a type of their own (`domain.entries.channel`). So they wait in the mailbox, are taken first in,
first out, each in one commit with the wait that took it, and are lost with nobody, as other events are: see `waits`.

A hook that is disposed of takes no more payloads; those that have arrived can still be taken, and whoever waits for
another one is told. The end of the instance releases its tokens, but for those that are retained.
"""

from __future__ import annotations

import msgspec

from emulator.core import waits
from emulator.core.decision import Decision
from emulator.core.effects import ReceivedEvent
from emulator.core.inputs import (
    HookDisposeRequested,
    HookRequested,
    HookResumed,
    ReceiveRequested,
    WaitRequested,
)
from emulator.core.state import HookState, InstanceState
from emulator.domain.entries import (
    HookBound,
    HookConflicted,
    HookCreated,
    HookDisposed,
    HookReclaimed,
    WaitStarted,
    channel,
)
from emulator.domain.failure import Failure, failure_of
from emulator.domain.hooks import (
    NO_METADATA,
    HookRecord,
    HookRequest,
    HookStage,
    claim_step,
)
from emulator.domain.instance import id_in_scope
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.errors import (
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    HookResumeConflictError,
    ReplayDivergenceError,
)


def conflict(token: str, holder: HookRecord | None, now_ms: int) -> HookConflictError | None:
    """Why a token cannot be had, if it cannot."""
    if holder is None or not holder.holds_at(now_ms):
        return None
    return HookConflictError(
        token=token,
        conflicting_run_id=id_in_scope(holder.instance_id),
        conflicting_workflow=holder.workflow,
    )


def claim(decision: Decision, hook: HookRequest) -> None:
    """Hold the token for which the instance is created, from its first moment on."""
    _hold(decision, claim_step(hook.token), hook, at_start=True)


def divergence(state: InstanceState, request: HookRequested) -> ReplayDivergenceError | None:
    """Why this cannot be the code that the journal tells of, if it cannot.

    A replay opens again what has been opened before it opens anything new, since outcomes come in the journal's order.
    """
    starts = next(iter(state.hooks.values())).at_start if state.hooks else False
    if request.step in state.steps or len(state.life.opened) >= len(state.hooks) - starts:
        return None
    for hook in state.hooks.values():
        if not hook.at_start and hook.step not in state.life.opened:
            return ReplayDivergenceError(
                f'The code opens the hook "{request.step.label}", where the journal has the hook "{hook.step.label}": it has '
                "changed, or depends on something that is not in the journal."
            )
    return None


def requested(decision: Decision, request: HookRequested) -> None:
    """`run()` opens a hook. That is settled at once, in every status: nothing runs for it, and nothing waits."""
    state = decision.state
    step = state.steps.get(request.step)
    if step is not None:
        _bind(decision, request.hook)
    elif refusal := conflict(request.hook.token, request.holder, decision.now_ms):
        owner = refusal.conflicting_workflow, refusal.conflicting_run_id
        decision.record(request.step, HookConflicted(request.hook.token, *owner))
    else:
        _hold(decision, request.step, request.hook)
    hook = state.hook_of(request.step)
    if hook is not None and not hook.at_start:
        state.life.opened.add(request.step)
    decision.answer(state.steps[request.step])
    if state.status is InstanceStatus.WAITING:
        decision.wake()


def received(decision: Decision, request: ReceiveRequested) -> None:
    """`run()` waits for a payload."""
    waiting = WaitRequested(
        request.incarnation, request.step, channel(request.hook_id), request.timeout_ms
    )
    _renew(decision, request)
    waits.wait_requested(decision, waiting)
    wait = decision.state.open.get(request.step)
    if wait is not None and request.hook_id in decision.state.life.disposed:
        hook = decision.state.hooks[request.hook_id]
        waits.take_or_give_up(decision, wait, _disposed(hook))


def _renew(decision: Decision, request: ReceiveRequested) -> None:
    """The code comes back to a wait that it had cancelled: what it says of the timeout now holds, and for every replay."""
    wait = decision.state.open.get(request.step)
    if wait is None or request.again <= wait.again:
        return
    timeout_ms = request.timeout_ms
    if timeout_ms is None and wait.due_ms is None:
        return
    deadline_ms = None if timeout_ms is None else decision.now_ms + max(timeout_ms, 0)
    fact = WaitStarted(wait.event_type, timeout_ms or 0, deadline_ms, request.again)
    decision.record(wait.key, fact)
    if deadline_ms is None:
        decision.disarm(wait.key)
    else:
        decision.arm(wait.key, deadline_ms)


def disposed(decision: Decision, request: HookDisposeRequested) -> None:
    """`run()` gives a token up."""
    state = decision.state
    hook = state.hooks.get(request.hook_id)
    if hook is None or state.life.registering:
        return
    state.life.disposed.add(hook.hook_id)
    if not hook.disposed_seq:
        decision.record(hook.step, HookDisposed())
        decision.note_hook(hook)
    for wait in list(state.waits.get(channel(hook.hook_id), {}).values()):
        if wait.key in state.life.requested:
            waits.take_or_give_up(decision, wait, _disposed(hook))


def resumed(decision: Decision, item: HookResumed) -> None:
    """Somebody sends a payload. One with a `resume_id` is taken in once."""
    state = decision.state
    hook = state.hooks.get(item.hook_id)
    if (
        hook is None
        or hook.stage(state.ended_ms) is not HookStage.LIVE
        or state.status is InstanceStatus.ROLLING_BACK
    ):
        decision.refusal = HookNotFoundError()
        return
    delivery_id = None if item.resume_id is None else f"resume {item.resume_id}"
    if delivery_id in state.deliveries:
        before = _delivered(state, delivery_id)
        given = channel(hook.hook_id), bytes(item.payload)
        if before is not None and (before.event_type, bytes(before.payload or b"")) != given:
            decision.refusal = HookResumeConflictError(
                f'The resume id "{item.resume_id}" came before, with another payload or for another hook.'
            )
        return
    waits.receive(decision, channel(hook.hook_id), item.payload, delivery_id)


# restarts


class Survivors(msgspec.Struct):
    """What a restart keeps: hooks that were open before the point from which it runs again, and all their payloads."""

    hooks: list[HookState]
    payloads: list[ReceivedEvent]


def survivors(state: InstanceState, first_seq: int) -> Survivors:
    """The hooks that were open when entry `first_seq` was written, and what has arrived for them since or before.

    A payload that was taken by a wait from before that point stays with that wait.
    """
    kept = [
        hook
        for hook in state.hooks.values()
        if hook.created_seq < first_seq and not 0 < hook.disposed_seq < first_seq
    ]
    channels = {channel(hook.hook_id) for hook in kept}
    events = [event for event in state.mailbox.values() if event.event_type in channels]
    for step in state.steps.values():
        event = step.outcome
        if isinstance(event, ReceivedEvent) and step.start_seq >= first_seq:
            events += [event] if event.event_type in channels else []
    return Survivors(kept, sorted(events, key=lambda event: event.seq))


def lost_token(
    decision: Decision, hooks: list[HookState], holders: tuple[HookRecord, ...]
) -> HookConflictError | None:
    """Why a restart cannot have the tokens again that it needs, if it cannot: another instance holds one by now."""
    by_token = {holder.token: holder for holder in holders}
    for hook in hooks:
        holder = by_token.get(hook.token)
        if holder is not None and holder.hook_id not in decision.state.hooks:
            refusal = conflict(hook.token, holder, decision.now_ms)
            if refusal is not None:
                return refusal
    return None


def reclaim(decision: Decision, kept: Survivors) -> None:
    """After the cut: hold the tokens again, and put the payloads back."""
    for hook in kept.hooks:
        if hook.disposed_seq:
            decision.record(hook.step, HookReclaimed())
        decision.note_hook(decision.state.hooks[hook.hook_id])
    for event in kept.payloads:
        waits.put_back(decision, event)


def claim_again(decision: Decision, hook: HookState) -> None:
    """After a restart that removes it: hold the token of the start again, for as long as it would now, or did, be retained."""
    now_ms = decision.now_ms
    deadlines = [hook.retain_until_ms] if hook.retain_until_ms is not None else []
    if hook.retention_ms is not None:
        deadlines.append(now_ms + hook.retention_ms)
    fact = HookCreated(
        hook.hook_id,
        hook.token,
        hook.metadata,
        max(deadlines, default=None),
        hook.retention_ms,
        schema=hook.schema,
        at_start=True,
    )
    decision.record(hook.step, fact)
    decision.note_hook(decision.state.hooks[hook.hook_id])


def _hold(decision: Decision, step: StepKey, hook: HookRequest, *, at_start: bool = False) -> None:
    retention = hook.min_retention
    fact = HookCreated(
        hook.hook_id,
        hook.token,
        hook.metadata,
        None if retention is None else retention.deadline_ms(decision.now_ms),
        None if retention is None else retention.duration_ms,
        hook.is_webhook,
        hook.schema,
        at_start,
    )
    decision.record(step, fact)
    decision.note_hook(decision.state.hooks[hook.hook_id])


def _bind(decision: Decision, request: HookRequest) -> None:
    """`run()` opens what `create` has claimed: its retention can be longer, never shorter; the rest can be added."""
    hook = decision.state.hooks.get(request.hook_id)
    if hook is None or not hook.at_start or hook.is_bound:
        return
    has_metadata = bytes(request.metadata) != bytes(NO_METADATA)
    if request.min_retention is None and not has_metadata and request.schema is None:
        return
    deadlines = [hook.retain_until_ms] if hook.retain_until_ms is not None else []
    if request.min_retention is not None:
        deadlines.append(request.min_retention.deadline_ms(decision.now_ms))
    metadata = request.metadata if bytes(hook.metadata) == bytes(NO_METADATA) else hook.metadata
    schema = request.schema or hook.schema
    decision.record(hook.step, HookBound(max(deadlines, default=None), metadata, schema))
    decision.note_hook(hook)


def _delivered(state: InstanceState, delivery_id: str) -> ReceivedEvent | None:
    taken = (
        step.outcome for step in state.steps.values() if isinstance(step.outcome, ReceivedEvent)
    )
    for event in (*state.mailbox.values(), *taken):
        if event.delivery_id == delivery_id:
            return event
    return None


def _disposed(hook: HookState) -> Failure:
    text = f'The hook of the token "{hook.token}" has been disposed of, and nothing is left to take from it.'
    return failure_of(HookDisposedError(text, token=hook.token))
