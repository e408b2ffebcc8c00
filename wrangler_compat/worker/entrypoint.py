"""How a Worker is written: `WorkerEntrypoint`, the `handler` decorator, and the `ctx` that both are given."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from emulator.engine.tasks import outside_runs
from wrangler_compat.worker.http import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from wrangler_compat.worker.http import Request

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class ExecutionContext:
    """`ctx`: work that goes on after the response, and the workflows that the script itself exports.

    `exports` maps class names to bindings (Cloudflare: Workers, `ctx.exports`).
    """

    def __init__(self, exports: Mapping[str, object] | None = None) -> None:
        self.exports = _Exports(exports or {})
        self._tasks: set[asyncio.Future[object]] = set()

    def wait_until(self, awaitable: Awaitable[object]) -> None:
        """Let `awaitable` run on. A failure is logged; it concerns no request any more."""
        task = outside_runs().run(asyncio.ensure_future, awaitable)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    waitUntil = wait_until  # noqa: N815

    def passThroughOnException(self) -> None:  # noqa: N802
        """Do nothing: there is no origin behind the Worker that could answer in its place."""

    async def drain(self) -> None:
        """Wait until nothing runs on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _finished(self, task: asyncio.Future[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("waitUntil: the work failed", exc_info=error)


class _Exports:
    def __init__(self, bindings: Mapping[str, object]) -> None:
        self.__dict__.update(bindings)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(self.__dict__) or "none"
        raise AttributeError(f"ctx.exports has no {name!r}; there are: {known}.")


class ScheduledController(NamedTuple):
    """What `scheduled` is given: the cron expression, and the time it was due as Unix milliseconds."""

    cron: str
    scheduledTime: int  # noqa: N815
    type: str = "scheduled"

    def noRetry(self) -> None:  # noqa: N802
        """Do nothing: no tick is tried again."""


class WorkerEntrypoint:
    """The base of a Worker's class: define `fetch(self, request)`, `scheduled(self, controller)` or both.

    The class called `Default` is the one that requests go to. A new object serves each event.
    """

    def __init__(self, ctx: ExecutionContext, env: Any) -> None:
        self.ctx = ctx
        self.env = env


def handler(function: Callable[P, R]) -> Callable[P, R]:
    """Mark `on_fetch(request, env, ctx)`. Cloudflare's converts the arguments, which are Python's here already."""
    return function


class Worker:
    """The handlers of a loaded module, with the surroundings they run in.

    `default` is the `Default` class, or else the module, whose functions `on_fetch` and `on_scheduled` count.
    """

    def __init__(self, default: object, env: Any, ctx: ExecutionContext) -> None:
        self.default = default
        self.env = env
        self.ctx = ctx

    def handles(self, event: str) -> bool:
        """Tell whether there is a handler of "fetch" or "scheduled"."""
        return hasattr(self.default, self._handler_name(event))

    async def fetch(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            TypeError: the handler returned no Response.
        """
        response = await self._call("fetch", request)
        if not isinstance(response, Response):
            advice = (
                "Is a `return` missing?" if response is None else "Make one: Response.json(...)."
            )
            raise TypeError(f"fetch returned {response!r}; expected a Response. {advice}")
        return response

    async def scheduled(self, controller: ScheduledController) -> None:
        """Run the handler of cron triggers."""
        await self._call("scheduled", controller)

    async def _call(self, event: str, argument: object) -> object:
        owner = self.default(self.ctx, self.env) if isinstance(self.default, type) else self.default
        handle = getattr(owner, self._handler_name(event))
        answer = handle(*_as_many_as_taken(handle, (argument, self.env, self.ctx)))
        return await answer if inspect.isawaitable(answer) else answer

    def _handler_name(self, event: str) -> str:
        return event if isinstance(self.default, type) else f"on_{event}"


def _as_many_as_taken(
    handle: Callable[..., object], arguments: tuple[object, ...]
) -> tuple[object, ...]:
    """Leave out what the handler has no parameter for, as Cloudflare does."""
    parameters = inspect.signature(handle).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return arguments
    taken = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )
    return arguments[:taken]
