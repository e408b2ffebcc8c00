"""Calling user code once: a step's callback or a rollback handler, with its timeout and its delay function.

What comes of it is a *verdict*, given once: a value that can be stored, or a failure. When the timeout is over the
callback is left alone, as on Cloudflare: it may go on, but nobody listens to it any more.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec

from emulator.domain import values
from emulator.domain.config import DYNAMIC_DELAY, has_attempt_left, timeout_ms
from emulator.domain.duration import parse_duration, unknown_unit
from emulator.domain.failure import Failure, failure_of, is_retryable
from emulator.domain.limits import DELAY_FUNCTION_TIMEOUT_MS, MAX_RETRY_DELAY_MS
from emulator.engine.frames import traceback_of
from emulator.engine.outputs import store_output
from emulator.engine.step_code import AttemptContext, Compensation, StepCode
from emulator.engine.streams import Writer, Writing
from emulator.engine.threads import call_code
from emulator.errors import ProgramLost, RetryableError, WorkflowTimeoutError
from emulator.timing.alarm import Timers
from emulator.timing.wheel import Timer

log = logging.getLogger("workflow_emulator")


STANDSTILL_MS = 1_500
"""A timeout that comes so late says that the process stood still, or the clock was set: the attempt gets its time anew.

A debugger holds a process so, or a laptop that is closed. The callback had no chance in that time.
"""


class Raised(NamedTuple):
    """A failed attempt. `base_delay_ms` and `delay_error` come from a delay function, `retry_after_ms` from the error."""

    error: BaseException
    failure: Failure
    retryable: bool
    base_delay_ms: float | None = None
    delay_error: Failure | None = None
    retry_after_ms: int | None = None


Verdict = msgspec.Raw | Raised


class _TooSlow(Exception):
    """The delay function took too long."""


class _NoFunction(Exception):
    """The step's config had a delay function when it started, and has none now."""


_left_alone: set[asyncio.Task[None]] = set()
"""Callbacks that have timed out and still run. A loop holds its tasks weakly; these have no other friend."""


