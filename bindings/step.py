"""`step`, as Cloudflare's Python SDK has it: the durable operations of a workflow.

What Cloudflare has only in JavaScript is spelled in the same style: `rollback=` and `rollback_config=` are the fourth
argument of JavaScript's `step.do`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from bindings.compensation import Undoable, undo_all
from bindings.context import step_context, waited_event
from bindings.convert import instant_ms
from bindings.dependencies import CONTEXT, Declared, by_name, by_position, parameters, resolve
from emulator.domain.config import StepConfig, resolve_config
from emulator.domain.duration import duration_ms, looks_like_seconds
from emulator.domain.limits import DEFAULT_WAIT_TIMEOUT_MS, MAX_SLEEP_MS, MAX_WAIT_TIMEOUT_MS
from emulator.domain.names import check_event_type, check_step_name
from emulator.domain.values import JsDict
from emulator.engine.steps import (
    AttemptContext,
    Callback,
    Compensation,
    DelayFunction,
    RollbackCode,
    StepCode,
    StepContext,
)
from emulator.errors import InvalidDuration, InvalidStep

log = logging.getLogger("workflow_emulator")

Duration = int | float | str | timedelta
"""A number is milliseconds; a text follows Cloudflare's grammar, such as "10 minutes"."""

StepFunction = Callable[[], Awaitable[Any]]
"""What `@step.do` makes of a function: call it without arguments to run the step."""

Config = Mapping[str, Any]
"""`{"retries": {"limit", "delay", "backoff"}, "timeout", "sensitive"}`, each of the three optional."""


class WorkflowStep:
    """The second argument of `run(event, step)` (Cloudflare: Python Workflows API)."""

    def __init__(self, context: StepContext, defaults: StepConfig, said: set[str]) -> None:
        self.step_closures: dict[str, StepFunction] = {}
        self._context = context
        self._defaults = defaults
        self._said = said
        self._declared: dict[StepFunction, Declared] = {}
        self._undoable: list[tuple[Undoable, Any]] = []

    def do(
        self,
        name: str | None = None,
        depends: Sequence[StepFunction] | None = None,
        concurrent: bool = False,
        config: Config | None = None,
        *,
        rollback: Callable[..., Any] | None = None,
        rollback_config: Config | None = None,
    ) -> Callable[[Callable[..., Any]], StepFunction]:
        """Declare a step. The function it decorates becomes one without arguments; calling that runs the step.

        A parameter called `ctx` gets the step context; any other gets the result of the step of that name, or, with
        `depends`, of the steps listed, by position. They are run first if they have not been, at once if `concurrent`.
        A coroutine function runs on the event loop, any other in a thread of its own.

        `name` is the function's name if not given. `rollback` compensates the step if the workflow fails after it has
        started: it gets, by parameter name, `ctx`, `error`, `output` (None if the step has no result), `step_name`.

        The call raises what the step failed with: `TypeError`, `ValueError`, `NonRetryableError`, the engine's own
        errors, or a `StepError` with `.name` and `.message` of the original.
        """
        if callable(name):
            raise TypeError(
                'Write @step.do() or @step.do("name"): the decorator takes the step\'s name.'
            )

        def declare(function: Callable[..., Any]) -> StepFunction:
            step_name: Any = getattr(function, "__name__", None) if name is None else name
            compensate = (rollback, rollback_config)

            async def run() -> Any:
                return await self._do(step_name, function, depends, concurrent, config, compensate)

            return self._declare(step_name, run)

        return declare

    def _declare(self, name: str, run: Callable[[], Awaitable[Any]]) -> StepFunction:
        declared = Declared(run)

        async def step() -> Any:
            return await declared.call()

        step.__name__ = step.__qualname__ = str(name)
        step._step_name = name  # type: ignore[attr-defined]  # noqa: SLF001 - the SDK's attribute
        self._declared[step] = declared
        self.step_closures[name] = step
        return step

    async def _do(
        self,
        name: Any,
        function: Any,
        depends: Sequence[StepFunction] | None,
        concurrent: bool,
        config: Config | None,
        compensate: tuple[Callable[..., Any] | None, Config | None],
    ) -> Any:
        if not callable(function):
            raise InvalidStep(f'Step "{name}" requires a callback function')
        rollback = self._rollback(name, *compensate)
        check_step_name(name)
        resolved = resolve_config(config, self._defaults, name)
        wanted = parameters(function)
        needed = [parameter for parameter in wanted if parameter != CONTEXT]
        if depends is not None:
            matched = by_position(needed, depends, self._declared)
        else:
            matched = by_name(needed, self.step_closures, self._declared)
        arguments = await resolve(matched, concurrent=concurrent) if matched else {}
        code = StepCode(
            _callback(function, arguments, takes_context=len(needed) < len(wanted)), _delay(config)
        )
        return await self._context.do(name, code, resolved, rollback)

    def _rollback(self, name: str, handler: Any, config: Config | None) -> RollbackCode | None:
        if handler is None and config is None:
            return None
        if not callable(handler):
            raise InvalidStep(f'Rollback for "{name}" must be a function')
        resolved = resolve_config(config, self._defaults, name, "Rollback")
        return RollbackCode(_handler(name, handler), resolved, _delay(config))

    def with_rollback(
        self, name: str, config: Config | None = None
    ) -> Callable[[Callable[..., Any]], Undoable]:
        """Declare a step that `rollback_all` can undo; see `bindings.compensation`."""

        def declare(function: Callable[..., Any]) -> Undoable:
            async def run() -> Any:
                result = await self._do(name, function, None, False, config, (None, None))
                self._undoable.append((undoable, result))
                return result

            step = self._declare(name, run)
            undoable = Undoable(name, step)
            self._declared[undoable] = self._declared[step]
            return undoable

        return declare

    async def rollback_all(
        self, error: BaseException | None = None, *, continue_on_error: bool = False
    ) -> None:
        """Undo every `with_rollback` step that has succeeded, newest first; see `bindings.compensation`."""
        await undo_all(
            self._undoable, self._run_as_step, error, continue_on_error=continue_on_error
        )

    async def _run_as_step(
        self, name: str, function: Callable[..., Any], config: Config | None
    ) -> Any:
        return await self.do(name, config=config)(function)()

    async def sleep(self, name: str, duration: Duration) -> None:
        """Sleep. Zero or less returns at once; at most 365 days (Cloudflare: Workers API, step.sleep).

        Raises:
            InvalidDuration: it is no duration, or too long.
            InvalidStepName: the name is not allowed.
        """
        check_step_name(name)
        sleep_ms = duration_ms(
            duration, what=f'the duration of sleep "{name}"', maximum_ms=MAX_SLEEP_MS
        )
        self._hint_seconds(f'step.sleep("{name}", {duration!r})', duration)
        await self._context.sleep(name, sleep_ms)

    async def sleep_until(self, name: str, timestamp: datetime | float) -> None:
        """Sleep until an instant: a datetime (naive: local time) or milliseconds since the epoch.

        Raises:
            PastWakeTime: the instant is past.
            InvalidDuration: it is no instant, or further away than 365 days.
            InvalidStepName: the name is not allowed.
        """
        check_step_name(name)
        await self._context.sleep_until(
            name, instant_ms(timestamp, f'the instant of sleep "{name}"')
        )

    async def wait_for_event(
        self,
        name: str,
        event_type: str | Mapping[str, Any],
        /,
        timeout: Duration | None = "24 hours",
    ) -> JsDict:
        """Wait for an event that is sent to the instance, or take one that has come already.

        Gives `payload`, `type` and `timestamp` of the event. A timeout of None or 0 is 24 hours, as on Cloudflare.

        Raises:
            WorkflowTimeoutError: none came in time.
            InvalidEventType: the type is not one that can be sent.
            InvalidDuration: the timeout is no duration, negative, or over 365 days.
        """
        given: Any = event_type
        if isinstance(event_type, Mapping):
            timeout = event_type.get("timeout", timeout)
            given = event_type.get("type")
        check_step_name(name)
        wanted_type = check_event_type(given)
        timeout_ms = DEFAULT_WAIT_TIMEOUT_MS
        if timeout:
            what = f'the timeout of wait "{name}"'
            timeout_ms = duration_ms(timeout, what=what, maximum_ms=MAX_WAIT_TIMEOUT_MS)
            if timeout_ms < 0:
                raise InvalidDuration(f"{what} is {timeout!r}; it must not be negative.")
            self._hint_seconds(f'step.wait_for_event("{name}", timeout={timeout!r})', timeout)
        return waited_event(await self._context.wait_for_event(name, wanted_type, timeout_ms))

    def _hint_seconds(self, call: str, duration: Duration) -> None:
        if looks_like_seconds(duration) and call not in self._said:
            self._said.add(call)
            log.warning(
                '%s: a bare number is milliseconds. Write "%s seconds" if seconds are meant.',
                call,
                duration,
            )

    sleepUntil = sleep_until  # noqa: N815 - Cloudflare's JavaScript spelling
    waitForEvent = wait_for_event  # noqa: N815


