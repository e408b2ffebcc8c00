"""The journal's entries: what has happened to an instance, once and for all.

Theory of operation
===================
A journal is a list of entries. An entry says when something happened, to which step (if to one), and what: its
*fact*. Replaying a journal is `core.evolve` over its entries, in order, and nothing else.

Facts carry the numbers of Cloudflare's `InstanceEvent` (specification 12.1), so that a log that people know can be
read here too. Numbers from 100 up are our own and are never shown by Cloudflare's APIs. A fact holds only what the
state cannot know without it: deadlines as wall-clock milliseconds, values as stored JSON.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure
from emulator.domain.hooks import NO_METADATA
from emulator.domain.steps import StepKey, StepKind


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an entry says. `event` is its number in the journal."""

    event: ClassVar[int]


class WorkflowQueued(Fact, frozen=True):
    """Created, restarted, resumed, or awake with no slot free.

    `shift_ms` is the length of the pause that it ends: it moves the open deadlines, even when a restart has since removed
    the entries of the pause.
    """

    event = 0
    shift_ms: int = 0


class WorkflowStarted(Fact, frozen=True):
    """Admitted for the first time in this life."""

    event = 1


class WorkflowSucceeded(Fact, frozen=True):
    """`run()` returned."""

    event = 2
    result: msgspec.Raw


class WorkflowFailed(Fact, frozen=True):
    """`run()` raised, or the instance cannot go on."""

    event = 3
    error: Failure


class WorkflowTerminated(Fact, frozen=True):
    """Somebody ended it, and perhaps said why."""

    event = 4
    reason: str | None = None


class StepStarted(Fact, frozen=True):
    """A `do` step was asked for the first time. Its configs hold for every later incarnation.

    `rollback` is how its rollback handler is tried; None if it has no handler.
    """

    event = 5
    config: StepConfig
    rollback: StepConfig | None = None


class StepSucceeded(Fact, frozen=True):
    """A `do` step has its result."""

    event = 6
    result: msgspec.Raw


class StepFailed(Fact, frozen=True):
    """A `do` step has failed for good, with the last attempt's error unless `error` says another."""

    event = 7
    error: Failure | None = None


class SleepStarted(Fact, frozen=True):
    """A sleep has its deadline. `until` marks `sleep_until`, whose deadline no pause shifts."""

    event = 8
    duration_ms: int
    wake_ms: int
    until: bool = False


class SleepCompleted(Fact, frozen=True):
    """A sleep is over."""

    event = 9


class AttemptStarted(Fact, frozen=True):
    """A callback is about to be called."""

    event = 10
    attempt: int


class AttemptSucceeded(Fact, frozen=True):
    """The callback returned."""

    event = 11
    attempt: int


class AttemptFailed(Fact, frozen=True):
    """The callback raised or timed out. Without a delay there is no further attempt."""

    event = 12
    attempt: int
    error: Failure
    retry_delay_ms: int | None = None


class WaitStarted(Fact, frozen=True):
    """A `wait_for_event` has its deadline, or somebody waits for a payload of a hook (see `channel`), perhaps for ever.

    `again`: the code has come back so often to a wait of a hook's that it had cancelled, and now has this deadline for it.
    """

    event = 14
    event_type: str
    timeout_ms: int
    deadline_ms: int | None
    again: int = 0


class WaitCompleted(Fact, frozen=True):
    """The wait took the event that was number `event_seq`; it is in the mailbox no longer."""

    event = 15
    event_seq: int
    received_ms: int
    payload: msgspec.Raw | None = None
    delivery_id: str | None = None


class WaitTimedOut(Fact, frozen=True):
    """No event came in time, or none will come any more."""

    event = 16
    error: Failure


class RollbackStarted(Fact, frozen=True):
    """Compensation begins. `terminating` says that somebody asked to terminate, and perhaps said why; else `run()` had raised `error`."""

    event = 17
    error: Failure
    total_steps: int
    terminating: bool = False
    reason: str | None = None


class RollbackStepStarted(Fact, frozen=True):
    """The step's rollback handler is next."""

    event = 18


class RollbackAttemptStarted(Fact, frozen=True):
    """A rollback handler is about to be called."""

    event = 19
    attempt: int


class RollbackAttemptSucceeded(Fact, frozen=True):
    """The handler returned."""

    event = 20
    attempt: int


class RollbackAttemptFailed(Fact, frozen=True):
    """The handler raised or timed out."""

    event = 21
    attempt: int
    error: Failure
    retry_delay_ms: int | None = None


class RollbackStepSucceeded(Fact, frozen=True):
    """The step is compensated."""

    event = 22


