"""An event loop in virtual time, with an interleaving that a seed decides.

Theory
======
asyncio hands its selector the time that it would like to wait. `VirtualLoop` has a selector that
does not wait: when nothing is ready it moves the loop's time by that much, so that a month takes
no longer than a millisecond. When there is nothing to wait for either, no event can ever come, and
the loop says so instead of hanging.

Time begins at zero and is counted in whole microseconds: a float of the size of a Unix time cannot
express asyncio's clock resolution, and the loop would spin for ever short of a deadline.

Work of other threads is real and takes real time. While it is outstanding (`run_in_executor`, or
anything under `hold`) the loop really waits, and virtual time stands. What threads report through
`call_soon_threadsafe` is heard one report at a time, and only when nothing else is ready: how fast
a thread was makes no difference, so a run with one busy thread, such as a database's, repeats
exactly. Threads that race each other race here too, and a coroutine that spins without ever waiting
hears of none.

With a seed, tasks that are ready in the same turn run in shuffled order: asyncio promises nothing
about it. Plain callbacks keep their places, since `call_soon` promises first in, first out. And
threads of `run_in_executor` work one after the other then, in the order of the calls. Code that
numbers what its tasks do relies on it that they begin in the order in which they were made, as they
do on every loop there is: for such code `begins_in_order`.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import selectors
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Executor
    from contextvars import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class DeadlockError(RuntimeError):
    """Nothing is ready, nothing scheduled, no outside work held: whoever waits, waits in vain."""


def run(
    coroutine: Coroutine[Any, Any, T], *, seed: int | None = None, begins_in_order: bool = False
) -> T:
    """Run a coroutine to its end in virtual time, on a loop of its own, and leave nothing behind.

    Raises:
        DeadlockError: it waits for something that cannot happen.
    """

    def make() -> VirtualLoop:
        return VirtualLoop(seed=seed, begins_in_order=begins_in_order)

    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(coroutine)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next scheduled call as soon as nothing is ready."""

    # asyncio's own: the queue of what runs in the coming turn, and how a thread ends a wait.
    _ready: deque[asyncio.Handle]
    _write_to_self: Callable[[], None]

    def __init__(self, *, seed: int | None = None, begins_in_order: bool = False) -> None:
        self._now_us = 0
        self._random = None if seed is None else random.Random(seed)  # noqa: S311  no secret
        self._begins_in_order = begins_in_order
        self._holds: list[object] = []  # append and pop are atomic, for release by any thread
        self._reports: deque[asyncio.Handle] = deque()
        self._ages: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._tasks_made = 0
        self._last_thread: threading.Event | None = None
        super().__init__(_UnwaitingSelector(self._begin_turn))
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Tell the virtual time in seconds; the loop began at zero."""
        return self._now_us / 1_000_000

    @contextmanager
    def hold(self) -> Generator[None]:
        """Say that work outside the loop is under way, which will report to it; time stands still.

        Any thread may enter and leave; one that is not the loop's reports before it leaves.
        """
        self._holds.append(None)
        try:
            yield
        finally:
            self._release()

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Take a report of another thread, to be heard when nothing else is ready."""
        if self._runs_here():
            return self.call_soon(callback, *args, context=context)
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._reports.append(handle)
        self._write_to_self()
        return handle

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """Make a task, and remember when."""
        task = super().create_task(*args, **kwargs)
        self._tasks_made += 1
        self._ages[task] = self._tasks_made
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; the loop holds until it has returned or was given up.

        With a seed it begins when the one before has ended, and the loop holds even for one that was given up.
        """
        chained = threading.Event()

        def work() -> T:
            chained.wait()  # one that returned before the loop listens for its end would be heard too soon
            return func(*args)

        repeats = self._random is not None
        future = super().run_in_executor(executor, self._in_line(work) if repeats else work)
        chained.set()
        self._holds.append(None)
        future.add_done_callback(lambda _: self._release())
        return future

    def _in_line(self, work: Callable[[], T]) -> Callable[[], T]:
        done = threading.Event()
        before, self._last_thread = self._last_thread, done
        self._holds.append(None)

        def work_in_line() -> T:
            if before is not None:
                before.wait()
            try:
                return work()
            finally:
                done.set()
                self._release()

        return work_in_line

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads of the default executor, which report back from a thread."""
        with self.hold():
            await super().shutdown_default_executor(*args, **kwargs)

    def idle(self) -> None:
        """Nothing is ready, scheduled or held; a subclass that does not raise here waits for other threads.

        Raises:
            DeadlockError: always.
        """
        raise DeadlockError(self._describe_deadlock())

    def _runs_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self
        except RuntimeError:
            return False

    def _release(self) -> None:
        self._holds.pop()
        self._write_to_self()  # the loop may be waiting for this very work

    def _begin_turn(self, timeout: float | None) -> bool:
        """Choose what runs next, or move time; tell whether to wait for outside work instead.

        Args:
            timeout: what asyncio would wait, in seconds: 0 when something is ready, None for ever.
        """
        if timeout == 0:
            self._shuffle_tasks()
        elif self._reports:
            self._ready.append(self._reports.popleft())
        elif self._holds:
            return True
        elif timeout is None:
            self.idle()
            return True
        else:
            self._now_us += round(timeout * 1_000_000)
        return False

    def _shuffle_tasks(self) -> None:
        if self._random is None or len(self._ready) < 2:
            return
        places = [place for place, handle in enumerate(self._ready) if self._may_move(handle)]
        handles = [self._ready[place] for place in places]
        # Whoever wakes several tasks may do so in the order of a set, as a task group does, which no seed decides.
        handles.sort(key=self._age)
        self._random.shuffle(handles)
        for place, handle in zip(places, handles, strict=True):
            self._ready[place] = handle

    def _may_move(self, handle: asyncio.Handle) -> bool:
        task = _task_of(handle)
        return task is not None and not (self._begins_in_order and _is_new(task))

    def _age(self, handle: asyncio.Handle) -> int:
        task = _task_of(handle)
        return self._ages.get(task, 0) if task else 0

    def _describe_deadlock(self) -> str:
        tasks = sorted(f"{task.get_name()} ({task.get_coro()})" for task in asyncio.all_tasks(self))
        return (
            f"the loop waits for ever: at {self.time()} s of virtual time nothing is ready, "
            "nothing is scheduled and no outside work is held; "
            f"waiting: {', '.join(tasks) or 'no task'}"
        )


class _UnwaitingSelector(selectors.DefaultSelector):
    """Watches files as usual, but only really waits for outside work."""

    def __init__(self, begin_turn: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._begin_turn = begin_turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events and timeout != 0:
            return events  # something is ready after all
        return super().select(None) if self._begin_turn(timeout) else events


def _is_new(task: asyncio.Task[Any]) -> bool:
    work = task.get_coro()
    return inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    """Tell a task's step from a plain callback, as asyncio does when it formats a handle."""
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return cast("asyncio.Task[Any]", owner) if isinstance(owner, asyncio.Task) else None