def _callback(
    function: Callable[..., Any], arguments: dict[str, Any], *, takes_context: bool
) -> Callback:
    def call(context: AttemptContext) -> Any:
        extra = {CONTEXT: step_context(context)} if takes_context else {}
        return function(**extra, **arguments)

    if not inspect.iscoroutinefunction(function):
        return call

    async def call_on_the_loop(context: AttemptContext) -> Any:
        return await call(context)

    return call_on_the_loop


def _handler(name: str, function: Callable[..., Any]) -> Callable[[Compensation], object]:
    wanted = parameters(function)

    def call(told: Compensation) -> Any:
        known = {
            "ctx": step_context(told.context),
            "error": told.error,
            "output": told.output,
            "step_name": told.context.step.label,
        }
        return function(**{parameter: known[parameter] for parameter in wanted})

    unknown = [
        parameter
        for parameter in wanted
        if parameter not in ("ctx", "error", "output", "step_name")
    ]
    if unknown:
        raise InvalidStep(
            f'Rollback for "{name}" takes {", ".join(unknown)}; it can take ctx, error, output and step_name.'
        )
    if not inspect.iscoroutinefunction(function):
        return call

    async def call_on_the_loop(told: Compensation) -> Any:
        return await call(told)

    return call_on_the_loop


def _delay(config: Config | None) -> DelayFunction | None:
    """The delay function of a config. It is called with a dictionary of `ctx` and `error`, as in JavaScript."""
    retries: Any = config.get("retries") if config else None
    delay: Any = (
        cast("Mapping[str, Any]", retries).get("delay") if isinstance(retries, Mapping) else None
    )
    if not callable(delay):
        return None

    def call(context: AttemptContext, error: BaseException, /) -> Any:
        return delay(JsDict(ctx=step_context(context), error=error))

    return call
