"""Where code runs: in the body of a `run()`, in a step's callback, or outside; and whose instances it means.

Some calls are right in one of these places only, and what acts on another run is a durable step when it is called in a body.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar

from bindings.host import Host
from emulator.domain.instance import InstanceKey, scope_of
from emulator.errors import WorkflowContextError

T = TypeVar("T")


class Body(Protocol):
    """A `run()`, as far as it can make steps that its author has not written."""

    async def run_reserved(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call something once: its stored result, now and in every replay."""
        ...

    async def rest(self, name: str, duration_ms: int) -> None:
        """Sleep."""
        ...


class Place(NamedTuple):
    """Where code of an instance runs. `body` is None in a callback; `host` runs the instance, if that is known."""

    key: InstanceKey
    host: Host | None
    body: Body | None


here: ContextVar[Place | None] = ContextVar("workflow_place", default=None)
"""Where the current task runs; None: outside of any instance."""


def awaited_at(place: Place, value: Any) -> Any:
    """What a function has returned; an awaitable, that of a decorated coroutine function perhaps, is awaited at this place.

    The function itself may have been called in a thread, which is not where its awaitable is awaited.
    """
    return _at(place, value) if inspect.isawaitable(value) else value


async def _at(place: Place, value: Awaitable[T]) -> T:
    here.set(place)
    return await value


_hosts: list[tuple[asyncio.AbstractEventLoop | None, Host]] = []


@contextmanager
def hosting(host: Host, loop: asyncio.AbstractEventLoop | None = None) -> Generator[None]:
    """Let the functions that name no binding, such as `resume_hook`, mean the instances of this host.

    With a `loop` in the code on that loop only; without one wherever no other host is meant.
    """
    entry = (loop, host)
    _hosts.append(entry)
    try:
        yield
    finally:
        _hosts.remove(entry)


def current_host(call: str) -> Host:
    """Whose instances a call means that names no binding.

    Raises:
        WorkflowContextError: nobody runs instances here.
    """
    place = here.get()
    if place is not None and place.host is not None:
        return place.host
    running = asyncio.get_running_loop()
    for wanted in (running, None):
        for loop, host in reversed(_hosts):
            if loop is wanted:
                return host
    raise WorkflowContextError(f"{call} means something only while a project runs.")


def current_scope() -> str:
    """The scope of the tokens that the current code means."""
    place = here.get()
    return "" if place is None else scope_of(place.key.id)


def refuse_in_body(call: str) -> None:
    """Refuse a call that must not be made again by a replay.

    Raises:
        WorkflowContextError: the current code is the body of a `run()`.
    """
    place = here.get()
    if place is not None and place.body is not None:
        raise WorkflowContextError(
            f"{call} was called in the body of run(), where a replay would call it again: call it in step.do."
        )


def refuse_outside_body(call: str) -> None:
    """Refuse a call that only the body of a `run()` can make.

    Raises:
        WorkflowContextError: the current code is another.
    """
    place = here.get()
    if place is None or place.body is None:
        raise WorkflowContextError(f"{call} can be called in the body of run() only.")


async def durable(name: str, call: Callable[[], Awaitable[T]]) -> T:
    """Call something: in the body of a `run()` once, as a step of its own."""
    place = here.get()
    if place is None or place.body is None:
        return await call()
    return await place.body.run_reserved(name, call)
