"""What the shell must do now: the effects of a decision. They are derived, never stored."""

from __future__ import annotations

import msgspec

from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure
from emulator.domain.steps import StepKey
from emulator.errors import EmulatorError


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Something to do, after the commit unless said otherwise."""


class ReceivedEvent(msgspec.Struct, frozen=True):
    """An event as it was received; `seq` is the number of its entry. No payload is not the payload null.

    `is_back`: a wait has taken it and given it back, so that the journal has it with that wait, and not in the mailbox.
    """

    seq: int
    event_type: str
    at_ms: int
    payload: msgspec.Raw | None
    delivery_id: str | None = None
    is_back: bool = False


class HookOwner(msgspec.Struct, frozen=True):
    """The instance that holds the token which a hook wanted."""

    workflow: str
    instance_id: str


Outcome = msgspec.Raw | Failure | ReceivedEvent | HookOwner | None
"""How a step ended: a `do`'s result or failure, a wait's event or failure, the owner of a hook's token if that was
taken; None for a sleep, and for a hook that has its token."""


class RequestSlot(Effect, frozen=True):
    """Ask for a slot to run in, *before* the commit. One that wakes goes before one that is new."""

    waking: bool


class StartRun(Effect, frozen=True):
    """Call `run()`. `registering`: only to find its rollback handlers again."""

    incarnation: int
    registering: bool = False


class Interrupt(Effect, frozen=True):
    """End the incarnation: unwind user code, forget callbacks. Its rollback handlers may still be needed."""

    keep_handlers: bool = False


class InvokeAttempt(Effect, frozen=True):
    """Call the step's callback; or, if a test wants it so, let the attempt come to `mocked` instead."""

    step: StepKey
    attempt: int
    config: StepConfig
    mocked: msgspec.Raw | Failure | None = None


class InvokeRollback(Effect, frozen=True):
    """Call the step's rollback handler, with the error that began the rollback and the step's result, if it has one."""

    step: StepKey
    attempt: int
    config: StepConfig
    error: Failure
    output: msgspec.Raw | None
    step_attempt: int
    step_config: StepConfig


class ArmTimer(Effect, frozen=True):
    """Wake me at `due_ms` with `TimerFired`."""

    step: StepKey
    due_ms: int


class ResolveStep(Effect, frozen=True):
    """Hand the outcome to the code that waits for it, in the order of `finished_seq`."""

    step: StepKey
    outcome: Outcome
    finished_seq: int


class RejectStep(Effect, frozen=True):
    """Refuse what `run()` asked for."""

    step: StepKey
    error: EmulatorError
