"""Testing a project offline: no server, no waiting, a real engine in virtual time.

    async with open_project(Path(__file__).parent) as project:
        instance = await project.env.ORDERS.create(params={"id": 1})
        await project.until(instance, "complete")

The project runs on an event loop of its own, in a thread of its own, whose time moves only while a test waits for
something (`until`, `advance`): then it jumps from one deadline to the next. So a month takes no longer than a
millisecond, also for an `asyncio.sleep` in a callback, and it does not matter on which loop the test itself runs.
What a test gets from `env` are stand-ins that call over to that loop.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bindings import Workflow, WorkflowInstance
from emulator.core.state import InstanceState
from emulator.domain.duration import duration_ms
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKind
from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import LoopClock
from emulator.testing.loop import VirtualLoop
from wrangler_compat import project as assembly
from wrangler_compat.config import WorkerConfig, load_config

T = TypeVar("T")

ORIGIN = "http://localhost"


@dataclass(frozen=True)
class Response:
    """What the Worker answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class TestProject:
    """A project under test. Made by `open_project`."""

    __test__ = False  # pytest: this is no test class

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._journal = MemoryJournal()
        self._thread = _LoopThread()
        self._opened = AsyncExitStack()
        self._project: assembly.Project | None = None

    @property
    def env(self) -> Any:
        """The Worker's `env`: its bindings, to be called from the test, and its variables."""
        return _Env(self._running.worker.env, self._thread)

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Send a request to the Worker's `fetch`, without a socket."""
        return await self._thread.call(
            self._request(method, path, json=json, content=body, headers=headers)
        )

    async def until(self, instance: WorkflowInstance, status: str) -> None:
        """Let time pass until the instance has this status.

        Raises:
            AssertionError: it has ended otherwise, or waits for something that no time brings; the text says which.
        """
        wanted = InstanceStatus(status)
        key = InstanceKey(
            *str(instance).removeprefix("<WorkflowInstance ").removesuffix(">").split("/", 1)
        )
        await self._thread.call(self._until(key, wanted))

    async def advance(self, duration: int | str | timedelta) -> None:
        """Let this much time pass: milliseconds, a text such as "3 days", or a timedelta."""
        delay_ms = duration_ms(duration, what="the time to advance")
        await self._thread.call(self._advance(delay_ms))

    async def restart(self) -> None:
        """Stop everything and start again from the journal, as if the process had died and come back."""
        await self._thread.call(self._close())
        await self._thread.call(self._open())

    @property
    def _running(self) -> assembly.Project:
        assert self._project is not None, "the project is open"
        return self._project

    async def start(self) -> None:
        """Open the project in its thread."""
        self._thread.start()
        await self._thread.call(self._open())

    async def stop(self) -> None:
        """Close the project and end the thread."""
        await self._thread.call(self._close())
        self._thread.stop()

    async def _open(self) -> None:
        opening = assembly.open_project(self._config, self._journal, LoopClock())
        self._project = await self._opened.enter_async_context(opening)

    async def _close(self) -> None:
        opened, self._opened = self._opened, AsyncExitStack()
        self._project = None
        await opened.aclose()

    async def _request(self, method: str, path: str, **options: Any) -> Response:
        transport = httpx.ASGITransport(self._running.app())
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            answer = await client.request(method, path, **options)
        return Response(answer.status_code, dict(answer.headers), answer.content)

    async def _advance(self, delay_ms: int) -> None:
        loop = self._thread.loop
        with loop.passing():
            reached = loop.create_future()
            loop.call_later(delay_ms / 1000, reached.set_result, None)
            await reached

    async def _until(self, key: InstanceKey, wanted: InstanceStatus) -> None:
        engine = self._running.engine

        def reached(state: InstanceState) -> InstanceStatus | None:
            return state.status if state.status is wanted or state.is_terminal else None

        task = asyncio.current_task()
        assert task is not None
        try:
            with self._thread.loop.passing(task.cancel):
                status = await engine.until(key, reached)
        except asyncio.CancelledError:
            what = await engine.read(key, _describe)
            raise AssertionError(f"instance {key.id} will not become {wanted}: {what}") from None
        if status is not wanted:
            what = await engine.read(key, _describe)
            raise AssertionError(f"instance {key.id} did not become {wanted}: {what}")


@asynccontextmanager
async def open_project(folder: Path) -> AsyncGenerator[TestProject]:
    """Open the project that `folder` belongs to, with an empty journal in memory and its own virtual time.

    Raises:
        ConfigError: there is no wrangler file, or it is wrong.
        WorkerLoadError: the module lacks what the configuration names.
    """
    project = TestProject(load_config(folder))
    await project.start()
    try:
        yield project
    finally:
        await project.stop()


def _describe(state: InstanceState) -> str:
    """Where an instance stands, in words."""
    open_waits = [
        f'waits for the event "{step.event_type}" in step "{step.key.label}"'
        for step in state.open.values()
        if step.key.kind is StepKind.WAIT
    ]
    error = "" if state.error is None else f" ({state.error.name}: {state.error.message})"
    return ", ".join([f"it is {state.status}{error}", *open_waits])


class _HarnessLoop(VirtualLoop):
    """A loop whose time stands still unless `passing` lets it pass."""

    def __init__(self) -> None:
        super().__init__()
        self._on_idle: Callable[[], object] | None = None
        self._stillness = self.hold()
        self._stillness.__enter__()

    @contextmanager
    def passing(self, on_idle: Callable[[], object] | None = None) -> Generator[None]:
        """Let time pass; `on_idle` is called if nothing can happen any more."""
        self._on_idle = on_idle
        self._stillness.__exit__(None, None, None)
        try:
            yield
        finally:
            self._on_idle = None
            self._stillness = self.hold()
            self._stillness.__enter__()

    def idle(self) -> None:
        """Tell whoever lets time pass that it is in vain, once."""
        on_idle, self._on_idle = self._on_idle, None
        if on_idle is not None:
            on_idle()


class _LoopThread:
    """A thread that runs a `_HarnessLoop`, and calls into it."""

    def __init__(self) -> None:
        self.loop = _HarnessLoop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="workflow-project", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


class _Env:
    """`env` as a test sees it."""

    def __init__(self, env: object, thread: _LoopThread) -> None:
        self._env = env
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        return _stand_in(getattr(self._env, name), self._thread)


class _StandIn:
    """A binding or an instance handle as a test sees it: its methods run on the project's loop."""

    def __init__(self, target: object, thread: _LoopThread) -> None:
        self._target = target
        self._thread = thread

    def __repr__(self) -> str:
        return repr(self._target)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        async def call(*arguments: Any, **keywords: Any) -> Any:
            made: Any = attribute(*arguments, **keywords)
            return _stand_in(await self._thread.call(_await(made)), self._thread)

        return call


async def _await(work: Awaitable[T]) -> T:
    return await work


def _stand_in(value: Any, thread: _LoopThread) -> Any:
    if isinstance(value, (Workflow, WorkflowInstance)):
        return _StandIn(value, thread)
    if isinstance(value, list):
        return [_stand_in(each, thread) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value
