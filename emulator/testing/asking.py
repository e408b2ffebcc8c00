"""Listening in between user code and the engine: which steps are asked for, from which line, with which code.

A `ListeningContext` stands in for the step context of an incarnation. It hands everything on; its listener may change the
code of a step, or keep a request from the engine.
"""

from __future__ import annotations

import asyncio.events
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, Protocol

from emulator.core.effects import Outcome
from emulator.core.inputs import HookDisposeRequested, HookRequested, StepRequest
from emulator.domain.steps import StepKey
from emulator.domain.values import StreamedOutput
from emulator.engine.frames import is_the_users
from emulator.engine.step_code import RollbackCode, StepCode
from emulator.engine.steps import Asker, StepContext
from emulator.engine.streams import Writer, Writing

_LOOP: Final = asyncio.events.__file__


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


class Asked(NamedTuple):
    """A step that was asked for, and the line that did; None if that is unknown."""

    request: StepRequest | HookRequested
    place: Place | None

    @property
    def step(self) -> StepKey:
        """The step."""
        return self.request.step


class Listener(Protocol):
    """Who listens."""

    def code(self, step: StepKey, code: StepCode, *, rollback: bool = False) -> StepCode:
        """The code that shall be called for a step, or as its rollback handler."""
        ...

    async def asked(self, asked: Asked, hand_on: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """User code asks for a step; `hand_on` asks the engine."""
        ...

    def opened(self, asked: Asked) -> bool:
        """User code opens a hook; whether the engine shall hear of it."""
        ...


class ListeningContext(StepContext):
    """The step context of an incarnation, with a listener in between."""

    def __init__(self, context: StepContext, listener: Listener) -> None:
        super().__init__(_Between(context._life, listener))  # noqa: SLF001 - one context inside another


class _Between:
    """Takes what the step context asks, and hands it on to the incarnation."""

    def __init__(self, life: Asker, listener: Listener) -> None:
        self.number = life.number
        self.step_limit = life.step_limit
        self._life = life
        self._listener = listener
        self._declared: dict[StepKey, Place | None] = {}
        self.now_ms = life.now_ms
        self.said = life.said
        self.token = life.token
        self.hook_id = life.hook_id
        self.hook_names = life.hook_names
        self.abandoned = life.abandoned

    def later(self, item: HookRequested | HookDisposeRequested) -> Awaitable[Outcome]:
        if isinstance(item, HookRequested):
            asked = Asked(item, users_place(inspect.currentframe()))
            if not self._listener.opened(asked):
                return asyncio.get_running_loop().create_future()
        return self._life.later(item)

    def register(self, step: StepKey, code: StepCode, rollback: RollbackCode | None) -> None:
        self._declared[step] = _definition(code)
        if rollback is not None:
            handler = self._listener.code(step, rollback.code, rollback=True)
            rollback = rollback._replace(code=handler)
        self._life.register(step, self._listener.code(step, code), rollback)

    @property
    def is_closed(self) -> bool:
        return self._life.is_closed

    @property
    def writing(self) -> Writing:
        return self._life.writing

    def use_streams(self) -> None:
        self._life.use_streams()

    def writer(self) -> Writer | None:
        return self._life.writer()

    def output(self, step: StepKey, output: StreamedOutput) -> object:
        return self._life.output(step, output)

    def hold(self) -> Callable[[], None]:
        return self._life.hold()

    async def ask(self, request: StepRequest) -> Outcome:
        # In a task of its own, as `gather` makes them, a step has no caller: then its function is shown.
        place = users_place(inspect.currentframe()) or self._declared.get(request.step)
        asked = Asked(request, place)
        return await self._listener.asked(asked, lambda: self._life.ask(request))


def users_place(frame: FrameType | None) -> Place | None:
    """The innermost line of the user's code on the stack above `frame`, up to the event loop."""
    while frame is not None and frame.f_code.co_filename != _LOOP:
        if is_the_users(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def raising_place(trace: TracebackType | None) -> Place | None:
    """The innermost line of the user's code that an exception came through."""
    place = None
    while trace is not None:
        if is_the_users(trace.tb_frame.f_code.co_filename):
            place = Place(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _definition(code: StepCode) -> Place | None:
    """Where the function of a step is written: whoever wraps it binds it to what he calls in its place."""
    called: Any = code.callback
    bound: Sequence[Any] = called.args if isinstance(called, partial) else (called,)
    for each in bound:
        written = getattr(each, "__code__", None)
        if isinstance(written, CodeType) and is_the_users(written.co_filename):
            return Place(written.co_filename, written.co_firstlineno)
    return None
