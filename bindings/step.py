"""`step`, as Cloudflare's Python SDK has it: the durable operations of a workflow.

What Cloudflare has only in JavaScript is spelled in the same style: `rollback=` and `rollback_config=` are the fourth
argument of JavaScript's `step.do`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from bindings import convert, schemas
from bindings.ambient import Place, current_host, durable, here, refuse_outside_body
from bindings.callbacks import Config, handler_code, step_code
from bindings.compensation import Undoable, undo_all
from bindings.context import waited_event
from bindings.dependencies import Declared, by_name, by_position, resolve, signature_of
from bindings.hints import Hints
from bindings.hooks import Hook
from bindings.streams import WorkflowWritable, writable
from bindings.webhook import Webhook, stored_response
from emulator.core.inputs import AttributesRequested
from emulator.domain import values
from emulator.domain.attributes import check_attributes
from emulator.domain.config import RetryConfig, StepConfig, resolve_config
from emulator.domain.duration import duration_ms
from emulator.domain.hooks import Retention, check_token
from emulator.domain.hooks import min_retention as read_min_retention
from emulator.domain.limits import (
    DEFAULT_WAIT_TIMEOUT_MS,
    MAX_SLEEP_MS,
    MAX_STEP_RETRIES,
    MAX_WAIT_TIMEOUT_MS,
)
from emulator.domain.names import RESERVED, check_event_type, check_step_name
from emulator.domain.values import JsDict
from emulator.engine.step_code import (
    AttemptContext,
    RollbackCode,
    StepCode,
)
from emulator.engine.steps import StepContext
from emulator.errors import EmulatorError, EngineStopped, InvalidDuration, InvalidStep

RESERVED_CONFIG = StepConfig(RetryConfig(MAX_STEP_RETRIES, "1 second", "constant"), "365 days")
"""How a step is tried that its author has not written: it may wait for another run, as long as that takes."""

Duration = int | float | str | timedelta
"""A number is milliseconds; a text follows Cloudflare's grammar, such as "10 minutes"."""

StepFunction = Callable[[], Awaitable[Any]]
"""What `@step.do` makes of a function: call it without arguments to run the step."""