class Attempt:
    """One call of user code. `told` is what the code is called with, `report` what hears the verdict.

    `writing` stores what the code returns as a stream of bytes; without it nothing can be returned so.
    """

    __slots__ = (
        "_code", "_concluding", "_config", "_is_cancelled", "_is_over", "_limit_ms", "_output", "_report", "_task", "_timeout", "_timers",
        "_told", "_writing", "context",
    )  # fmt: skip

    def __init__(
        self,
        context: AttemptContext,
        code: StepCode,
        told: object,
        timers: Timers,
        report: Callable[[Attempt, Verdict], None],
        writing: Writing | None = None,
    ) -> None:
        self.context = context
        self._code = code
        self._told = told
        self._config = context.config
        self._timers = timers
        self._report = report
        self._writing = writing
        self._output: Writer | None = None
        self._is_over = False
        self._is_cancelled = False
        self._limit_ms = timeout_ms(context.config)
        self._timeout: Timer[Callable[[], None]] | None = None
        self._set_timeout()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._concluding: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Unwind the code; no verdict is given."""
        self._is_cancelled = True
        self._end()
        self._task.cancel()
        if self._concluding is not None:
            self._concluding.cancel()

    def has_task(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the task runs this attempt's code."""
        return task is self._task

    async def _run(self) -> None:
        label = self.context.step.label
        try:
            value: Any = await call_code(self._code, self._told)
            if self._writing is not None and hasattr(type(cast("object", value)), "__aiter__"):
                verdict: Verdict = await self._store(self._writing, value)
            else:
                verdict = values.encode(
                    value,
                    f'the result of step "{label}"',
                    too_large=f"Step {label} output is too large. Maximum allowed size is 1MiB.",
                )
        except asyncio.CancelledError as error:
            if self._is_over:
                raise
            verdict = Raised(error, failure_of(error), retryable=True)
        except BaseException as error:
            verdict = Raised(error, failure_of(error), is_retryable(error))
        if self._is_over:
            return
        if isinstance(verdict, Raised):
            await self._conclude(verdict)
        else:
            self._end()
            self._report(self, verdict)

    async def _store(self, writing: Writing, chunks: AsyncIterable[object]) -> msgspec.Raw:
        # Not the writer of the callback: what a late stream has not stored goes, what the callback wrote stays.
        self._output = Writer(writing, self.context.step.label, self.context.attempt)
        return await store_output(self._output, self.context.step, chunks)

    def _set_timeout(self) -> None:
        self._timeout = self._timers.schedule_in(self._limit_ms, self._time_out)

    def _time_out(self) -> None:
        if self._timeout is None:
            return  # it is over
        if self._timers.now_ms() - self._timeout.due_ms > STANDSTILL_MS:
            self._set_timeout()
        else:
            _left_alone.add(self._task)
            self._task.add_done_callback(_left_alone.discard)
            error = WorkflowTimeoutError(f"Execution timed out after {self._limit_ms}ms")
            raised = Raised(error, failure_of(error), retryable=True)
            self._end()
            self._concluding = asyncio.create_task(self._conclude(raised))

    def _end(self) -> None:
        self._is_over = True
        if self._output is not None:
            self._output.void()
        if self._timeout is not None:
            self._timers.cancel(self._timeout)
            self._timeout = None  # it refers to this, and the two would be garbage of the slow kind

    async def _conclude(self, raised: Raised) -> None:
        self._end()
        made, step = self.context.creation, self.context.step.label
        what = "the rollback of step" if isinstance(self._told, Compensation) else "step"
        log.warning(
            'workflow %s, instance %s: attempt %d of %s "%s" failed: %s',
            *(made.workflow, made.id, self.context.attempt, what, step, raised.failure.text),
            exc_info=traceback_of(raised.error),
        )
        if isinstance(raised.error, RetryableError):
            raised = self._with_wish(raised, raised.error)
        elif self._needs_delay(raised):
            raised = await self._with_delay(raised)
        self._report(self, raised)

    def _with_wish(self, raised: Raised, error: RetryableError) -> Raised:
        """Take the delay that the error asks for. It is the user's object: reading it may raise anything."""
        where = f'retry_after of step "{self.context.step.label}"'
        try:
            wish = error.retry_after
            if isinstance(wish, datetime):
                delay_ms = max(0.0, wish.timestamp() * 1000 - self._timers.now_ms())
            else:
                delay_ms = parse_duration(wish)
            if 0 <= delay_ms <= MAX_RETRY_DELAY_MS and not unknown_unit(wish):
                return raised._replace(retry_after_ms=round(delay_ms))
            text = f"{where} cannot be {wish!r}: it is a duration from 0 to 365 days"
        except BaseException as problem:
            text = f"{where} cannot be read: {failure_of(problem).text}"
        return raised._replace(delay_error=Failure("NonRetryableDelayError", text))

    def _needs_delay(self, raised: Raised) -> bool:
        return (
            raised.retryable
            and not isinstance(raised.error, ProgramLost)
            and self._config.retries.delay == DYNAMIC_DELAY
            and has_attempt_left(self._config, self.context.attempt)
        )

    async def _with_delay(self, raised: Raised) -> Raised:
        """Ask the delay function (Cloudflare: dynamic delays; five seconds, and its failure fails the step)."""
        try:
            if self._code.delay is None:
                raise _NoFunction
            answer = self._code.delay(self.context, raised.error)
            if inspect.isawaitable(answer):
                answer = await self._within(answer, DELAY_FUNCTION_TIMEOUT_MS)
            delay_ms = parse_duration(answer)
            if 0 <= delay_ms < float("inf"):
                return raised._replace(base_delay_ms=delay_ms)
            problem = (
                "returned an invalid delay value "
                '(expected a number of ms or a duration string like "30 seconds")'
            )
        except _TooSlow:
            problem = "did not return within 5 seconds"
        except _NoFunction:
            problem = "is not in the code any more"
        except BaseException as error:
            # Not what the task says: before Python 3.13 a task group of the callback may leave it with a cancellation.
            if isinstance(error, asyncio.CancelledError) and self._is_cancelled:
                raise
            problem = f"threw an error: {failure_of(error).message}"
        text = f'The delay function for step "{self.context.step.label}" {problem}'
        return raised._replace(delay_error=Failure("NonRetryableDelayError", text))

    async def _within(self, work: Awaitable[object], limit_ms: int) -> object:
        task = asyncio.ensure_future(_caught(work))
        expired = asyncio.get_running_loop().create_future()
        timer = self._timers.schedule_in(limit_ms, lambda: expired.set_result(None))
        try:
            await asyncio.wait({task, expired}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _TooSlow
            value, error = task.result()
            if error is not None:
                raise error
            return value
        finally:
            self._timers.cancel(timer)
            task.cancel()


async def _caught(work: Awaitable[object]) -> tuple[object, BaseException | None]:
    """What comes of it. A task lets some exceptions through to the loop, which would end it."""
    try:
        return await work, None
    except BaseException as error:
        return None, error
