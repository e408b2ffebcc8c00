"""One life of `run()` in memory: the user's task, what it has asked for, and the attempts under way.

Theory of operation
===================
The user's code asks through a `StepContext`; every request becomes an input for the core, and a future that is resolved
once the answer is committed (see `outcomes`).

An incarnation ends by being *closed*: its tasks are cancelled, its futures with them. Code that swallows the
cancellation achieves nothing: nothing it says is heard, and a step it asks for cancels it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from emulator.core.effects import InvokeAttempt, InvokeRollback, Outcome, ResolveStep
from emulator.core.inputs import (
    AttemptRaised,
    AttemptReturned,
    HookDisposeRequested,
    HookRequested,
    RollbackRaised,
    RollbackReturned,
    RunInput,
    RunLost,
    RunParked,
    RunRaised,
    RunReturned,
    StepAbandoned,
    StepRequest,
)
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.failure import Failure, exception_of, failure_of
from emulator.domain.instance import InstanceKey
from emulator.domain.steps import StepKey
from emulator.engine.attempts import Attempt, Raised, Verdict
from emulator.engine.notices import Notices, ReplayCheck
from emulator.engine.outcomes import Outcomes
from emulator.engine.outputs import PAGE_BYTES, PAGE_CHUNKS, StoredOutput, output_stream
from emulator.engine.programs import RunEvent, WorkflowDefinition, uncaught
from emulator.engine.rest import Rest
from emulator.engine.step_code import (
    AttemptContext,
    Compensation,
    RollbackCode,
    StepCode,
    mocked_code,
    told_output,
)
from emulator.engine.steps import StepContext
from emulator.engine.streams import Streams, Writer, Writing
from emulator.engine.tasks import Made, check_loop, enter_run, is_in_run
from emulator.engine.threads import keep_for_ever
from emulator.engine.tokens import HookNames, TokenMaker
from emulator.errors import ProgramLost, RollbackPhase
from emulator.journal.port import ChunkRow
from emulator.timing.alarm import Timers

MOST_REFUSALS = 100
"""How often code that has swallowed its cancellation is cancelled again when it asks for a step, before it just hangs."""

MISSING_HANDLER = Failure("RollbackMissing", "Rollback function not available in registry")

HookInput = HookRequested | HookDisposeRequested


class Host(Protocol):
    """What an incarnation needs of the engine."""

    key: InstanceKey
    notices: Notices
    number: int
    timers: Timers
    tokens: TokenMaker
    streams: Streams

    def post(self, item: RunInput) -> None:
        """Put an input into the engine's inbox."""
        ...


