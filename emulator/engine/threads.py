"""Threads for callbacks that are plain functions: one a call, so that a blocking one stalls nobody.

They are daemons: a callback that never returns must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from emulator.engine.step_code import StepCode

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ThreadPerCall(Executor):
    """An executor without a pool: a pool of blocked threads would stall every other callback."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call it in a new thread."""
        future: Future[Any] = Future()
        # It runs from now on: who has given it up cannot cancel it, and need not hear of its end.
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="workflow-callback", daemon=True).start()
        return future


async def call_code(code: StepCode, told: object) -> object:
    """Call the code of a step, in a thread if it may block; its result, awaited if it is an awaitable."""
    if code.in_thread:
        context = copy_context()
        value = await asyncio.get_running_loop().run_in_executor(
            ThreadPerCall(), lambda: context.run(_called, code.callback, told)
        )
    else:
        value = code.callback(told)
    return await value if inspect.isawaitable(value) else value


def _called(callback: Callable[[Any], object], told: object) -> object:
    try:
        return callback(told)
    except StopIteration as error:
        # No future can hold it, so nobody would hear of the end. On the loop Python itself does the same.
        raise RuntimeError("the step raised StopIteration") from error


_kept: list[object] = []


def keep_for_ever(thing: object) -> None:
    """Never let go of something, not even when the interpreter ends and tidies up.

    Code that swallows every exception would swallow `GeneratorExit` too when its coroutine is destroyed, and run on.
    What a daemon thread holds is the one thing that is left alone.
    """
    _kept.append(thing)
    if len(_kept) == 1:
        wait = threading.Event().wait
        threading.Thread(
            target=_hold, args=(_kept, wait), name="workflow-hung", daemon=True
        ).start()


def _hold(_: list[object], wait: Callable[[], object]) -> None:
    wait()
