"""The code of steps, as the engine calls it: callbacks and rollback handlers, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from emulator.domain import values
from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure, exception_of
from emulator.domain.instance import Creation
from emulator.domain.steps import StepKey


class AttemptContext(msgspec.Struct, frozen=True, gc=False):
    """What a callback is told about its attempt. `attempt` counts from one; `creation` is that of its instance."""

    step: StepKey
    attempt: int
    config: StepConfig
    creation: Creation


class DelayFunction(Protocol):
    """Computes the delay before the next attempt, from the attempt that failed: milliseconds or a duration text."""

    def __call__(self, context: AttemptContext, error: BaseException, /) -> object: ...


class Compensation(NamedTuple):
    """What a rollback handler is told: the step's last attempt, what began the rollback, the result (None without one)."""

    context: AttemptContext
    error: Exception
    output: object


class StepCode(msgspec.Struct, frozen=True):
    """Code that an attempt calls: with an `AttemptContext` for a step, with a `Compensation` for a rollback handler.

    It returns a value or, on the loop, an awaitable. `in_thread`: it may block, so it gets a thread of its own. `delay` is
    the delay function, if the config is dynamic.
    """

    callback: Callable[[Any], object]
    in_thread: bool = False
    delay: DelayFunction | None = None


def mocked_code(code: StepCode, outcome: msgspec.Raw | Failure) -> StepCode:
    """The code of a step whose callback comes to an outcome that a test wants. Its delay function stays."""

    def callback(_: AttemptContext) -> object:
        if isinstance(outcome, Failure):
            raise exception_of(outcome)
        return values.decode(outcome)

    return StepCode(callback, delay=code.delay)


def told_output(code: StepCode, output: Callable[[], object]) -> StepCode:
    """The code of a rollback handler, told the step's result when it is called: one that does not decode is its failure."""

    def callback(told: Compensation) -> object:
        return code.callback(told._replace(output=output()))

    return msgspec.structs.replace(code, callback=callback)


class RollbackCode(NamedTuple):
    """The code that compensates a step, and how it is tried."""

    code: StepCode
    config: StepConfig
