"""Calling user code once: a step's callback or a rollback handler, with its timeout and its delay function.

What comes of it is a *verdict*, given once: a value that can be stored, or a failure. When the timeout is over the
callback is left alone, as on Cloudflare: it may go on, but nobody listens to it any more.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from emulator.domain import values
from emulator.domain.config import DYNAMIC_DELAY, StepConfig, has_attempt_left, timeout_ms
from emulator.domain.duration import parse_duration
from emulator.domain.failure import Failure, failure_of, is_retryable
from emulator.domain.limits import DELAY_FUNCTION_TIMEOUT_MS
from emulator.engine.steps import AttemptContext, DelayFunction
from emulator.errors import WorkflowTimeoutError
from emulator.timing.alarm import Timers

log = logging.getLogger("workflow_emulator")


class Raised(NamedTuple):
    """A failed attempt. `base_delay_ms` and `delay_error` come from a delay function."""

    error: BaseException
    failure: Failure
    retryable: bool
    base_delay_ms: float | None = None
    delay_error: Failure | None = None


Verdict = msgspec.Raw | Raised


class _TooSlow(Exception):
    """The delay function took too long."""


class _NoFunction(Exception):
    """The step's config had a delay function when it started, and has none now."""


class Attempt:
    """One call of user code."""

    def __init__(
        self,
        context: AttemptContext,
        call: Callable[[], object],
        delay: DelayFunction | None,
        config: StepConfig,
        timers: Timers,
        report: Callable[[Attempt, Verdict], None],
    ) -> None:
        self.context = context
        self._call = call
        self._delay = delay
        self._config = config
        self._timers = timers
        self._report = report
        self._is_over = False
        self._tasks: set[asyncio.Task[None]] = set()
        limit_ms = timeout_ms(config)
        due_ms = timers.now_ms() + limit_ms
        self._timeout = timers.schedule(due_ms, lambda: self._time_out(limit_ms))
        self._spawn(self._run())

    def cancel(self) -> None:
        """Unwind the code; no verdict is given."""
        self._is_over = True
        self._timers.cancel(self._timeout)
        for task in self._tasks:
            task.cancel()

    def has_task(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the task runs this attempt's code."""
        return task in self._tasks

    async def _run(self) -> None:
        step = self.context.step
        try:
            value = self._call()
            if inspect.isawaitable(value):
                value = await value
            verdict: Verdict = values.encode(
                value,
                f'the result of step "{step.label}"',
                too_large=f"Step {step.label} output is too large. Maximum allowed size is 1MiB.",
            )
        except asyncio.CancelledError as error:
            if self._is_over:
                raise
            verdict = Raised(error, Failure("CancelledError", str(error)), retryable=True)
        except BaseException as error:
            verdict = Raised(error, failure_of(error), is_retryable(error))
        if not self._is_over:
            self._timers.cancel(self._timeout)
            await self._conclude(verdict)

    def _time_out(self, limit_ms: int) -> None:
        if not self._is_over:
            self._is_over = True
            error = WorkflowTimeoutError(f"Execution timed out after {limit_ms}ms")
            self._spawn(self._conclude(Raised(error, failure_of(error), retryable=True)))

    async def _conclude(self, verdict: Verdict) -> None:
        self._is_over = True
        if isinstance(verdict, Raised):
            step = self.context.step.label
            log.info("step %s, attempt %d failed: %s", step, self.context.attempt, verdict.failure)
            if self._needs_delay(verdict):
                verdict = await self._with_delay(verdict)
        self._report(self, verdict)

    def _needs_delay(self, raised: Raised) -> bool:
        return (
            raised.retryable
            and self._config.retries.delay == DYNAMIC_DELAY
            and has_attempt_left(self._config, self.context.attempt)
        )

    async def _with_delay(self, raised: Raised) -> Raised:
        """Ask the delay function (Cloudflare: dynamic delays; five seconds, and its failure fails the step)."""
        try:
            if self._delay is None:
                raise _NoFunction
            answer = self._delay(self.context, raised.error)
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
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            problem = f"threw an error: {error}"
        text = f'The delay function for step "{self.context.step.label}" {problem}'
        return raised._replace(delay_error=Failure("NonRetryableDelayError", text))

    async def _within(self, work: Awaitable[object], limit_ms: int) -> object:
        task = asyncio.ensure_future(_caught(work))
        expired = asyncio.get_running_loop().create_future()
        due_ms = self._timers.now_ms() + limit_ms
        timer = self._timers.schedule(due_ms, lambda: expired.set_result(None))
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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _caught(work: Awaitable[object]) -> tuple[object, BaseException | None]:
    """What comes of it. A task lets some exceptions through to the loop, which would end it."""
    try:
        return await work, None
    except BaseException as error:
        return None, error
