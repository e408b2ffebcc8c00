"""The rules of `step.wait_for_event`: the mailbox and who takes from it.

Theory of operation
===================
An instance has one mailbox. An event stays in it until a wait of its type takes it: the oldest event, and the oldest
wait that the code is really waiting on. Each event is taken once, in one commit with the entry of the wait that took it.

Only code that waits *now* can take an event, so an event for a sleeping instance wakes it and is taken when the replay
reaches the wait. In a replay the waits are asked for again one by one, and some are cancelled again: until the code has
come to rest, one may not snatch an event from an older wait that has not been asked for again yet, and one that was
cancelled before takes nothing. (Cloudflare: events and parameters, buffered events; scenarios
`events/two waiters of one type`, `events/two events before two waits`.)

A sender that repeats itself, as webhooks do, names each event. The name is stored with the event, and later with the
wait that took it, and a second event of that name is not taken in. A restart forgets it together with what it removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, takewhile

import msgspec

from emulator.core.decision import Decision
from emulator.core.effects import ReceivedEvent
from emulator.core.inputs import EventSent, WaitRequested
from emulator.core.state import InstanceState, StepState
from emulator.domain.entries import (
    HOOK_CHANNEL,
    EventReceived,
    WaitAbandoned,
    WaitCompleted,
    WaitStarted,
    WaitTimedOut,
)
from emulator.domain.failure import Failure
from emulator.domain.status import InstanceStatus
from emulator.errors import InstanceFinished


def wait_requested(decision: Decision, request: WaitRequested) -> None:
    """`run()` asks for an event, with a wait that is still open."""
    wait = decision.state.open.get(request.step)
    if wait is not None:
        _take_oldest(decision, wait.event_type)
        if wait.due_ms is not None:
            decision.arm_again(wait)
        return
    timeout_ms = request.timeout_ms
    deadline_ms = None if timeout_ms is None else decision.now_ms + max(timeout_ms, 0)
    decision.record(request.step, WaitStarted(request.event_type, timeout_ms or 0, deadline_ms))
    modifiers = decision.state.modifiers
    if modifiers is not None and request.step in modifiers.event_timeouts:
        wait_over(decision, decision.state.open[request.step])
        return
    _take_oldest(decision, request.event_type)
    if request.step in decision.state.open and deadline_ms is not None:
        decision.arm(request.step, deadline_ms)


def event_sent(decision: Decision, event: EventSent) -> None:
    """Somebody sends an event: a live wait takes it, or it stays and wakes the instance.

    A delivery that has been taken in before changes nothing, and is no error: not even after the end.
    """
    state = decision.state
    if event.delivery_id in state.deliveries:
        return
    if state.is_terminal:
        decision.refusal = InstanceFinished()
        return
    receive(decision, event.event_type, event.payload, event.delivery_id)


def receive(
    decision: Decision, event_type: str, payload: msgspec.Raw | None, delivery_id: str | None
) -> None:
    """Take something in: a live wait takes it, or it stays and wakes the instance."""
    state = decision.state
    decision.record(None, EventReceived(event_type, payload, delivery_id))
    if state.status not in (InstanceStatus.RUNNING, InstanceStatus.WAITING):
        return
    if not state.life.running:
        decision.go_on()
    else:
        _take_oldest(decision, event_type)


def put_back(decision: Decision, event: ReceivedEvent) -> None:
    """Give an event to a restart that shall find it again."""
    decision.record(None, EventReceived(event.event_type, event.payload, event.delivery_id))


def receive_mocked(decision: Decision) -> None:
    """Put the events that a test has arranged into the mailbox, if they have not been there."""
    modifiers = decision.state.modifiers
    if modifiers is not None and not decision.state.is_terminal:
        for event in modifiers.events:
            event_sent(decision, event)


def wait_over(decision: Decision, wait: StepState) -> None:
    """No event came in time."""
    error = Failure("WorkflowTimeoutError", f"Execution timed out after {wait.timeout_ms}ms")
    give_up(decision, wait, error)


def take_or_give_up(decision: Decision, wait: StepState, error: Failure) -> None:
    """Nothing else will come: the wait takes what is there, or nothing."""
    events = decision.state.mailbox.values()
    event = next((event for event in events if event.event_type == wait.event_type), None)
    if event is None:
        give_up(decision, wait, error)
    else:
        _take(decision, wait, event)


def give_up(decision: Decision, wait: StepState, error: Failure) -> None:
    """No event has come, and none will be waited for."""
    decision.disarm(wait.key)
    decision.record(wait.key, WaitTimedOut(error))
    decision.go_on(wait)


def abandoned(decision: Decision, wait: StepState) -> None:
    """User code cancelled a wait, before it saw what came of it.

    An event that the wait has taken meanwhile goes back, for the next one. (A hook's stays: the code comes back to that
    wait.) In a replay, too: code that had seen the event sees it again before it cancels anything.
    """
    if not wait.finished_seq:
        if not wait.abandoned:
            decision.record(wait.key, WaitAbandoned())
    elif isinstance(wait.outcome, ReceivedEvent) and not wait.event_type.startswith(HOOK_CHANNEL):
        decision.record(wait.key, WaitAbandoned())
        if wait.due_ms is not None:
            decision.arm(wait.key, wait.due_ms)
        _take_oldest(decision, wait.event_type)


def take_buffered(decision: Decision) -> bool:
    """Let the waits that may do so take what is in the mailbox. Says whether one did."""
    took = False
    for event_type in {event.event_type: None for event in decision.state.mailbox.values()}:
        took |= _take_oldest(decision, event_type)
    return took


def _take_oldest(decision: Decision, event_type: str) -> bool:
    """Give the oldest events of a type to the oldest waits. Says whether one was taken."""
    state = decision.state
    if not state.mailbox:
        return False
    events = (event for event in state.mailbox.values() if event.event_type == event_type)
    taken = list(zip(_takers(state, event_type), events, strict=False))
    for wait, event in taken:
        _take(decision, wait, event)
    return bool(taken)


def _take(decision: Decision, wait: StepState, event: ReceivedEvent) -> None:
    decision.disarm(wait.key)
    if not event.is_back:
        decision.taken.append(event.seq)
    fact = WaitCompleted(event.seq, event.at_ms, event.payload, event.delivery_id)
    decision.record(wait.key, fact)
    decision.go_on(wait)


def _takers(state: InstanceState, event_type: str) -> Iterator[StepState]:
    """The waits of the type that may take an event now, oldest first. At rest, any that the code is waiting on may."""
    asked = state.life.requested
    waits = state.waits.get(event_type, {}).values()
    present = (wait for wait in waits if not wait.abandoned)
    if not state.life.at_rest:
        return takewhile(lambda wait: wait.key in asked, present)
    return (
        wait
        for wait in chain(present, (wait for wait in waits if wait.abandoned))
        if wait.key in asked
    )
