"""One life of `run()` in memory: the user's task, what it has asked for, and the attempts under way.

Theory of operation
===================
The user's code asks through a `StepContext`; every request becomes an input for the core, and a future that is resolved
once the answer is committed. Outcomes are handed over one at a time, in the order in which the journal has them, with
room for the code to react in between: then a race between two steps has the same winner in every replay.

An incarnation ends by being *closed*: its tasks are cancelled, its futures with them. Code that swallows the
cancellation achieves nothing: nothing it says is heard, and a step it asks for cancels it again.

*Parked* is code that has done nothing for `PARK_AFTER_MS` but wait for sleeps, events and retries.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Any, Protocol

from emulator.core.effects import InvokeAttempt, InvokeRollback, Outcome, RejectStep, ResolveStep
from emulator.core.inputs import (
    AttemptRaised,
    AttemptReturned,
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
from emulator.domain.steps import StepKey
from emulator.engine.attempts import Attempt, Raised, Verdict
from emulator.engine.programs import RunEvent, WorkflowDefinition
from emulator.engine.steps import (
    AttemptContext,
    Compensation,
    RollbackCode,
    StepCode,
    StepContext,
    mocked_code,
)
from emulator.engine.threads import keep_for_ever
from emulator.errors import ProgramLost, RollbackPhase, StepFailure
from emulator.timing.alarm import Timers

log = logging.getLogger("workflow_emulator")

PARK_AFTER_MS = 5
"""How long code must have done nothing to count as parked."""

PASSES_BETWEEN_OUTCOMES = 12
"""Passes of the loop between two outcomes. A task that waits through `gather`, `wait` and `wait_for` needs a few."""

PASSES_BEFORE_REPLAY = 6
"""Passes of the loop before an outcome that the journal had already. Each task inside a task asks one pass later."""

MOST_REFUSALS = 100
"""How often code that has swallowed its cancellation is cancelled again when it asks for a step, before it just hangs."""

MISSING_HANDLER = Failure("RollbackMissing", "Rollback function not available in registry")


class Host(Protocol):
    """What an incarnation needs of the engine."""

    timers: Timers

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
        self._activity = 0
        self._definition = definition
        self._state = state
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._refusals = 0
        self._run: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._code: dict[StepKey, StepCode] = {}
        self._rollbacks: dict[StepKey, RollbackCode] = {}
        self._pending: dict[StepKey, asyncio.Future[Outcome]] = {}
        self._unanswered = 0
        self._outcomes: list[tuple[int, StepKey, Outcome]] = []
        self._is_pumping = False
        self._is_stalled = False
        self._causes: dict[StepKey, BaseException] = {}
        self._attempts: dict[StepKey, Attempt] = {}
        self._is_watched = False
        self._reported = -1

    # the user's code

    def start(self) -> None:
        """Call `run()`."""
        self._run = self._loop.create_task(self._run_program())

    async def _run_program(self) -> None:
        creation = self._state.creation
        event = RunEvent(
            values.decode(creation.params),
            creation.created_ms,
            creation.id,
            creation.workflow,
            creation.schedule,
            creation.code,
        )
        try:
            program = self._definition.program()
            output = values.encode(
                await program.run(event, StepContext(self)),
                "the output of run()",
                too_large="The workflow's output is too large. Maximum allowed size is 1MiB.",
            )
        except asyncio.CancelledError as error:
            if self._is_closed:
                raise
            self._host.post(RunRaised(self.number, failure_of(error)))
        except ProgramLost as error:
            if not self._is_closed:
                self._host.post(RunLost(self.number, failure_of(error)))
        except BaseException as error:
            if not self._is_closed:
                self._host.post(RunRaised(self.number, self._uncaught(error)))
        else:
            if not self._is_closed:
                self._host.post(RunReturned(self.number, output))

    def _uncaught(self, error: BaseException) -> Failure:
        failure = failure_of(error)
        if not isinstance(error, StepFailure):
            creation = self._state.creation
            log.error(
                "workflow %s, instance %s raised", creation.workflow, creation.id, exc_info=error
            )
        if (
            failure.name == "NonRetryableError"
            and not self._definition.preserve_non_retryable_message
        ):
            return Failure(
                "WorkflowFatalError",
                "The execution of the Workflow instance was terminated, as a step threw an NonRetryableError "
                "and it was not handled",
            )
        return failure

    # what it asks

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        """Keep the code of a step for as long as the incarnation lasts."""
        self._code[step] = code
        if rollback is not None:
            self._rollbacks[step] = rollback

    def hold(self) -> Callable[[], None]:
        """Hand over no outcome until the function that is returned has been called, as while a request is undecided."""
        self._unanswered += 1

        def release() -> None:
            self.heard()
            self.watch()

        return release

    async def ask(self, request: StepRequest) -> Outcome:
        """Put a request to the engine and wait for its outcome; raises what the step failed with."""
        task = asyncio.current_task()
        if self._is_closed:
            await self._refuse(task)
        if task is not None and task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        del task  # a cancelled task refers to this frame: the two would be garbage of the slow kind
        future = self._pending[request.step] = self._loop.create_future()
        self._activity += 1
        self._unanswered += 1
        self._host.post(request)
        try:
            return await future
        except asyncio.CancelledError:
            if not self._is_closed and self._pending.pop(request.step, None) is not None:
                self._host.post(StepAbandoned(self.number, request.step))
            raise

    async def _refuse(self, task: asyncio.Task[Any] | None) -> None:
        if any(attempt.has_task(task) for attempt in self._attempts.values()):
            raise RollbackPhase
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            raise asyncio.CancelledError
        if task is not None:
            # It swallows every cancellation. Nothing will ever wake it, so nothing shall wait for its end
            # (asyncio.run would); unregistering is what asyncio documents for tasks that a loop need not know.
            asyncio.tasks._unregister_task(task)  # noqa: SLF001
            keep_for_ever(task)
        await self._loop.create_future()

    # what it is told

    def heard(self) -> None:
        """One of its requests has been decided and committed."""
        self._unanswered -= 1
        if self._unanswered == 0 and self._is_stalled:
            self._is_stalled = False
            self._loop.call_soon(self._pass, PASSES_BETWEEN_OUTCOMES)

    def resolve(self, effect: ResolveStep) -> None:
        """Hand over the outcome of a step, after those that came before it."""
        if not (self._is_pumping or self._unanswered) and len(self._pending) == 1:
            # The code waits for nothing else, so nothing can come before it.
            self._activity += 1
            self._settle(effect.step, effect.outcome)
            return
        heapq.heappush(self._outcomes, (effect.finished_seq, effect.step, effect.outcome))
        if not self._is_pumping:
            # Not at once: in a replay the code may still be on its way to a step that ended earlier.
            self._is_pumping = True
            self._loop.call_soon(self._pass, PASSES_BEFORE_REPLAY if self._unanswered else 0)

    def reject(self, effect: RejectStep) -> None:
        """Raise a refusal where the step was asked for."""
        future = self._pending.pop(effect.step, None)
        if future is not None and not future.done():
            future.set_exception(effect.error)

    def _pump(self) -> None:
        self._is_pumping = False
        while self._outcomes:
            _, step, outcome = heapq.heappop(self._outcomes)
            self._activity += 1
            self._settle(step, outcome)
            if self._outcomes or self._pending:
                self._is_pumping = True
                self._loop.call_soon(self._pass, PASSES_BETWEEN_OUTCOMES)
                return
        self.watch()  # nobody else looks again when the last outcome led to nothing

    def _pass(self, left: int) -> None:
        if self._is_closed:
            return
        if self._unanswered:
            self._is_stalled = True  # until all is `heard`
        elif left:
            self._loop.call_soon(self._pass, left - 1)
        else:
            self._pump()

    def _settle(self, step: StepKey, outcome: Outcome) -> None:
        self._code.pop(step, None)
        future = self._pending.pop(step, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Failure):
            error = exception_of(outcome)
            error.__cause__ = self._causes.pop(step, None)
            future.set_exception(error)
        else:
            future.set_result(outcome)

    # attempts

    def invoke(self, effect: InvokeAttempt) -> None:
        """Call a step's callback, or what a test has put in its place."""
        context = AttemptContext(effect.step, effect.attempt, effect.config)
        code = self._code[effect.step]
        if effect.mocked is not None:
            code = mocked_code(code, effect.mocked)
        self._attempts[effect.step] = Attempt(
            context, code, context, self._host.timers, self._attempt_over
        )

    def invoke_rollback(self, effect: InvokeRollback) -> None:
        """Call a step's rollback handler."""
        rollback = self._rollbacks.get(effect.step)
        if rollback is None:
            self._host.post(
                RollbackRaised(
                    self.number, effect.step, effect.attempt, MISSING_HANDLER, retryable=False
                )
            )
            return
        step_context = AttemptContext(effect.step, effect.step_attempt, effect.step_config)
        output = None if effect.output is None else values.decode(effect.output)
        told = Compensation(step_context, exception_of(effect.error), output)
        context = AttemptContext(effect.step, effect.attempt, effect.config)
        self._attempts[effect.step] = Attempt(
            context, rollback.code, told, self._host.timers, self._rollback_over
        )

    def _attempt_over(self, attempt: Attempt, verdict: Verdict) -> None:
        step, number = attempt.context.step, attempt.context.attempt
        self._attempts.pop(step, None)
        if isinstance(verdict, Raised) and isinstance(verdict.error, ProgramLost):
            self._host.post(RunLost(self.number, verdict.failure))
        elif isinstance(verdict, Raised):
            self._causes[step] = verdict.error
            self._host.post(
                AttemptRaised(
                    self.number, step, number, verdict.failure, verdict.retryable, verdict.base_delay_ms,
                    verdict.delay_error,
                )
            )  # fmt: skip
        else:
            self._host.post(AttemptReturned(self.number, step, number, verdict))

    def _rollback_over(self, attempt: Attempt, verdict: Verdict) -> None:
        step, number = attempt.context.step, attempt.context.attempt
        self._attempts.pop(step, None)
        if isinstance(verdict, Raised) and isinstance(verdict.error, ProgramLost):
            self._host.post(RunLost(self.number, verdict.failure))
        elif isinstance(verdict, Raised):
            self._host.post(
                RollbackRaised(
                    self.number, step, number, verdict.failure, verdict.retryable, verdict.base_delay_ms,
                    verdict.delay_error,
                )
            )  # fmt: skip
        else:
            self._host.post(RollbackReturned(self.number, step, number))

    # rest and end

    def stir(self) -> None:
        """Whatever was said about its rest no longer holds."""
        self._activity += 1

    def watch(self) -> None:
        """Look whether the code has come to rest; if it stays so, say once that it is parked."""
        if self._is_watched or self._reported == self._activity or not self._is_at_rest():
            return
        self._is_watched = True
        due_ms = self._host.timers.now_ms() + PARK_AFTER_MS
        self._host.timers.schedule(due_ms, lambda seen=self._activity: self._rested(seen))

    def _rested(self, seen: int) -> None:
        self._is_watched = False
        if seen == self._activity and self._is_at_rest():
            self._reported = seen
            self._host.post(RunParked(self.number))
        else:
            self.watch()

    def _is_at_rest(self) -> bool:
        return bool(self._pending) and not (
            self._attempts or self._unanswered or self._is_pumping or self._is_closed
        )

    def close(self, rollbacks_for: int | None = None) -> None:
        """Unwind user code.

        Its rollback handlers can still be called when the number is given under which they shall speak.
        """
        if not self._is_closed:
            self._is_closed = True
            self._code.clear()
            # A cancelled task refers to its frames, and they to this: without the link back they are garbage at once.
            tasks, self._run, self._tasks = (*self._tasks, self._run), None, set()
            for task in tasks:
                if task is not None:
                    task.cancel()
        for attempt in self._attempts.values():
            attempt.cancel()
        self._attempts.clear()
        self._pending.clear()
        self._outcomes.clear()
        if rollbacks_for is not None:
            self.number = rollbacks_for
        else:
            self._rollbacks.clear()
