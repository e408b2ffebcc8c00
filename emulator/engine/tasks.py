"""The tasks that a `run()` makes: they end with it, whatever they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

Tasks = set[asyncio.Task[Any]]

_of_run: Final[ContextVar[Tasks | None]] = ContextVar("tasks_of_run", default=None)
"""The tasks of the `run()` in which code runs. (Callbacks of steps run in none.)"""


def enter_run(tasks: Tasks) -> None:
    """This task is a `run()`: those that it makes, and those that they make, are kept in `tasks` until they are done."""
    _of_run.set(tasks)


def is_in_run() -> bool:
    """Whether this is the body of a `run()`, which is replayed."""
    return _of_run.get() is not None


def outside_runs() -> Context:
    """The context for a task that does not end with the `run()` in which it is made, if it is made in one."""
    context = copy_context()
    context.run(_of_run.set, None)
    return context


def watch_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop tell which tasks a `run()` makes. Idempotent; a task factory that it has goes on making them."""
    former: Any = loop.get_task_factory()
    if not isinstance(former, _Factory):
        factory: Any = _Factory(former)
        loop.set_task_factory(factory)


class _Factory:
    def __init__(self, former: Callable[..., asyncio.Task[Any]] | None) -> None:
        self._former = former

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        if self._former is None:
            task = asyncio.Task(work, loop=loop, **options)
        else:
            task = self._former(loop, work, **options)
        tasks = _of_run.get()
        if tasks is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task
