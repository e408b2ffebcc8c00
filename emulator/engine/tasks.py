"""What a `run()` makes beside steps: its tasks end with it, and while it has a timer of its own it stays in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from emulator.errors import WorkflowContextError

_ELSEWHERE: Final = (
    "This was called on an event loop of its own, as asyncio.run() in a thread makes one, where no answer arrives. "
    "Make the step, or the function, `async def`, and await it there."
)

_FEW: Final = 32
"""How many timers are kept before those that are over are looked for."""


class Made:
    """The tasks and the timers (`asyncio.sleep`, `asyncio.timeout`) of one `run()`, and of the tasks that it makes."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self._most = _FEW

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it is done."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def add_timer(self, timer: asyncio.TimerHandle) -> None:
        """Keep a timer until it is over."""
        self._timers.append(timer)
        if len(self._timers) > self._most:
            self._drop_timers()
            self._most = 2 * len(self._timers) + _FEW

    def has_timers(self) -> bool:
        """Whether the code will go on by itself. The journal knows nothing of such a timer: a replay sets it anew."""
        self._drop_timers()
        return bool(self._timers)

    def _drop_timers(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._timers = [
            each for each in self._timers if not each.cancelled() and each.when() > now_s
        ]


_of_run: Final[ContextVar[Made | None]] = ContextVar("made_by_run", default=None)
"""What belongs to the `run()` in which code runs. (Callbacks of steps run in none.)"""


def check_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Refuse what is asked on another event loop: the answer would come to this one, and wake nobody.

    Raises:
        WorkflowContextError: another one runs.
    """
    if asyncio.get_running_loop() is not loop:
        raise WorkflowContextError(_ELSEWHERE)


def enter_run(made: Made) -> None:
    """This task is a `run()`: what it makes, and what the tasks that it makes make, is kept in `made`."""
    _of_run.set(made)


def is_in_run() -> bool:
    """Whether this is the body of a `run()`, which is replayed."""
    return _of_run.get() is not None


def outside_runs() -> Context:
    """The context for a task that does not end with the `run()` in which it is made, if it is made in one."""
    context = copy_context()
    context.run(_of_run.set, None)
    return context


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop tell which tasks and timers a `run()` makes. Idempotent; a task factory that it has goes on making them.

    Timers are told by the loops of asyncio, whose `call_later` goes through `call_at`. Others, such as uvloop's, do not.
    """
    former: Any = loop.get_task_factory()
    if isinstance(former, _Factory):
        return
    factory: Any = _Factory(former)
    loop.set_task_factory(factory)
    if isinstance(loop, asyncio.BaseEventLoop):
        loop.call_at = _noting(loop.call_at)  # pyright: ignore[reportAttributeAccessIssue]


def _noting(call_at: Callable[..., asyncio.TimerHandle]) -> Callable[..., asyncio.TimerHandle]:
    def noting(
        when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = call_at(when, callback, *args, context=context)
        made = _of_run.get() if context is None else None  # the engine's own say in which context
        if made is not None:
            made.add_timer(timer)
        return timer

    return noting


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
        made = _of_run.get()
        if made is not None:
            made.add_task(task)
        return task
