"""Callbacks for the end of runs (Workflow SDK: registerLifecycleHooks): to count, to notify, to log.

They are called after the commit, at most once and in the order of their registration, and hold nobody up: what they raise
is logged. A process that dies in between does not call them; what must happen belongs into a step.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from bindings.host import Host
from bindings.run import Run
from emulator.core.state import InstanceState
from emulator.domain.failure import exception_of
from emulator.domain.status import InstanceStatus

log = logging.getLogger("workflow_emulator")


class _Callbacks(NamedTuple):
    completed: Callable[..., Any] | None
    failed: Callable[..., Any] | None


class Lifecycle:
    """The callbacks of one project."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.callbacks: list[_Callbacks] = []
        self._tasks: set[asyncio.Future[Any]] = set()

    def ended(self, state: InstanceState) -> None:
        """Call those who want to hear of it."""
        if not self.callbacks:
            return
        told: dict[str, Any] = {
            "run": Run(self._host, state.creation.key),
            "workflow_name": state.creation.workflow,
        }
        if state.status is InstanceStatus.ERRORED and state.error is not None:
            told["error"] = exception_of(state.error)
        for each in list(self.callbacks):
            callback = {
                InstanceStatus.COMPLETE: each.completed,
                InstanceStatus.ERRORED: each.failed,
            }.get(state.status)
            if callback is not None:
                self._call(callback, told)

    def _call(self, callback: Callable[..., Any], told: dict[str, Any]) -> None:
        try:
            answer = callback(**told)
        except (
            BaseException
        ) as error:  # whatever it is, it must not end the engine, which calls this
            log.error("a lifecycle callback raised", exc_info=error)
            return
        if inspect.isawaitable(answer):
            task = asyncio.ensure_future(_logged(answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _logged(answer: Awaitable[Any]) -> None:
    try:
        await answer
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        log.error("a lifecycle callback raised", exc_info=error)


_projects: list[Lifecycle] = []


@contextmanager
def registering(lifecycle: Lifecycle) -> Generator[None]:
    """Let `register_lifecycle_hooks` mean this project."""
    _projects.append(lifecycle)
    try:
        yield
    finally:
        _projects.remove(lifecycle)


def register_lifecycle_hooks(
    *,
    on_run_completed: Callable[..., Any] | None = None,
    on_run_failed: Callable[..., Any] | None = None,
) -> Callable[[], None]:
    """Have functions called when runs of the project end; gives the function that takes this back.

    `on_run_completed(run, workflow_name)` and `on_run_failed(run, workflow_name, error)` are called by keyword, and may be
    coroutine functions. A run that somebody ends is neither.

    Raises:
        RuntimeError: no project runs here.
    """
    if not _projects:
        raise RuntimeError("register_lifecycle_hooks() means something only while a project runs.")
    callbacks, entry = _projects[-1].callbacks, _Callbacks(on_run_completed, on_run_failed)
    callbacks.append(entry)

    def unregister() -> None:
        with suppress(ValueError):
            callbacks.remove(entry)

    return unregister
