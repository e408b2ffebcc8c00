"""The loop that a project under test runs on: in a thread of its own, with time that passes only while a test waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, TypeVar

from emulator.engine.attempts import STANDSTILL_MS
from emulator.testing.loop import VirtualLoop

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""How long a test waits for one thing, in seconds of real time, before it fails."""

BUSY_S: Final = 1.0
"""For how long a loop may have something to run before it listens to other threads all the same."""


class InVain(AssertionError):
    """What a test waits for cannot happen any more: nothing is ready, and no timer is set."""


class TooLong(InVain):
    """What a test waits for has not happened in `PATIENCE_S`, and code runs on: it may do so for ever."""


class _Waiter:
    """Somebody who waits, since that much real time had passed. `give_up` is called with the reason, once."""

    def __init__(self, give_up: Callable[[InVain], object], since_s: float) -> None:
        self._give_up = give_up
        self.since_s = since_s
        self.has_given_up = False

    def give_up(self, why: InVain) -> None:
        if not self.has_given_up:
            self.has_given_up = True
            self._give_up(why)


class HarnessLoop(VirtualLoop):
    """A loop whose time stands still unless `passing` lets it pass.

    Real time is measured from turn to turn. A turn that takes long does not count: a debugger holds the process, a laptop was
    closed, or a thread works, which is waited for.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Waiter, None] = {}
        self._read_s = self.real_s()
        self._spent_s = 0.0
        self._idle_s = 0.0
        super().__init__()
        self._stillness = self._stand_still()

    @contextmanager
    def passing(self, give_up: Callable[[InVain], object]) -> Generator[None]:
        """Let time pass, as far as something needs it; `give_up` is called once if nothing can happen any more, or too much does."""
        if not self._waiting:
            self._stillness.__exit__(None, None, None)
        waiter = _Waiter(give_up, self._spent_s)
        self._waiting[waiter] = None
        try:
            yield
        finally:
            del self._waiting[waiter]
            if not self._waiting:
                self._stillness = self._stand_still()

    def idle(self) -> None:
        """Tell whoever waits that it is in vain, and listen to other threads."""
        for waiter in self._waiting:
            waiter.give_up(InVain())
        self._write_to_self()

    def real_s(self) -> float:
        """The machine's time in seconds, from some beginning on."""
        return asyncio.BaseEventLoop.time(self)

    def _begin_turn(self, timeout: float | None) -> bool:
        self._measure()
        if timeout != 0:
            self._idle_s = self._spent_s
        elif self._reports and self._spent_s - self._idle_s > BUSY_S:
            self._ready.append(self._reports.popleft())  # code that never waits would let nobody in
        return super()._begin_turn(timeout)

    def _measure(self) -> None:
        before_s, self._read_s = self._read_s, self.real_s()
        passed_s = self._read_s - before_s
        if passed_s * 1000 <= STANDSTILL_MS:
            self._spent_s += passed_s
        for waiter in self._waiting:
            if self._spent_s - waiter.since_s > PATIENCE_S:
                waiter.give_up(TooLong())

    def _stand_still(self) -> AbstractContextManager[None]:
        hold = self.hold()
        hold.__enter__()
        return hold


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


class LoopThread:
    """A thread that runs a `HarnessLoop`, and calls into it from any other loop or from none."""

    def __init__(self) -> None:
        self.loop = HarnessLoop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="workflow-project", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End. What still runs there is cancelled."""
        with suppress(InVain):  # something does not mind being cancelled
            self.block(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it here. Time passes as far as it needs.

        Raises:
            InVain: it waits for something that will not happen, or has waited for too long.
        """
        return await asyncio.wrap_future(self._submit(work))

    def block(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and block this thread until it has ended. See `call`."""
        return self._submit(work).result()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Any:
        return asyncio.run_coroutine_threadsafe(self._pass_time(work), self.loop)

    async def _pass_time(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        reasons: list[InVain] = []

        def give_up(why: InVain) -> None:
            reasons.append(why)
            task.cancel()

        try:
            with self.loop.passing(give_up):
                return await work
        except asyncio.CancelledError:
            if not reasons:
                raise
            task.uncancel()
            raise reasons[0] from None
