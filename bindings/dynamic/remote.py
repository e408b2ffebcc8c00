"""A program whose code is in a tenant's process: every step it asks for is asked here, of the real step context."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from bindings.dynamic import messages
from bindings.dynamic.code import Code
from bindings.dynamic.messages import Callee, Told, failure_told, for_log, told_of
from bindings.dynamic.processes import TenantProcess
from bindings.dynamic.serving import HostService
from bindings.host import Host
from bindings.step import RESERVED_CONFIG
from bindings.webhook import check_about
from emulator.domain import values
from emulator.domain.config import DYNAMIC_DELAY, StepConfig, resolve_config
from emulator.domain.failure import exception_of, is_retryable
from emulator.domain.hooks import check_retention, check_token
from emulator.domain.limits import MAX_SLEEP_MS, MAX_WAIT_TIMEOUT_MS
from emulator.domain.names import RESERVED, check_event_type, check_step_name
from emulator.engine.programs import RunEvent
from emulator.engine.step_code import AttemptContext, Compensation, RollbackCode, StepCode
from emulator.engine.steps import OpenHook, StepContext, WaitedEvent
from emulator.errors import (
    InvalidDuration,
    InvalidHook,
    InvalidStepConfig,
    NonRetryableError,
    PayloadTooLarge,
    ProgramLost,
    RetryableError,
    SerializationError,
)

MOST_ASKS: Final = 20_000
"""How many steps a run may have asked for at a time: what nobody has answered is in the emulator's memory."""

MAX_CONFIG_BYTES: Final = 4_096
"""Of a step, as JSON. Durations may be texts, and what has been read of one is remembered."""

NULL: Final = messages.NULL

_START: Final = 0
"""What stands for the start among the numbers of what a process has asked: it is answered, too."""


