"""A tenant's process, from inside: it runs `run(event, step)`, and asks the emulator for every step.

Theory of operation
===================
`step` is the same as everywhere; below it stands not an engine but the channel. What a run asks for is a message, and the
answer to it another one. Callbacks are kept here by their step, and called when the emulator asks for that.

The emulator hands over one outcome at a time and waits until the run has said that it is quiet: some passes of the loop
after it was told, when all that it asks for because of that has been said. So a race between steps has the same winner
in every replay.

The tenant's code can do to this process whatever it likes. Nothing here is a protection; that is the process itself.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from bindings.dynamic import messages
from bindings.dynamic.child_host import ChannelHost, not_here
from bindings.dynamic.code import LoadedCodes, code_from_manifest
from bindings.dynamic.envelope import scoped_id
from bindings.dynamic.messages import (
    Callee,
    FromEmulator,
    Told,
    exception_told,
    hook_asked,
    told_of,
    trace_of,
    wish_of,
)
from bindings.entrypoint import program_of
from bindings.webhook import answers_by_hand
from emulator.core.effects import Outcome, ReceivedEvent
from emulator.core.inputs import (
    DoRequested,
    HookDisposeRequested,
    HookRequested,
    ReceiveRequested,
    SleepRequested,
    StepRequest,
)
from emulator.domain import values
from emulator.domain.duration import parse_duration
from emulator.domain.failure import is_retryable
from emulator.domain.instance import Creation
from emulator.domain.limits import MAX_SLEEP_MS
from emulator.domain.steps import StepKey
from emulator.engine.incarnation import MOST_REFUSALS
from emulator.engine.outcomes import PASSES_BETWEEN_OUTCOMES
from emulator.engine.programs import RunEvent
from emulator.engine.step_code import AttemptContext, Compensation, RollbackCode, StepCode
from emulator.engine.steps import StepContext
from emulator.engine.streams import Writer, Writing
from emulator.engine.tasks import check_loop
from emulator.engine.threads import call_code
from emulator.engine.tokens import HookNames
from emulator.errors import RetryableError, RollbackPhase
from emulator.timing.clock import SystemClock

STACK_BYTES: Final = 2**20
"""The stack of a thread: the default would use up the limit on memory with a few dozen."""

MOST_PAYLOADS: Final = 16
"""How many payloads are on their way at a time: the emulator ends a process that fills its memory."""

_MIB: Final = 2**20


class _Process:
    """The channel, and what runs here."""

    def __init__(self, memory_mib: int) -> None:
        self.codes = LoadedCodes()
        self.carrying = asyncio.Semaphore(MOST_PAYLOADS)
        self._memory_mib = memory_mib
        self._writer: asyncio.StreamWriter | None = None
        self._runs: dict[int, _Run] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._given_up: set[int] = set()

    async def serve(self, channel: socket.socket) -> None:
        """Do what is said, until nobody says anything any more."""
        reader, self._writer = await asyncio.open_connection(sock=channel)
        decoder = msgspec.json.Decoder(FromEmulator)
        self.say(messages.Pong(time.process_time()))
        while (body := await messages.read_frame(reader)) is not None:
            self._hear(decoder.decode(body))

    def say(self, message: messages.Message) -> None:
        assert self._writer is not None
        self._writer.write(messages.frame(message))

    def told(self, error: BaseException) -> Told:
        """What is said of an exception; one that says nothing of the limit on memory says it here."""
        told = msgspec.structs.replace(told_of(error), trace=trace_of(error))
        if isinstance(error, MemoryError):
            text = f"The tenant's process is over its limit of {self._memory_mib} MiB of memory."
            return msgspec.structs.replace(told, message=text)
        return told

    def _hear(self, message: FromEmulator) -> None:
        match message:
            case messages.Start():
                self._runs[message.run] = _Run(message, self)
            case messages.Call():
                task = asyncio.create_task(self._call(message))
                self._calls[message.call] = task
                task.add_done_callback(lambda _: self._calls.pop(message.call, None))
            case messages.Cancel():
                if message.call in self._calls:
                    self._given_up.add(message.call)
                    self._calls[message.call].cancel()
            case messages.Forget():
                self._runs.pop(message.run, None)
            case messages.Ping():
                self.say(messages.Pong(time.process_time(), message.number))
            case _:
                if message.run in self._runs:
                    self._runs[message.run].hear(message)

    async def _call(self, call: messages.Call) -> None:
        run = self._runs[call.run]
        task = asyncio.current_task()
        assert task is not None
        run.callbacks.add(task)
        try:
            value = await run.call(call)
        except asyncio.CancelledError as error:
            # Not what the task says: before Python 3.13 a task group may leave it with a cancellation of its own.
            if run.is_closed or call.call in self._given_up:
                raise
            self.say(messages.Raised(call.call, self.told(error), retryable=True))
        except BaseException as error:
            run.errors[call.step] = error
            wish = wish_of(error) if isinstance(error, RetryableError) else None
            self.say(messages.Raised(call.call, self.told(error), is_retryable(error), wish))
        else:
            self.say(messages.Returned(call.call, value))
        finally:
            run.callbacks.discard(task)
            self._given_up.discard(call.call)


class _Run:
    """One incarnation: what stands below its step context, in the place of the engine's (`engine.steps.Asker`)."""

    def __init__(self, start: messages.Start, process: _Process) -> None:
        self.number = start.run
        self._creation = Creation(
            start.workflow_name,
            scoped_id(start.scope, start.instance_id),
            start.payload,
            start.timestamp_ms,
        )
        self.step_limit = start.step_limit
        self.errors: dict[StepKey, BaseException] = {}
        self.callbacks: set[asyncio.Task[None]] = set()
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._code: dict[StepKey, StepCode] = {}
        self._rollbacks: dict[StepKey, RollbackCode] = {}
        self._asked: dict[int, tuple[StepKey, asyncio.Future[Outcome]]] = {}
        self._last_ask = 0
        self._names = start.hooks
        self._hooks: dict[str, int] = {}
        self._later: list[tuple[HookRequested | HookDisposeRequested, asyncio.Future[Outcome]]] = []
        self._questions: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._host = ChannelHost(self._question, start.webhooks)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_closed = False
        self._refusals = 0
        self._task = self._loop.create_task(self._go(start))
        self._become_quiet()

    async def _go(self, start: messages.Start) -> None:
        try:
            codes = self._process.codes
            workflow = codes.find(start.code) or codes.load(
                code_from_manifest(start.manifest), start.code
            )
            env = SimpleNamespace(**values.decode(start.env))
            program = program_of(workflow, SimpleNamespace(), env, start.defaults, self._host)()
            event = RunEvent(
                values.decode(start.payload),
                start.timestamp_ms,
                start.instance_id,
                start.workflow_name,
                None,
            )
            output = values.encode(
                await program.run(event, StepContext(self)),
                "the output of run()",
                too_large="The workflow's output is too large. Maximum allowed size is 1MiB.",
            )
        except asyncio.CancelledError as error:
            if self.is_closed:
                raise
            self._end(messages.Failed(self.number, told_of(error)))
        except BaseException as error:
            self._end(messages.Failed(self.number, self._process.told(error)))
        else:
            self._end(messages.Ended(self.number, output))

    def _end(self, how: messages.Ended | messages.Failed) -> None:
        if not self.is_closed:
            self._say_later()
            self._process.say(messages.Pong(time.process_time()))  # before anybody begins the next
            self._process.say(how)

    # what the step context asks

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step."""
        self._code[step] = code
        if rollback is not None:
            self._rollbacks[step] = rollback

    def hold(self) -> Callable[[], None]:
        """Nobody is held: the emulator does that."""
        return lambda: None

    def now_ms(self) -> int:
        """The time."""
        return SystemClock().now_ms()

    def token(self, step: StepKey) -> str:
        """The token of the hook that a step opens, if none is given."""
        return self._names.token(step)

    def hook_id(self, step: StepKey) -> str:
        """The id of the hook that a step opens."""
        return self._names.hook_id(step)

    def hook_names(self) -> HookNames:
        """What names its hooks."""
        return self._names

    def later(self, item: HookRequested | HookDisposeRequested) -> asyncio.Future[Outcome]:
        """Ask the emulator with the next request, or with the end of `run()`; what comes of it."""
        if isinstance(item, HookRequested) and item.hook.is_webhook and answers_by_hand(item.hook):
            raise not_here("webhooks that a step answers by hand")
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._later.append((item, future))
        return future

    async def said(self, later: Awaitable[Outcome]) -> Outcome:
        """Ask what has been held back, and wait for what comes of one of these."""
        check_loop(self._loop)
        task = asyncio.current_task()
        if self.is_closed:
            await self._refuse(task)
        self._own(task)
        self._say_later()
        return await asyncio.shield(later)

    def _say_later(self) -> None:
        """Ask what has been held back."""
        later, self._later = self._later, []
        if self.is_closed:
            return
        for item, future in later:
            if isinstance(item, HookDisposeRequested):
                self._process.say(messages.DisposeHook(self.number, self._hooks[item.hook_id]))
                continue
            self._last_ask += 1
            self._asked[self._last_ask] = item.step, future
            self._hooks[item.hook.hook_id] = self._last_ask
            self._process.say(hook_asked(self.number, self._last_ask, item))

    @property
    def writing(self) -> Writing:
        """Nothing: there are no streams here."""
        raise not_here("streams")

    def use_streams(self) -> None:
        """Nothing: there are no streams here."""
        raise not_here("streams")

    def writer(self) -> Writer | None:
        """Nothing: there are no streams here."""
        raise not_here("streams")

    def output(self, step: StepKey, output: values.StreamedOutput) -> object:  # noqa: ARG002
        """Nothing: there are no streams here."""
        raise not_here("streams")

    async def ask(self, request: StepRequest) -> Outcome:
        """Ask the emulator for a step."""
        check_loop(self._loop)
        task = asyncio.current_task()
        if self.is_closed:
            await self._refuse(task)
        self._own(task)
        self._say_later()
        self._last_ask += 1
        number, future = self._last_ask, self._loop.create_future()
        self._asked[number] = request.step, future
        self._process.say(self._message(number, request))
        try:
            return await future
        except asyncio.CancelledError:
            self._asked.pop(number, None)
            if not self.is_closed:  # also when the answer is there: the code has not seen it
                self._process.say(messages.Abandon(self.number, number))
            raise

    def abandoned(self, step: StepKey) -> None:
        """Nothing: what the code has cancelled is said where it was asked."""

    def _own(self, task: asyncio.Task[Any] | None) -> None:
        """The task that asks goes with the run."""
        if task is not None and task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _refuse(self, task: asyncio.Task[Any] | None) -> None:
        if task in self.callbacks:
            raise RollbackPhase
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            raise asyncio.CancelledError
        await self._loop.create_future()  # it swallows every cancellation, and shall hang

    def _message(self, ask: int, request: StepRequest) -> messages.Message:
        name = request.step.name
        if isinstance(request, DoRequested):
            rollback = self._rollbacks.get(request.step)
            return messages.AskDo(
                self.number,
                ask,
                name,
                request.config,
                self._code[request.step].delay is not None,
                request.rollback,
                rollback is not None and rollback.code.delay is not None,
                request.step.is_internal,
            )
        if isinstance(request, ReceiveRequested):
            hook = self._hooks[request.hook_id]
            turn, again = request.step.count, request.again
            return messages.AskReceive(self.number, ask, hook, turn, request.timeout_ms, again)
        if isinstance(request, SleepRequested):
            if request.until_ms is not None:
                return messages.AskSleepUntil(self.number, ask, name, request.until_ms)
            assert request.duration_ms is not None
            # Less than nothing is nothing, however much less.
            duration_ms = max(request.duration_ms, -MAX_SLEEP_MS)
            return messages.AskSleep(self.number, ask, name, duration_ms)
        assert request.timeout_ms is not None
        return messages.AskWait(self.number, ask, name, request.event_type, request.timeout_ms)

    # what it is told

    def hear(self, message: messages.ToRun) -> None:
        """Take in what the emulator says about this run."""
        match message:
            case messages.Stop():
                self._stop()
            case messages.HostAnswer() | messages.HostError():
                self._told(message)
            case _:
                self._answered(message)

    def _answered(self, answer: messages.StepAnswer) -> None:
        """Hand over the outcome of a step."""
        step, future = self._asked.pop(answer.ask, (None, None))
        if step is not None and future is not None and not future.done():
            self._code.pop(step, None)
            match answer:
                case messages.Answer():
                    future.set_result(answer.value)
                case messages.EventAnswer():
                    payload = answer.payload if answer.has_payload else None
                    future.set_result(
                        ReceivedEvent(0, answer.event_type, answer.received_ms, payload)
                    )
                case messages.OwnerAnswer():
                    future.set_result(answer.owner)
                case messages.ErrorAnswer():
                    error = exception_told(answer.error)
                    error.__cause__ = self.errors.pop(step, None)
                    future.set_exception(error)
        self._become_quiet()

    async def _question(self, call: messages.HostCall) -> msgspec.Raw:
        """Ask about instances. The answer is none of the outcomes, which come one at a time."""
        check_loop(self._loop)
        self._last_ask += 1
        number, future = self._last_ask, self._loop.create_future()
        self._questions[number] = future
        carrying = (
            self._process.carrying if isinstance(call, messages.ResumeCall) else nullcontext()
        )
        try:
            async with carrying:
                self._process.say(messages.AskHost(self.number, number, call))
                return await future
        except asyncio.CancelledError:
            self._process.say(messages.Abandon(self.number, number))
            raise
        finally:
            del self._questions[number]

    def _told(self, answer: messages.HostAnswer | messages.HostError) -> None:
        """Hand over the answer to a question."""
        future = self._questions.get(answer.ask)
        if future is None or future.done():
            return
        if isinstance(answer, messages.HostAnswer):
            future.set_result(answer.value)
        else:
            future.set_exception(exception_told(answer.error))

    def _become_quiet(self) -> None:
        self._loop.call_soon(self._pass, PASSES_BETWEEN_OUTCOMES)

    def _pass(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._pass, left - 1)
        else:
            self._process.say(messages.Quiet(self.number))

    async def call(self, call: messages.Call) -> msgspec.Raw:
        """Call a callback; its result as it is stored, of a delay function milliseconds."""
        context = AttemptContext(call.step, call.attempt, call.config, self._creation)
        error = None if call.error is None else exception_told(call.error)
        if call.callee in (Callee.DELAY, Callee.ROLLBACK_DELAY):
            owner = (
                self._code[call.step]
                if call.callee is Callee.DELAY
                else self._rollbacks[call.step].code
            )
            cause = self.errors.get(call.step) or error
            assert owner.delay is not None
            assert cause is not None
            answer = owner.delay(context, cause)
            return values.encode(
                parse_duration(await answer if inspect.isawaitable(answer) else answer), "a delay"
            )
        if call.callee is Callee.STEP:
            value: Any = await call_code(self._code[call.step], context)
            if hasattr(cast("object", type(value)), "__aiter__"):
                raise not_here("steps that return streams")
        else:
            assert error is not None
            told = Compensation(context, error, values.decode(call.output))
            value = await call_code(self._rollbacks[call.step].code, told)
        label = call.step.label
        return values.encode(
            value,
            f'the result of step "{label}"',
            too_large=f"Step {label} output is too large. Maximum allowed size is 1MiB.",
        )

    def _stop(self) -> None:
        """Unwind the code; its rollback handlers stay."""
        self.is_closed = True
        self._code.clear()
        self._asked.clear()
        self._later.clear()
        for task in (*self._tasks, self._task):
            task.cancel()


def _end_with_the_emulator(channel_fd: int) -> None:
    """Wait until the other end of the channel is closed: a loop that the tenant holds up would not notice."""
    hung_up = select.poll()
    hung_up.register(channel_fd, 0)
    hung_up.poll()
    os._exit(0)


def main(channel_fd: int, memory_mib: int, cpu_s: int) -> None:
    """Live within the limits, until the channel is closed."""
    # A core of what a tenant has in memory would be left lying about.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * _MIB, memory_mib * _MIB))
    # At the soft limit comes a signal that can be told from others; who ignores it is killed a second later.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    threading.stack_size(STACK_BYTES)
    threading.Thread(target=_end_with_the_emulator, args=(channel_fd,), daemon=True).start()
    asyncio.run(_Process(memory_mib).serve(socket.socket(fileno=channel_fd)))