class WorkflowStep:
    """The second argument of `run(event, step)` (Cloudflare: Python Workflows API)."""

    def __init__(
        self,
        context: StepContext,
        defaults: StepConfig,
        hints: Hints,
        place: Place,
        created_ms: int,
        *,
        implicit_dependencies: bool,
    ) -> None:
        self.step_closures: dict[str, StepFunction] = {}
        self._context = context
        self._defaults = defaults
        self._hints = hints
        self._place = place
        self._created_ms = created_ms
        self._implicit_dependencies = implicit_dependencies
        self._declared: dict[StepFunction, Declared] = {}
        self._undoable: list[tuple[Undoable, Any]] = []

    def _forget(self) -> None:
        """Let go of the steps: they refer to this, and would be garbage of the slow kind once `run()` is over."""
        self.step_closures.clear()
        self._declared.clear()

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
        A coroutine function runs on the event loop, any other in a thread of its own. One that returns an async iterator
        of bytes, such as an async generator function, has its bytes stored as they come, however many there are; the
        call then gives an async iterator over them, live and in every replay.

        `name` is the function's name if not given. `rollback` compensates the step if the workflow fails after it has
        started: it gets, by parameter name, `ctx`, `error`, `output` (None if the step has no result), `step_name`.

        The call raises what the step failed with: `TypeError`, `ValueError`, `NonRetryableError`, the engine's own
        errors, or a `StepError` with `.name` and `.message` of the original.
        """
        if callable(name):
            raise TypeError(
                'Write @step.do() or @step.do("name"): the decorator takes the step\'s name.'
            )
        if depends is not None and (callable(depends) or isinstance(depends, Mapping)):
            second = "" if callable(depends) else ", config={…}"
            raise TypeError(
                f'Write step.do("{name}"{second})(function): step.do makes a decorator, as in Cloudflare\'s Python SDK.'
            )
        options = StepOptions(name, depends, concurrent, config, rollback, rollback_config)
        return partial(self._declare, options)

    def _declare(self, options: StepOptions, function: Callable[..., Any]) -> StepFunction:
        if options.name is None:
            named: str | None = getattr(function, "__name__", None)
            if named is None:
                raise InvalidStep(f'{function!r} has no name: give the step one, step.do("name").')
            options = replace(options, name=named)
        return self._add(options.name, _Declaration(self, options, function))

    def _add(self, name: Any, declared: Declared) -> StepFunction:
        async def step(*given: Any, **named: Any) -> Any:
            if given or named:
                raise declared.no_arguments(name)
            return await declared.call()

        # Python names it so when it is never awaited.
        step.__name__ = step.__qualname__ = str(name)
        step._step_name = name  # type: ignore[attr-defined]  # noqa: SLF001 - the SDK's attribute
        self._declared[step] = declared
        self.step_closures[name] = step
        return step

    def _do(
        self, declared: Declared, options: StepOptions, function: Any
    ) -> Coroutine[Any, Any, Any]:
        # No coroutine of its own: thousands of instances that wait would each hold one more.
        name: Any = options.name
        if not callable(function):
            raise InvalidStep(f'Step "{name}" requires a callback function')
        name = check_step_name(name)
        rollback = self._rollback(name, options.rollback, options.rollback_config)
        resolved = resolve_config(options.config, self._defaults, name)
        if options.config is not None:
            self._hints.config(f'step.do("{name}")', resolved)
        signature = signature_of(function)
        code = step_code(self._place, function, signature, options.config)
        if signature.needed or options.depends:
            if options.depends is not None or not self._implicit_dependencies:
                matched = by_position(signature.needed, options.depends, self._declared)
            else:
                matched = by_name(signature.needed, self.step_closures, self._declared)
            arguments = resolve(matched, declared, name, concurrent=options.concurrent)
            return self._do_after(arguments, name, code, resolved, rollback)
        return self._context.do(name, code, resolved, rollback)

    async def _do_after(
        self,
        arguments: Awaitable[dict[str, Any]],
        name: str,
        code: StepCode,
        config: StepConfig,
        rollback: RollbackCode | None,
    ) -> Any:
        """Run the steps that a step needs, and then the step with their results."""
        code = replace(code, callback=partial(code.callback, **await arguments))
        return await self._context.do(name, code, config, rollback)

    def _rollback(self, name: str, handler: Any, config: Config | None) -> RollbackCode | None:
        if handler is None and config is None:
            return None
        if not callable(handler):
            raise InvalidStep(f'Rollback for "{name}" must be a function')
        resolved = resolve_config(config, self._defaults, name, "Rollback")
        self._hints.config(f'the rollback of step.do("{name}")', resolved)
        return RollbackCode(handler_code(self._place, name, handler, config), resolved)

    def with_rollback(
        self, name: str, config: Config | None = None
    ) -> Callable[[Callable[..., Any]], Undoable]:
        """Declare a step that `rollback_all` can undo; see `bindings.compensation`."""

        def declare(function: Callable[..., Any]) -> Undoable:
            undoable = Undoable(name)
            declared = _UndoableDeclaration(
                self, StepOptions(name, config=config), function, undoable, self._undoable
            )
            undoable.step = self._add(name, declared)
            self._declared[undoable] = declared
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
        name = check_step_name(name)
        sleep_ms = duration_ms(
            duration, what=f'the duration of sleep "{name}"', maximum_ms=MAX_SLEEP_MS
        )
        self._hints.duration(f'step.sleep("{name}", {duration!r})', duration)
        await self._context.sleep(name, sleep_ms)

    async def sleep_until(self, name: str, timestamp: datetime | float) -> None:
        """Sleep until an instant: a datetime (naive: local time) or milliseconds since the epoch.

        Raises:
            PastWakeTime: the instant is past.
            InvalidDuration: it is no instant, or further away than 365 days.
            InvalidStepName: the name is not allowed.
        """
        name = check_step_name(name)
        await self._context.sleep_until(
            name, convert.instant_ms(timestamp, f'the instant of sleep "{name}"')
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
            TypeError: a dictionary has other keys than type and timeout.
            InvalidDuration: the timeout is no duration, negative, or over 365 days.
        """
        given: Any = event_type
        if isinstance(event_type, Mapping):
            known = {"type": "type", "timeout": "timeout"}
            told = convert.options(event_type, {}, known, "wait_for_event()")
            timeout = told.get("timeout", timeout)
            given = told.get("type")
        name = check_step_name(name)
        wanted_type = check_event_type(given)
        timeout_ms = DEFAULT_WAIT_TIMEOUT_MS
        if timeout:
            what = f'the timeout of wait "{name}"'
            timeout_ms = duration_ms(timeout, what=what, maximum_ms=MAX_WAIT_TIMEOUT_MS)
            if timeout_ms < 0:
                raise InvalidDuration(f"{what} is {timeout!r}; it must not be negative.")
            self._hints.duration(f'step.wait_for_event("{name}", timeout={timeout!r})', timeout)
        return waited_event(await self._context.wait_for_event(name, wanted_type, timeout_ms))

    def create_hook(
        self,
        name: str | None = None,
        *,
        token: str | None = None,
        metadata: Any = None,
        min_retention: Retention | None = None,
        schema: Any = None,
    ) -> Hook:
        """Open a hook: hold a token through which payloads reach this run (Workflow SDK: hooks).

        Without a `token` (any text of at most 512 bytes that is not blank) one is made up that nobody can guess; `name` tells such hooks apart.
        Opening the token for which the run was created registers nothing new. `metadata` is any value that can be stored,
        for those who look the hook up. `min_retention` (a duration, or a datetime with a time zone, of at most 30 days)
        keeps the token from others beyond the end of the run, if it has not passed by then; a `schema` (see `define_hook`)
        is what payloads must match.

        It is registered with the next thing that `run()` waits for, or with its end.

        Raises:
            WorkflowContextError: this is not the body of `run()`.
            InvalidHook: the token or the retention is not valid.
            SerializationError: the metadata cannot be stored.
        """
        refuse_outside_body("step.create_hook()")
        hook = self._context.create_hook(
            None if name is None else check_step_name(name),
            None if token is None else check_token(token),
            metadata=values.encode(metadata, "the metadata of a hook"),
            min_retention=None
            if min_retention is None
            else read_min_retention(min_retention, self._context.now_ms(), self._created_ms),
            schema=schemas.name_of(schema),
        )
        self._hints.duration(f"step.create_hook(), min_retention={min_retention!r}", min_retention)
        return Hook(hook, self._place.host, schema)

    def create_webhook(
        self, name: str | None = None, *, metadata: Any = None, respond_with: Any = None
    ) -> Webhook:
        """Open a hook with a public address, `.url`: whoever knows it can send requests to this run; see `bindings.webhook`.

        Raises:
            WorkflowContextError: this is not the body of `run()`.
            InvalidHook: `respond_with` is not None, a response or "manual".
        """
        refuse_outside_body("step.create_webhook()")
        about = {"respond_with": stored_response(respond_with), "metadata": metadata}
        hook = self._context.create_hook(
            None if name is None else check_step_name(name),
            metadata=values.encode(about, "the metadata of a webhook"),
            is_webhook=True,
        )
        return Webhook(hook, self._place.host)

    async def set_attributes(self, attributes: Mapping[str, str | None]) -> None:
        """Set attributes of the run, or remove them (None): small texts by which people find it (Workflow SDK: attributes).

        At most 64, names of 1 to 256 characters that do not begin with "$", values of at most 256 bytes. From the body of
        `run()` as from a step.

        Raises:
            InvalidAttributes: they are not such.
        """
        item = AttributesRequested(check_attributes(attributes))
        host = current_host("step.set_attributes()")
        await durable("set_attributes", lambda: host.ask(self._place.key, item))

    async def run_reserved(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """See `bindings.ambient.Body`."""
        place = self._place

        async def callback(_: AttemptContext) -> Any:
            here.set(place)
            try:
                return await call()
            except EmulatorError as error:
                # A refusal is an answer. Only who could not ask asks again.
                error.is_retryable = isinstance(error, EngineStopped)
                raise

        return await self._context.do_reserved(name, StepCode(callback), RESERVED_CONFIG)

    async def rest(self, name: str, duration_ms: int) -> None:
        """See `bindings.ambient.Body`."""
        await self._context.sleep(RESERVED + name, duration_ms)

    def get_writable(self, namespace: str | None = None) -> WorkflowWritable:
        """A stream of the instance to write to, in the callbacks of its steps or in `run()` itself.

        Without a namespace it is the default stream, called `default`. Others read it with `instance.readable()`.

        Raises:
            InvalidStream: no stream can have this name.
        """
        return writable(self._context, namespace)

    createHook = create_hook  # noqa: N815
    createWebhook = create_webhook  # noqa: N815
    setAttributes = set_attributes  # noqa: N815
    sleepUntil = sleep_until  # noqa: N815 - Cloudflare's JavaScript spelling
    waitForEvent = wait_for_event  # noqa: N815
    getWritable = get_writable  # noqa: N815
    withRollback = with_rollback  # noqa: N815
    rollbackAll = rollback_all  # noqa: N815


class StepOptions(msgspec.Struct, frozen=True):
    """What `do` was given."""

    name: str | None
    depends: Sequence[StepFunction] | None = None
    concurrent: bool = False
    config: Config | None = None
    rollback: Callable[..., Any] | None = None
    rollback_config: Config | None = None


class _Declaration(Declared, eq=False):
    """A step declared with `do`."""

    step: WorkflowStep
    options: StepOptions
    function: Callable[..., Any]

    def run(self) -> Coroutine[Any, Any, Any]:
        return self.step._do(self, self.options, self.function)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - two halves of one thing


class _UndoableDeclaration(_Declaration, eq=False):
    """A step declared with `with_rollback`: that it is done is remembered, for `rollback_all`."""

    undoable: Undoable
    done: list[tuple[Undoable, Any]]

    async def run(self) -> Any:
        result = await super().run()
        self.done.append((self.undoable, result))
        return result