class RemoteRun:
    """One incarnation in a tenant's process."""

    def __init__(
        self,
        process: TenantProcess,
        scope: str,
        step: StepContext,
        defaults: StepConfig,
        host: Host | None,
    ) -> None:
        self._scope = scope
        self._host = host
        self._service = HostService(process, host)
        self._service.live_with(self)
        self._process = process
        self._step = step
        self._defaults = defaults
        self._asks: dict[int, asyncio.Task[None]] = {}
        self._hooks: dict[int, OpenHook] = {}
        self._receiving: set[tuple[int, int]] = set()
        self._answered: deque[tuple[int, Callable[[], None]]] = deque()
        self._unseen: dict[int, WaitedEvent] = {}
        self._end: asyncio.Future[msgspec.Raw] | None = asyncio.get_running_loop().create_future()
        self._number = process.take(self)

    async def go(self, event: RunEvent, code: Code, env: msgspec.Raw) -> object:
        """Let it run; what `run()` returns.

        Raises:
            ProgramLost: the process has ended.
            Exception: what `run()` raised, as it is stored.
        """
        self._answered.append((_START, self._step.hold()))
        assert self._end is not None, "a run goes once"
        try:
            async with self._process.turn():
                self._process.say(self._begin(event, code, env))
            return values.decode(await self._end)
        finally:
            self._end = (
                None  # its exception refers to this frame, and would be garbage of the slow kind
            )
            self._process.say(messages.Stop(self._number))
            for task in self._asks.values():
                task.cancel()

    def _begin(self, event: RunEvent, code: Code, env: msgspec.Raw) -> messages.Start:
        assert event.code is not None
        return messages.Start(
            self._number,
            self._scope,
            event.code,
            code.manifest(),
            values.encode(event.payload, "params"),
            event.timestamp_ms,
            event.instance_id,
            event.workflow_name,
            env,
            self._defaults,
            self._step.step_limit,
            self._step.hook_names(),
            "" if self._host is None else self._host.webhook_url(""),
        )

    # what the process says

    def hear(self, message: messages.FromProcess, size_bytes: int) -> None:
        """Take in what it says about this run."""
        match message:
            case messages.Ended():
                if self._end is not None and not self._end.done():
                    self._end.set_result(message.value)
            case messages.Failed():
                self._fail(_exception(message.error))
            case messages.Quiet():
                if self._answered:
                    ask, release = self._answered.popleft()
                    self._unseen.pop(ask, None)
                    release()
            case messages.Abandon():
                self._service.abandon(message.ask)
                self._abandon(message.ask)
            case messages.DisposeHook():
                # Not before the tasks of what was asked before it have begun.
                asyncio.get_running_loop().call_soon(self._dispose, message.hook)
            case messages.AskHost():
                self._service.hear(message, size_bytes)
            case messages.Pong() | messages.Returned() | messages.Raised():
                pass
            case _:
                if self._end is not None:  # what crosses with `Stop` comes to nothing
                    self._asked(message, size_bytes)

    def _asked(self, ask: messages.Ask, size_bytes: int) -> None:
        if ask.ask in self._asks:
            self._process.kill("has asked twice under one number and was killed")
            return
        if max(len(self._asks), len(self._hooks)) >= MOST_ASKS:
            self._process.kill(f"has asked for more than {MOST_ASKS} steps or hooks at a time")
            return
        self._process.carry(size_bytes)
        # Tasks begin in the order in which they are made, so steps are counted as they are in the process.
        task = asyncio.ensure_future(self._answer(ask))
        self._asks[ask.ask] = task
        task.add_done_callback(partial(_done, self._asks, ask.ask, self._process, size_bytes))

    def _step_of(self, ask: messages.Ask) -> Awaitable[messages.Message]:
        match ask:
            case messages.AskDo():
                return self._do(ask)
            case messages.AskSleep():
                return self._sleep(ask)
            case messages.AskSleepUntil():
                return self._sleep_until(ask)
            case messages.AskWait():
                return self._wait(ask)
            case messages.AskHook():
                return self._hook(ask)
            case messages.AskReceive():
                return self._receive(ask)

    def lose(self, lost: ProgramLost) -> None:
        """The process has ended."""
        self._service.close()
        self._fail(lost)

    def _fail(self, error: Exception) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_exception(error)

    def _abandon(self, ask: int) -> None:
        """The code has cancelled what it asked for, and will not see the answer, which may be on its way."""
        task = self._asks.get(ask)
        if task is None or not task.cancel():
            self._give_back(ask)

    def _give_back(self, ask: int) -> None:
        event = self._unseen.pop(ask, None)
        if event is not None:
            self._step.give_back(event)

    async def _answer(self, ask: messages.Ask) -> None:
        try:
            answer = await self._step_of(ask)
        except Exception as error:
            answer = messages.ErrorAnswer(self._number, ask.ask, told_of(error))
        # Until the process has reacted it is told nothing else.
        release = self._step.hold()
        try:
            async with self._process.turn():
                self._answered.append((ask.ask, release))
                self._process.say(answer)
        except asyncio.CancelledError:
            release()  # it has not come to its turn
            self._give_back(ask.ask)
            raise

    async def _do(self, ask: messages.AskDo) -> messages.Message:
        if ask.is_reserved:
            name = check_step_name(ask.name.removeprefix(RESERVED))
            result = await self._step.do_reserved(name, StepCode(self._attempt), RESERVED_CONFIG)
            return messages.Answer(self._number, ask.ask, values.encode(result, "a result"))
        name = check_step_name(ask.name)
        config = self._checked(ask.config, name)
        delay = partial(self._delay, Callee.DELAY) if ask.has_delay else None
        code = StepCode(self._attempt, delay=delay)
        rollback = None
        if ask.rollback is not None:
            delay = partial(self._delay, Callee.ROLLBACK_DELAY) if ask.rollback_has_delay else None
            rollback = RollbackCode(
                StepCode(self._compensate, delay=delay), self._checked(ask.rollback, name)
            )
        result = await self._step.do(name, code, config, rollback)
        return messages.Answer(self._number, ask.ask, values.encode(result, "a result"))

    async def _sleep(self, ask: messages.AskSleep) -> messages.Message:
        if ask.duration_ms > MAX_SLEEP_MS:
            raise InvalidDuration
        check_step_name(ask.name.removeprefix(RESERVED))
        await self._step.sleep(ask.name, ask.duration_ms)
        return messages.Answer(self._number, ask.ask, NULL)

    async def _sleep_until(self, ask: messages.AskSleepUntil) -> messages.Message:
        await self._step.sleep_until(check_step_name(ask.name), ask.until_ms)
        return messages.Answer(self._number, ask.ask, NULL)

    async def _wait(self, ask: messages.AskWait) -> messages.Message:
        if not 0 <= ask.timeout_ms <= MAX_WAIT_TIMEOUT_MS:
            raise InvalidDuration
        name, event_type = check_step_name(ask.name), check_event_type(ask.event_type)
        event = await self._step.wait_for_event(name, event_type, ask.timeout_ms)
        self._unseen[ask.ask] = event
        return messages.EventAnswer(
            self._number,
            ask.ask,
            event.event_type,
            event.received_ms,
            event.has_payload,
            values.encode(event.payload, "a payload"),
        )

    async def _hook(self, ask: messages.AskHook) -> messages.Message:
        about = values.decode(ask.metadata)
        hook = self._step.create_hook(
            None if ask.name is None else check_step_name(ask.name),
            None if ask.token is None else check_token(ask.token),
            metadata=values.encode(
                check_about(about) if ask.is_webhook else about, "the metadata of a hook"
            ),
            min_retention=check_retention(ask.min_retention, self._step.now_ms()),
            is_webhook=ask.is_webhook and ask.token is None,
        )
        self._hooks[ask.ask] = hook
        return messages.OwnerAnswer(self._number, ask.ask, await hook.owner())

    async def _receive(self, ask: messages.AskReceive) -> messages.Message:
        hook, wait = self._hooks.get(ask.hook), (ask.hook, ask.turn)
        if hook is None or not 1 <= ask.turn < 2**31 or wait in self._receiving:
            raise InvalidHook("There is no such hook, or no such turn.")
        if ask.timeout_ms is not None and not 0 <= ask.timeout_ms <= MAX_WAIT_TIMEOUT_MS:
            raise InvalidDuration
        self._receiving.add(wait)
        try:
            payload = await hook.receive_at(ask.turn, ask.timeout_ms, ask.again)
        finally:
            self._receiving.discard(wait)
        stored = values.encode(payload, "a payload")
        return messages.EventAnswer(self._number, ask.ask, "", 0, True, stored)

    def _dispose(self, number: int) -> None:
        if number in self._hooks:
            self._hooks[number].dispose()

    def _checked(self, config: StepConfig, name: str) -> StepConfig:
        """The config, if it is one that the user's own code could have come by."""
        if len(msgspec.json.encode(config)) > MAX_CONFIG_BYTES:
            raise InvalidStepConfig(f'The config for "{name}" has over {MAX_CONFIG_BYTES} bytes.')
        given: dict[str, Any] = msgspec.to_builtins(config)
        if config.retries.delay == DYNAMIC_DELAY:
            given["retries"]["delay"] = self._delay
        return resolve_config(given, self._defaults, name)

    # what the engine calls

    async def _attempt(self, context: AttemptContext) -> object:
        return await self._called(Callee.STEP, context)

    async def _compensate(self, told: Compensation) -> object:
        output = values.encode(told.output, "an output")
        return await self._called(Callee.ROLLBACK, told.context, told_of(told.error), output)

    async def _delay(
        self, callee: Callee, context: AttemptContext, error: BaseException, /
    ) -> object:
        delay = await self._called(callee, context, told_of(error))
        # The process has read it already: a text, which might be of any length, is none that it makes.
        return delay if isinstance(delay, int | float) else math.nan

    async def _called(
        self,
        callee: Callee,
        context: AttemptContext,
        error: Told | None = None,
        output: msgspec.Raw = NULL,
    ) -> object:
        call = messages.Call(
            0, self._number, callee, context.step, context.attempt, context.config, error, output
        )
        answer = await self._process.call(call)
        if isinstance(answer, messages.Raised):
            raise _attempt_error(answer)
        return values.decode(answer.value)


