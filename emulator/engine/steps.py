"""The step context: what `run()` asks the engine, in the plainest form. `bindings` dresses it up."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from emulator.core.effects import HookOwner, Outcome, ReceivedEvent
from emulator.core.inputs import (
    DoRequested,
    HookDisposeRequested,
    HookRequested,
    ReceiveRequested,
    SleepRequested,
    StepRequest,
    WaitRequested,
)
from emulator.domain import values
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.hooks import NO_METADATA, HookRequest, MinRetention, step_name
from emulator.domain.limits import MAX_STEP_RETRIES
from emulator.domain.names import RESERVED
from emulator.domain.steps import StepKey, StepKind
from emulator.engine.step_code import RollbackCode, StepCode
from emulator.engine.streams import Writer, Writing
from emulator.engine.tokens import HookNames
from emulator.errors import HookConflictError, StepLimitReached, WorkflowTimeoutError

STREAM_WRITE: Final = f"{RESERVED}stream.write"
STREAM_CLOSE: Final = f"{RESERVED}stream.close"
"""The names of the steps that are a write, or a close, of `run()` itself."""

_INTERNAL: Final = StepConfig(
    RetryConfig(limit=MAX_STEP_RETRIES, delay=0, backoff="constant"), timeout="10 minutes"
)
"""The config of such a step. Only the end of a process makes it try again."""


class WaitedEvent(NamedTuple):
    """An event that the wait `step` took. `has_payload` tells no payload from the payload null."""

    step: StepKey
    event_type: str
    received_ms: int
    has_payload: bool
    payload: object


class Asker(Protocol):
    """The incarnation, as far as the step context knows it."""

    number: int
    step_limit: int

    def now_ms(self) -> int:
        """The time."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: nothing that it asks is heard any more."""
        ...

    @property
    def writing(self) -> Writing:
        """What it writes to streams."""
        ...

    async def ask(self, request: StepRequest) -> Outcome:
        """Put a request to the engine and wait for its outcome; raises what the step failed with."""
        ...

    def abandoned(self, step: StepKey) -> None:
        """Say that the code has cancelled a step before it saw what came of it."""
        ...

    def later(self, item: HookRequested | HookDisposeRequested) -> Awaitable[Outcome]:
        """Put something to the engine with the next request, or with the end of `run()`; what comes of it."""
        ...

    async def said(self, later: Awaitable[Outcome]) -> Outcome:
        """Put to the engine what has been held back, and wait for what comes of one of these."""
        ...

    def token(self, step: StepKey) -> str:
        """A token for the hook that a step opens."""
        ...

    def hook_id(self, step: StepKey) -> str:
        """The id of the hook that a step opens."""
        ...

    def hook_names(self) -> HookNames:
        """What names its hooks, for code that runs elsewhere."""
        ...

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step for as long as the incarnation lasts."""
        ...

    def hold(self) -> Callable[[], None]:
        """Hand over no outcome until the function that is returned has been called."""
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


class OpenHook:
    """A hook that `run()` has opened. `token` and `hook_id` are known at once, whether the token is free is not."""

    def __init__(self, life: Asker, step: StepKey, request: HookRequest) -> None:
        self.token = request.token
        self.hook_id = request.hook_id
        self.is_disposed = False
        self._life = life
        self._step = step
        self._registration = life.later(HookRequested(life.number, step, request))
        self._turns: list[int] = []
        self._given_back: dict[int, int] = {}
        self._last_turn = 0

    async def owner(self) -> HookOwner | None:
        """Who holds the token if that was taken; None: this instance does. It is told as of the registration."""
        owner = await self._life.said(self._registration)
        assert owner is None or isinstance(owner, HookOwner)
        return owner

    async def receive(self, timeout_ms: int | None = None) -> object:
        """Take the next payload, or wait for one. Nothing is lost when the wait is cancelled: the next one takes it.

        Raises:
            HookConflictError: another instance holds the token.
            HookDisposedError: it has been disposed of, and nothing is left to take.
            WorkflowTimeoutError: none came in time.
        """
        while True:
            try:
                return await self._receive(timeout_ms)
            except WorkflowTimeoutError:
                if timeout_ms is not None:
                    raise
                # It was that of a wait which had been cancelled.

    async def _receive(self, timeout_ms: int | None) -> object:
        turn = self._take_turn()
        again = self._given_back.get(turn, 0)
        try:
            return await self.receive_at(turn, timeout_ms, again)
        except asyncio.CancelledError:
            heapq.heappush(self._turns, turn)
            self._given_back[turn] = again + 1
            raise

    async def receive_at(self, turn: int, timeout_ms: int | None, again: int) -> object:
        """As `receive`, for somebody who counts the turns himself: from one, and none for two waits at a time.

        `again` is how often that wait has been cancelled.
        """
        owner = await self.owner()
        if owner is not None:
            raise HookConflictError(
                token=self.token,
                conflicting_run_id=owner.instance_id,
                conflicting_workflow=owner.workflow,
            )
        step = StepKey(StepKind.WAIT, self._step.label, turn)
        event = await self._life.ask(
            ReceiveRequested(self._life.number, step, self.hook_id, timeout_ms, again)
        )
        assert isinstance(event, ReceivedEvent)
        assert event.payload is not None
        return values.decode(event.payload)

    def dispose(self) -> None:
        """Give the token up, with whatever `run()` asks next. Idempotent."""
        if not self.is_disposed:
            self.is_disposed = True
            self._life.later(HookDisposeRequested(self._life.number, self.hook_id))

    def _take_turn(self) -> int:
        """The number of a wait: the lowest that nobody has. One that was cancelled is free again, with what it took."""
        if self._turns:
            return heapq.heappop(self._turns)
        self._last_turn += 1
        return self._last_turn


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

    @property
    def is_closed(self) -> bool:
        """Whether the incarnation has ended, and its code was cancelled."""
        return self._life.is_closed

    def do(
        self, name: str, code: StepCode, config: StepConfig, rollback: RollbackCode | None = None
    ) -> Coroutine[Any, Any, object]:
        """Run a callback once: its stored result, now and in every replay. To be awaited at once.

        Raises:
            StepLimitReached: this incarnation has asked for too many `do` steps.
            Exception: what the step failed with, rebuilt from what is stored (`domain.failure.exception_of`).
        """
        self._steps_asked += 1
        limit = self._life.step_limit
        if self._steps_asked > limit:
            text = f"The limit of {limit} steps has been reached. This limit can be changed in your worker configuration."
            raise StepLimitReached(text)
        return self._do(name, code, config, rollback)

    def do_reserved(
        self, name: str, code: StepCode, config: StepConfig
    ) -> Coroutine[Any, Any, object]:
        """Run something once that the user has not written as a step: it counts as none, and no name of a user's is its."""
        return self._do(RESERVED + name, code, config, None)

    async def _do(
        self, name: str, code: StepCode, config: StepConfig, rollback: RollbackCode | None
    ) -> object:
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
        return WaitedEvent(step, event.event_type, event.at_ms, event.payload is not None, payload)

    def give_back(self, event: WaitedEvent) -> None:
        """Say that a wait was cancelled before the code saw its event: the next one takes it.

        For code that runs elsewhere. Where it runs here a wait that is cancelled says so itself.
        """
        self._life.abandoned(event.step)

    def now_ms(self) -> int:
        """The time, which is another one in every replay."""
        return self._life.now_ms()

    def create_hook(
        self,
        name: str | None = None,
        token: str | None = None,
        *,
        metadata: msgspec.Raw = NO_METADATA,
        min_retention: MinRetention | None = None,
        is_webhook: bool = False,
        schema: str | None = None,
    ) -> OpenHook:
        """Open a hook. Its token is made up if none is given; it is registered with whatever `run()` asks next."""
        step = self._key(StepKind.HOOK, step_name(token, name))
        request = HookRequest(
            self._life.hook_id(step),
            self._life.token(step) if token is None else token,
            metadata,
            min_retention,
            is_webhook,
            schema,
        )
        return OpenHook(self._life, step, request)

    def hook_names(self) -> HookNames:
        """What names the hooks of this instance, for code that runs elsewhere and has to know them at once."""
        return self._life.hook_names()

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
            await self._do(STREAM_WRITE, StepCode(callback), _INTERNAL, None)

    async def close_stream(self, stream: str) -> None:
        """Let a stream take no more chunks, if it still does; see `write`."""
        writer = self._life.writer()
        if writer is not None:
            await writer.close(stream)
        else:
            callback = partial(self._life.writing.close_stream, stream)
            await self._do(STREAM_CLOSE, StepCode(callback), _INTERNAL, None)

    def hold(self) -> Callable[[], None]:
        """Let the code react: no outcome is handed over until the function that is returned has been called.

        Code that runs elsewhere takes longer to react than the event loop would give it.
        """
        return self._life.hold()

    def _key(self, kind: StepKind, name: str) -> StepKey:
        count = self._counts.get((kind, name), 0) + 1
        self._counts[kind, name] = count
        return StepKey(kind, name, count)
