"""The step context: what `run()` asks the engine, in the plainest form. `bindings` dresses it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from emulator.core.effects import Outcome, ReceivedEvent
from emulator.core.inputs import DoRequested, SleepRequested, StepRequest, WaitRequested
from emulator.domain import values
from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure, exception_of
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import StepLimitReached


class AttemptContext(NamedTuple):
    """What a callback is told about its attempt. `attempt` counts from one."""

    step: StepKey
    attempt: int
    config: StepConfig


class DelayFunction(Protocol):
    """Computes the delay before the next attempt, from the attempt that failed: milliseconds or a duration text."""

    def __call__(self, context: AttemptContext, error: BaseException, /) -> object: ...


class Compensation(NamedTuple):
    """What a rollback handler is told: the step's last attempt, what began the rollback, the result (None without one)."""

    context: AttemptContext
    error: Exception
    output: object


class StepCode(NamedTuple):
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


class RollbackCode(NamedTuple):
    """The code that compensates a step, and how it is tried."""

    code: StepCode
    config: StepConfig


class WaitedEvent(NamedTuple):
    """An event that a wait took. `has_payload` tells no payload from the payload null."""

    event_type: str
    received_ms: int
    has_payload: bool
    payload: object


class Asker(Protocol):
    """The incarnation, as far as the step context knows it."""

    number: int
    step_limit: int

    async def ask(self, request: StepRequest) -> Outcome:
        """Put a request to the engine and wait for its outcome; raises what the step failed with."""
        ...

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step for as long as the incarnation lasts."""
        ...

    def hold(self) -> Callable[[], None]:
        """Hand over no outcome until the function that is returned has been called."""
        ...


class StepContext:
    """The durable operations of one incarnation.

    A step's identity is its kind, its name and the how-many-th use of that name; names are not checked here.
    """

    def __init__(self, life: Asker) -> None:
        self._life = life
        self._counts: dict[tuple[StepKind, str], int] = {}
        self._steps_asked = 0

    @property
    def step_limit(self) -> int:
        """How many `do` steps this incarnation may ask for."""
        return self._life.step_limit

    async def do(
        self, name: str, code: StepCode, config: StepConfig, rollback: RollbackCode | None = None
    ) -> object:
        """Run a callback once: its stored result, now and in every replay.

        Raises:
            StepLimitReached: this incarnation has asked for too many `do` steps.
            Exception: what the step failed with, rebuilt from what is stored (`domain.failure.exception_of`).
        """
        self._steps_asked += 1
        limit = self.step_limit
        if self._steps_asked > limit:
            text = f"The limit of {limit} steps has been reached. This limit can be changed in your worker configuration."
            raise StepLimitReached(text)
        step = self._key(StepKind.DO, name)
        self._life.register(step, code, rollback)
        rollback_config = rollback.config if rollback else None
        outcome = await self._life.ask(
            DoRequested(self._life.number, step, config, rollback_config)
        )
        assert isinstance(outcome, msgspec.Raw)
        return values.decode(outcome)

    async def sleep(self, name: str, duration_ms: int) -> None:
        """Rest for a while; nothing or less returns at once."""
        await self._life.ask(
            SleepRequested(self._life.number, self._key(StepKind.SLEEP, name), duration_ms)
        )

    async def sleep_until(self, name: str, until_ms: int) -> None:
        """Rest until an instant.

        Raises:
            PastWakeTime: it is past, at the first time of asking.
        """
        step = self._key(StepKind.SLEEP, name)
        await self._life.ask(SleepRequested(self._life.number, step, until_ms=until_ms))

    async def wait_for_event(self, name: str, event_type: str, timeout_ms: int) -> WaitedEvent:
        """Take the oldest event of the type, or wait for one.

        Raises:
            WorkflowTimeoutError: none came in time.
        """
        step = self._key(StepKind.WAIT, name)
        event = await self._life.ask(WaitRequested(self._life.number, step, event_type, timeout_ms))
        assert isinstance(event, ReceivedEvent)
        payload = None if event.payload is None else values.decode(event.payload)
        return WaitedEvent(event.event_type, event.at_ms, event.payload is not None, payload)

    def hold(self) -> Callable[[], None]:
        """Let the code react: no outcome is handed over until the function that is returned has been called.

        Code that runs elsewhere takes longer to react than the event loop would give it.
        """
        return self._life.hold()

    def _key(self, kind: StepKind, name: str) -> StepKey:
        count = self._counts.get((kind, name), 0) + 1
        self._counts[kind, name] = count
        return StepKey(kind, name, count)
