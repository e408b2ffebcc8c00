"""What can happen to an instance: the inputs of `decide`.

Inputs from user code carry the number of the incarnation that speaks; what a dead one says is stale and ignored.
Inputs from people end in `Requested`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord, HookRequest
from emulator.domain.steps import StepKey


class Input(msgspec.Struct, frozen=True, gc=False):
    """Something that happened."""


class RunInput(Input, frozen=True):
    """Something that user code, in its `incarnation`, did or asked for."""

    is_request: ClassVar[bool] = False
    """Whether it asks for a step, and so will be answered."""

    incarnation: int


class DoRequested(RunInput, frozen=True):
    """`run()` asks for a `do` step. `rollback` is the config of its handler, if it has one."""

    is_request = True

    step: StepKey
    config: StepConfig
    rollback: StepConfig | None = None


class SleepRequested(RunInput, frozen=True):
    """`run()` asks to sleep for a duration, or until an instant (then the duration is what is left)."""

    is_request = True

    step: StepKey
    duration_ms: int | None = None
    until_ms: int | None = None


class WaitRequested(RunInput, frozen=True):
    """`run()` asks for an event of a type."""

    is_request = True

    step: StepKey
    event_type: str
    timeout_ms: int | None


class ReceiveRequested(RunInput, frozen=True):
    """`run()` asks for a payload of a hook that it holds; without a timeout for ever.

    `again` is how often this incarnation has asked for this step before, and cancelled it.
    """

    is_request = True

    step: StepKey
    hook_id: str
    timeout_ms: int | None = None
    again: int = 0


class HookRequested(RunInput, frozen=True):
    """`run()` opens a hook. `holder` is who has the token: the shell looks that up when the turn begins."""

    is_request = True

    step: StepKey
    hook: HookRequest
    holder: HookRecord | None = None


class HookDisposeRequested(RunInput, frozen=True):
    """`run()` gives a hook up."""

    hook_id: str


StepRequest = DoRequested | SleepRequested | WaitRequested | ReceiveRequested


class StepAbandoned(RunInput, frozen=True):
    """User code cancelled what it had asked for."""

    step: StepKey


class AttemptReturned(RunInput, frozen=True):
    """A callback returned a value that can be stored."""

    step: StepKey
    attempt: int
    result: msgspec.Raw


class AttemptRaised(RunInput, frozen=True):
    """A callback raised, timed out, or returned what cannot be stored.

    `base_delay_ms` is what a delay function answered; `delay_error` that it failed, which ends the step. `retry_after_ms`
    is the delay that the error itself wants, whatever the config says.
    """

    step: StepKey
    attempt: int
    error: Failure
    retryable: bool = True
    base_delay_ms: float | None = None
    delay_error: Failure | None = None
    retry_after_ms: int | None = None


class RollbackReturned(RunInput, frozen=True):
    """A rollback handler returned."""

    step: StepKey
    attempt: int


class RollbackRaised(RunInput, frozen=True):
    """A rollback handler raised, timed out or is missing."""

    step: StepKey
    attempt: int
    error: Failure
    retryable: bool = True
    base_delay_ms: float | None = None
    delay_error: Failure | None = None
    retry_after_ms: int | None = None


class RunReturned(RunInput, frozen=True):
    """`run()` returned a value that can be stored."""

    result: msgspec.Raw


class RunRaised(RunInput, frozen=True):
    """`run()` raised, or returned what cannot be stored."""

    error: Failure


class RunLost(RunInput, frozen=True):
    """The process that ran the code has ended; `error` says how. Its rollback handlers have gone with it."""

    error: Failure


class RunParked(RunInput, frozen=True):
    """User code has done nothing for a while but wait for what it asked, and perhaps for a timer of its own."""


class UnloadRequested(RunInput, frozen=True):
    """The shell wants to forget a parked incarnation."""


class TimerFired(Input, frozen=True):
    """A deadline has come. One that has been moved or met since is stale."""

    step: StepKey
    due_ms: int


class SlotGranted(Input, frozen=True):
    """The instance may run."""


class SlotRefused(Input, frozen=True):
    """No slot is free: the instance stands in the queue."""


class Recovered(Input, frozen=True):
    """The process has started and found the instance in its journal."""


class ShutdownRequested(Input, frozen=True):
    """The emulator is stopped in good order. What it interrupts is no failure of anybody's."""


class CreateRequested(Input, frozen=True):
    """Somebody creates the instance, and with it perhaps claims a token, which is free; `attributes` are its first.

    `event` is one that it has from the beginning.
    """

    hook: HookRequest | None = None
    attributes: dict[str, str] | None = None
    event: EventSent | None = None


class EventSent(Input, frozen=True):
    """Somebody sends an event. No payload is not the payload null. One that has a `delivery_id` is taken in once."""

    event_type: str
    payload: msgspec.Raw | None = None
    delivery_id: str | None = None


class HookResumed(Input, frozen=True):
    """Somebody sends a payload through a hook. One that has a `resume_id` is taken in once."""

    hook_id: str
    payload: msgspec.Raw
    resume_id: str | None = None


class PauseRequested(Input, frozen=True):
    """Somebody pauses it."""


class ResumeRequested(Input, frozen=True):
    """Somebody resumes it."""


class TerminateRequested(Input, frozen=True):
    """Somebody ends it, with its rollback handlers or without, and perhaps says why."""

    rollback: bool = False
    reason: str | None = None


class RestartRequested(Input, frozen=True):
    """Somebody runs it again: whole, or from a step on. `holders` are those who have the tokens that it once held."""

    from_step: StepKey | None = None
    holders: tuple[HookRecord, ...] = ()


class WakeUpRequested(Input, frozen=True):
    """Somebody ends its sleeps now: those of these labels, or all (None). The answer is how many."""

    labels: tuple[str, ...] | None = None


class AttributesRequested(Input, frozen=True):
    """Somebody sets attributes, or removes them (None)."""

    changes: dict[str, str | None]


class DeleteRequested(Input, frozen=True):
    """Somebody wants it gone."""


BARRIERS = (RestartRequested, DeleteRequested)
"""Inputs that remove what is stored: a commit holds at most one an instance, and nothing else of that instance before it."""
