"""The step context: what `run()` asks the engine, in the plainest form. `bindings` dresses it up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from emulator.core.effects import Outcome, ReceivedEvent
from emulator.core.inputs import DoRequested, SleepRequested, StepRequest, WaitRequested
from emulator.domain import values
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.failure import Failure, exception_of
from emulator.domain.limits import MAX_STEP_RETRIES
from emulator.domain.names import RESERVED
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import StepLimitReached

if TYPE_CHECKING:
    from emulator.engine.streams import Writer, Writing

STREAM_WRITE: Final = f"{RESERVED}stream.write"
STREAM_CLOSE: Final = f"{RESERVED}stream.close"
"""The names of the steps that are a write, or a close, of `run()` itself."""

_INTERNAL: Final = StepConfig(
    RetryConfig(limit=MAX_STEP_RETRIES, delay=0, backoff="constant"), timeout="10 minutes"
)
"""The config of such a step. Only the end of a process makes it try again."""


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

    @property
    def writing(self) -> Writing:
        """What it writes to streams."""
        ...

    async def ask(self, request: StepRequest) -> Outcome:
        """Put a request to the engine and wait for its outcome; raises what the step failed with."""
        ...

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step for as long as the incarnation lasts."""
        ...

    def use_streams(self) -> None:
        """Mark what callbacks write from now on."""
        ...

    def writer(self) -> Writer | None:
        """Who writes to a stream here: a step's callback, or None for `run()` itself."""
        ...

    def output(self, step: StepKey, output: values.StreamedOutput) -> object:
        """What a step has returned as a stream, to be read."""
        ...


class StepContext:
    """The durable operations of one incarnation.

    A step's identity is its kind, its name and the how-many-th use of that name; names are not checked here.
    """

    def __init__(self, life: Asker) -> None:
        self._life = life
        self._counts: dict[tuple[StepKind, str], int] = {}
        self._steps_asked = 0

    async def do(
        self, name: str, code: StepCode, config: StepConfig, rollback: RollbackCode | None = None
    ) -> object:
        """Run a callback once: its stored result, now and in every replay.

        Raises:
            StepLimitReached: this incarnation has asked for too many `do` steps.
            Exception: what the step failed with, rebuilt from what is stored (`domain.failure.exception_of`).
        """
        self._steps_asked += 1
        limit = self._life.step_limit
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
        value = values.decode(outcome)
        return self._life.output(step, value) if type(value) is values.StreamedOutput else value

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

    def use_streams(self) -> None:
        """Say that callbacks may write to streams: what they write is marked from now on."""
        self._life.use_streams()

    async def write(self, stream: str, chunk: object) -> None:
        """Append a value, and wait until it is committed. In `run()` itself it is a step, done once.

        Raises:
            StreamError: the stream is closed, or the attempt that writes is over.
            SerializationError: the value cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: it is over 1 MiB.
        """
        where = f'a chunk of the stream "{stream}"'
        writer = self._life.writer()
        if writer is not None:
            await writer.write(stream, chunk, where)
        else:
            stored = values.encode(chunk, where)
            callback = partial(self._life.writing.write_once, stream, stored)
            await self.do(STREAM_WRITE, StepCode(callback), _INTERNAL)

    async def close_stream(self, stream: str) -> None:
        """Let a stream take no more chunks, if it still does; see `write`."""
        writer = self._life.writer()
        if writer is not None:
            await writer.close(stream)
        else:
            callback = partial(self._life.writing.close_stream, stream)
            await self.do(STREAM_CLOSE, StepCode(callback), _INTERNAL)

    def _key(self, kind: StepKind, name: str) -> StepKey:
        count = self._counts.get((kind, name), 0) + 1
        self._counts[kind, name] = count
        return StepKey(kind, name, count)