class Incarnation:
    """One run of user code. `state` is only read, and only for what the instance was created with."""

    def __init__(
        self, number: int, definition: WorkflowDefinition, state: InstanceState, host: Host
    ) -> None:
        self.number = number
        self.step_limit = definition.step_limit
        self._writing = Writing(host.streams, host.key, host.number)
        self._definition = definition
        self._state = state
        self._host = host
        self._loop = asyncio.get_running_loop()
        self.is_closed = False
        self._refusals = 0
        self._run: asyncio.Task[None] | None = None
        self._made = Made()
        self._rest = Rest(host.timers, self._made, self._is_at_rest, self._parked)
        self.outcomes = Outcomes(self._rest.stir, self._rest.watch)
        self._code: dict[StepKey, StepCode] = {}
        self._rollbacks: dict[StepKey, RollbackCode] = {}
        self._later: list[tuple[HookInput, asyncio.Future[Outcome]]] = []
        self._attempts: dict[StepKey, Attempt] = {}
        self._check = ReplayCheck(state, host.notices)

    # the user's code

    def start(self, *, registering: bool) -> None:
        """Call `run()`. If that is only to find its rollback handlers, it need not get anywhere."""
        if registering:
            self._rest.be_patient()
        else:
            self._check.begin()
        self._run = self._loop.create_task(self._run_program())

    async def _run_program(self) -> None:
        enter_run(self._made)
        creation = self._state.creation
        try:
            program = self._definition.program()
            output = values.encode(
                await program.run(RunEvent.of(creation), StepContext(self)),
                "the output of run()",
                too_large="The workflow's output is too large. Maximum allowed size is 1MiB.",
            )
        except asyncio.CancelledError as error:
            if self.is_closed:
                raise
            self._end(RunRaised(self.number, failure_of(error)))
        except ProgramLost as error:
            if not self.is_closed:
                self._host.post(RunLost(self.number, failure_of(error)))
        except BaseException as error:
            if not self.is_closed:
                failure = uncaught(
                    error, self._definition, creation, told=error is self.outcomes.told
                )
                self._end(RunRaised(self.number, failure))
        else:
            if not self.is_closed:
                self._end(RunReturned(self.number, output))

    def _end(self, end: RunReturned | RunRaised) -> None:
        self.say_later()
        self._host.post(end)
        self._check.over()

    # what it asks

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step for as long as the incarnation lasts."""
        self._code[step] = code
        if rollback is not None:
            self._rollbacks[step] = rollback

    @property
    def writing(self) -> Writing:
        """What it writes to streams."""
        return self._writing

    def use_streams(self) -> None:
        """Mark what callbacks write from now on, also in this one and the tasks that it makes."""
        self._writing.is_used = True
        with suppress(RuntimeError):  # a thread has no task, and writes nothing itself
            self.writer()

    def writer(self) -> Writer | None:
        """Who writes to a stream here: a step's callback, or None for `run()` itself."""
        writer = self._writing.current()
        if writer is not None:
            return writer
        task = asyncio.current_task()
        for attempt in self._attempts.values():
            if attempt.has_task(task):
                return self._writing.enter(attempt.context)
        return None if is_in_run() else Writer(self._writing, None, None)

    def output(self, step: StepKey, output: values.StreamedOutput) -> StoredOutput:
        """What a step has returned as a stream, to be read."""
        return StoredOutput(step.label, output, partial(self._read_output, step.label))

    async def _read_output(self, label: str, first: int) -> list[ChunkRow]:
        # Like a question to the engine: the code is not at rest meanwhile, and hears of nothing else.
        self._rest.stir()
        release = self.hold()
        try:
            page = await self._host.streams.journal.chunks(
                self._host.key, output_stream(label), first, PAGE_CHUNKS, PAGE_BYTES
            )
        finally:
            release()
        return page.chunks if page is not None else []

    def hold(self) -> Callable[[], None]:
        """Hand over no outcome until the function that is returned has been called, as while a request is undecided."""
        self.outcomes.hold()

        def release() -> None:
            self.outcomes.heard()
            self._rest.watch()

        return release

    async def ask(self, request: StepRequest) -> Outcome:
        """Put a request to the engine and wait for its outcome; raises what the step failed with."""
        check_loop(self._loop)
        if self.is_closed:
            await self._refuse(asyncio.current_task())
        if self._later:
            self.say_later()
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self.outcomes.expect(request.step, future)
        self._check.asked(request.step)
        self._host.post(request)
        try:
            return await future
        except asyncio.CancelledError:
            # Also when the answer is there: the code has not seen it.
            self.outcomes.give_up(request.step, future)
            self.abandoned(request.step)
            raise

    def abandoned(self, step: StepKey) -> None:
        """Say that the code has cancelled a step before it saw what came of it."""
        if not self.is_closed:
            self._host.post(StepAbandoned(self.number, step))

    async def said(self, later: Awaitable[Outcome]) -> Outcome:
        """Put to the engine what has been held back, and wait for what comes of one of these."""
        check_loop(self._loop)
        if self.is_closed:
            await self._refuse(asyncio.current_task())
        self.say_later()
        return await asyncio.shield(later)

    def now_ms(self) -> int:
        """The time."""
        return self._host.timers.now_ms()

    def later(self, item: HookInput) -> asyncio.Future[Outcome]:
        """Put something to the engine with the next request, or with the end of `run()`; what comes of it."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._later.append((item, future))
        return future

    def say_later(self) -> None:
        """Put to the engine what has been held back."""
        if not self._later or self.is_closed:
            return
        later, self._later = self._later, []
        self._rest.stir()
        for item, future in later:
            if isinstance(item, HookRequested):
                self.outcomes.expect(item.step, future)
            self._host.post(item)

    def token(self, step: StepKey) -> str:
        """The token of the hook that a step opens, if none is given: what the journal has, or a new one."""
        hook = self._state.hook_of(step)
        return hook.token if hook else self._host.tokens.token(self._state.creation, step)

    def hook_id(self, step: StepKey) -> str:
        """The id of the hook that a step opens: what the journal has, or a new one."""
        hook = self._state.hook_of(step)
        return hook.hook_id if hook else self._host.tokens.hook_id(self._state.creation, step)

    def hook_names(self) -> HookNames:
        """What names its hooks, for code that runs elsewhere."""
        return self._host.tokens.names(self._state)

    async def _refuse(self, task: asyncio.Task[Any] | None) -> None:
        if self._attempts and not is_in_run():
            raise RollbackPhase  # only handlers are called now
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            raise asyncio.CancelledError
        if task is not None:
            # It swallows every cancellation. Nothing will ever wake it, so nothing shall wait for its end
            # (asyncio.run would); unregistering is what asyncio documents for tasks that a loop need not know.
            asyncio.tasks._unregister_task(task)  # noqa: SLF001
            keep_for_ever(task)
        await self._loop.create_future()

    def resolve(self, effect: ResolveStep) -> None:
        """Hand over the outcome of a step, in its turn."""
        self._code.pop(effect.step, None)
        self.outcomes.add(effect.finished_seq, effect.step, effect.outcome)

    # attempts

    def invoke(self, effect: InvokeAttempt) -> None:
        """Call a step's callback, or what a test has put in its place."""
        context = AttemptContext(effect.step, effect.attempt, effect.config, self._state.creation)
        code = self._code[effect.step]
        if effect.mocked is not None:
            code = mocked_code(code, effect.mocked)
        code = self._writing.marked(context, code)
        self._attempts[effect.step] = Attempt(
            context, code, context, self._host.timers, self._attempt_over, self._writing
        )

    def invoke_rollback(self, effect: InvokeRollback) -> None:
        """Call a step's rollback handler."""
        creation = self._state.creation
        rollback = self._rollbacks.get(effect.step)
        if rollback is None:
            self._host.post(
                RollbackRaised(
                    self.number, effect.step, effect.attempt, MISSING_HANDLER, retryable=False
                )
            )
            return
        step_context = AttemptContext(
            effect.step, effect.step_attempt, effect.step_config, creation
        )
        told = Compensation(step_context, exception_of(effect.error), None)
        code = told_output(rollback.code, partial(self._output_of, effect))
        context = AttemptContext(effect.step, effect.attempt, effect.config, creation)
        code = self._writing.marked(context, code)
        self._attempts[effect.step] = Attempt(
            context, code, told, self._host.timers, self._rollback_over
        )

    def _output_of(self, effect: InvokeRollback) -> object:
        output = None if effect.output is None else values.decode(effect.output)
        return self.output(effect.step, output) if type(output) is values.StreamedOutput else output

    def _attempt_over(self, attempt: Attempt, verdict: Verdict) -> None:
        self._over(attempt, verdict, self._post_verdict)

    def _rollback_over(self, attempt: Attempt, verdict: Verdict) -> None:
        self._over(attempt, verdict, self._post_rollback)

    def _over(
        self, attempt: Attempt, verdict: Verdict, post: Callable[[StepKey, int, Verdict], None]
    ) -> None:
        step, number = attempt.context.step, attempt.context.attempt
        self._attempts.pop(step, None)
        writer = self._writing.over(step)
        if writer is not None:
            # Not before what it has begun to write is in the engine's hands.
            writer.end(partial(post, step, number, verdict))
        else:
            post(step, number, verdict)

    def _post_verdict(self, step: StepKey, number: int, verdict: Verdict) -> None:
        self._rest.stir()  # it may have been called because the code rests, and that goes on if it has failed
        if isinstance(verdict, Raised):
            self.outcomes.causes[step] = verdict.error
            self._host.post(self._raised(AttemptRaised, step, number, verdict))
        else:
            self._host.post(AttemptReturned(self.number, step, number, verdict))

    def _post_rollback(self, step: StepKey, number: int, verdict: Verdict) -> None:
        if isinstance(verdict, Raised):
            self._host.post(self._raised(RollbackRaised, step, number, verdict))
        else:
            self._host.post(RollbackReturned(self.number, step, number))

    def _raised(
        self, kind: type[AttemptRaised | RollbackRaised], step: StepKey, number: int, raised: Raised
    ) -> RunInput:
        if isinstance(raised.error, ProgramLost):
            return RunLost(self.number, raised.failure)
        self._host.notices.raised(raised.error, raised.retryable)
        return kind(
            self.number, step, number, raised.failure, raised.retryable, raised.base_delay_ms, raised.delay_error,
            raised.retry_after_ms,
        )  # fmt: skip

    # rest and end

    def stir(self) -> None:
        """Whatever was said about its rest no longer holds."""
        self._rest.stir()

    def watch(self) -> None:
        """Look whether the code has come to rest; if it stays so, say once that it is parked."""
        self._rest.watch()

    def _parked(self) -> None:
        self._host.post(RunParked(self.number))
        self._check.at_rest()

    def moves_by_itself(self) -> bool:
        """Whether the code has timers that are not the engine's."""
        return self._made.has_timers()

    def _is_at_rest(self) -> bool:
        return not (self._attempts or self.is_closed) and self.outcomes.are_all_awaited

    def close(self, rollbacks_for: int | None = None) -> None:
        """Unwind user code. Its rollback handlers can still be called if the number is given under which they speak."""
        if not self.is_closed:
            self.is_closed = True
            self._code.clear()
            # A cancelled task refers to its frames, and they to this: without the link back they are garbage at once.
            tasks, self._run, self._made = (*self._made.tasks, self._run), None, Made()
            for task in tasks:
                if task is not None:
                    task.cancel()
        for attempt in self._attempts.values():
            attempt.cancel()
        self._attempts.clear()
        self.outcomes.close()
        self._later.clear()
        self._writing.close()
        if rollbacks_for is not None:
            self.number = rollbacks_for
            self._writing = self._writing.successor()
        else:
            self._rollbacks.clear()