class RollbackStepFailed(Fact, frozen=True):
    """The handler has failed for good: the rollback stops here."""

    event = 23
    error: Failure | None = None


class RollbackCompleted(Fact, frozen=True):
    """Every eligible step is compensated."""

    event = 24
    total_steps: int
    completed_steps: int


class RollbackFailed(Fact, frozen=True):
    """A handler failed; the steps before it are not compensated."""

    event = 25
    total_steps: int
    completed_steps: int


class WorkflowRunning(Fact, frozen=True):
    """It runs, or runs again."""

    event = 26


class WorkflowPaused(Fact, frozen=True):
    """Nothing runs any more, as was asked."""

    event = 27


class WorkflowWaitingForPause(Fact, frozen=True):
    """Somebody asked for a pause; attempts may still be under way."""

    event = 28


class WorkflowWaiting(Fact, frozen=True):
    """Every branch of `run()` sleeps or waits."""

    event = 29


class EventReceived(Fact, frozen=True):
    """An event is in the mailbox until a wait takes it. No payload is not the payload null.

    The number of this entry is the event's identity. The journal keeps it with the mailbox, and only while it is there.
    `delivery_id` is what its sender calls it; a wait that takes it keeps that, so that a repetition is known for one.
    """

    event = 100
    event_type: str
    payload: msgspec.Raw | None = None
    delivery_id: str | None = None


class WaitAbandoned(Fact, frozen=True):
    """User code cancelled the wait; it takes no event, unless the code comes back to it.

    An event that it had taken, and that the code had not seen, is back at its place in the mailbox.
    """

    event = 101


class AttemptInterrupted(Fact, frozen=True):
    """The emulator was stopped in good order while the callback ran: the attempt does not count."""

    event = 102


class RollbackAttemptInterrupted(Fact, frozen=True):
    """The emulator was stopped in good order while the handler ran: the attempt does not count."""

    event = 103


class HookCreated(Fact, frozen=True):
    """The instance holds a token. `at_start`: it was claimed by whoever created the instance.

    `retain_until_ms` is until when the token stays taken at least, `retention_ms` that as a duration if it was given as one.
    """

    event = 104
    hook_id: str
    token: str
    metadata: msgspec.Raw = NO_METADATA
    retain_until_ms: int | None = None
    retention_ms: int | None = None
    is_webhook: bool = False
    schema: str | None = None
    at_start: bool = False


class HookConflicted(Fact, frozen=True):
    """The token was taken: by the instance `id` of `workflow`."""

    event = 105
    token: str
    workflow: str
    id: str


class HookBound(Fact, frozen=True):
    """`run()` has opened the hook of its start, and said more of it than the start did."""

    event = 106
    retain_until_ms: int | None
    metadata: msgspec.Raw
    schema: str | None = None


class HookDisposed(Fact, frozen=True):
    """`run()` has given the token up. What has arrived can still be taken."""

    event = 107


class HookReclaimed(Fact, frozen=True):
    """A restart that keeps the hook has taken its token again."""

    event = 108


class AttributesChanged(Fact, frozen=True):
    """Attributes are set, or removed (None)."""

    event = 109
    changes: dict[str, str | None]


class RetriesAbandoned(Fact, frozen=True):
    """User code cancelled the step; an attempt under way goes on, and no other begins, unless the code comes back to it."""

    event = 110


HOOK_CHANNEL = "hook:"
"""What the type of an event begins with that is a payload of a hook. No event of a user's has such a type."""


def channel(hook_id: str) -> str:
    """The type of the events that are payloads of a hook: they wait in the mailbox, and are taken, like any event."""
    return HOOK_CHANNEL + hook_id


FACTS: dict[int, type[Fact]] = {fact.event: fact for fact in Fact.__subclasses__()}
"""Every fact by its number."""

STEP_KINDS: dict[int, StepKind] = {
    **dict.fromkeys((5, 6, 7, 10, 11, 12, 18, 19, 20, 21, 22, 23, 102, 103, 110), StepKind.DO),
    **dict.fromkeys((8, 9), StepKind.SLEEP),
    **dict.fromkeys((14, 15, 16, 101), StepKind.WAIT),
    **dict.fromkeys((104, 105, 106, 107, 108), StepKind.HOOK),
}
"""Of the facts that are about a step, the kind of that step."""

ROLLBACK_EVENTS = frozenset((*range(17, 26), 103))
"""The numbers of the facts of a rollback."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of the journal: when, to which step (None: to the instance itself), what."""

    at_ms: int
    step: StepKey | None
    fact: Fact
