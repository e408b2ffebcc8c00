"""The loop that a project under test runs on: in a thread of its own, with time that passes only while a test waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

from emulator.testing.loop import VirtualLoop

T = TypeVar("T")


class InVain(AssertionError):
    """What a test waits for cannot happen any more: nothing is ready, and no timer is set."""


class HarnessLoop(VirtualLoop):
    """A loop whose time stands still unless `passing` lets it pass."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[object, Callable[[], object]] = {}
        self._stillness = self._stand_still()

    @contextmanager
    def passing(self, in_vain: Callable[[], object]) -> Generator[None]:
        """Let time pass, as far as something needs it; `in_vain` is called once if nothing can happen any more."""
        if not self._waiting:
            self._stillness.__exit__(None, None, None)
        waiter = object()
        self._waiting[waiter] = in_vain
        try:
            yield
        finally:
            del self._waiting[waiter]
            if not self._waiting:
                self._stillness = self._stand_still()

    def idle(self) -> None:
        """Tell whoever waits that it is in vain, and listen to other threads."""
        for waiter, in_vain in self._waiting.items():
            self._waiting[waiter] = _say_nothing
            in_vain()
        self._write_to_self()

    def _stand_still(self) -> AbstractContextManager[None]:
        hold = self.hold()
        hold.__enter__()
        return hold


def _say_nothing() -> None:
    """It has been said."""


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
            InVain: it waits for something that will not happen.
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
        gave_up: list[None] = []

        def give_up() -> None:
            gave_up.append(None)
            task.cancel()

        try:
            with self.loop.passing(give_up):
                return await work
        except asyncio.CancelledError:
            if not gave_up:
                raise
            task.uncancel()
            raise InVain from None