def _exception(told: Told) -> Exception:
    """What a tenant's code has raised, as the journal would give it back: not an error of the engine's own."""
    return _traced(exception_of(failure_told(told)), told)


def _traced(error: Exception, told: Told) -> Exception:
    """Let the log show where in the tenant's code it comes from."""
    if told.trace:
        error.add_note(f"In the process of the tenant:\n{for_log(told.trace).rstrip()}")
    return error


def _done(
    asks: dict[int, asyncio.Task[None]],
    ask: int,
    process: TenantProcess,
    size_bytes: int,
    _: asyncio.Task[None],
) -> None:
    asks.pop(ask, None)
    process.carry(-size_bytes)


_FINAL: Final[dict[str, type[Exception]]] = {
    SerializationError.name: SerializationError,
    PayloadTooLarge.name: PayloadTooLarge,
}
"""Failures of an attempt that no other attempt could mend, by what they are called."""


def _attempt_error(raised: messages.Raised) -> Exception:
    error = _exception(raised.error)
    if isinstance(error, RetryableError) and raised.retry_after is not None:
        return _traced(RetryableError(error.message, retry_after=raised.retry_after), raised.error)
    if raised.retryable or not is_retryable(error):
        return error
    final = _FINAL.get(raised.error.name, NonRetryableError)(raised.error.message)
    return _traced(final, raised.error)
