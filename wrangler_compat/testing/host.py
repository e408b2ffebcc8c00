"""The bindings as a test sees them: Cloudflare's own calls, carried over to the loop of the project under test.

They go by name, so a handle that a test has is good for the project that runs now, also after a `restart`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from bindings import Workflow, WorkflowInstance
from bindings.host import (
    WEBHOOK_PATH,
    Chunk,
    ChunkSource,
    EngineHost,
    EventSource,
    Host,
    NewInstance,
    StatusReport,
    StreamReport,
)
from emulator.core.inputs import Input
from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.engine.engine import Engine
from emulator.errors import EntityConflictError, InvalidInput
from emulator.projection.events import EventFilter

T = TypeVar("T")


class Project(Protocol):
    """The project under test, as far as its bindings know it."""

    async def on_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        """Do some work on the project's loop, with the engine that runs now."""
        ...


class ProjectHost:
    """The engine of another thread's loop: the `Host` of a test's bindings."""

    def __init__(self, project: Project) -> None:
        self._project = project

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """See `Host`."""
        return await self._on_host(
            lambda host: host.create(workflow, given, may_be_taken=may_be_taken, is_whole=is_whole)
        )

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """See `Host`."""
        return await self._on_host(lambda host: host.ask(key, item))

    async def find(self, instance_id: str) -> InstanceKey | None:
        """See `Host`."""
        return await self._on_host(lambda host: host.find(instance_id))

    async def hook(self, token: TokenKey) -> HookRecord:
        """See `Host`."""
        return await self._on_host(lambda host: host.hook(token))

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,
    ) -> HookRecord:
        """See `Host`."""
        return await self._on_host(
            lambda host: host.resume_hook(token, payload, resume_id, checked_by)
        )

    async def now_ms(self) -> int:
        """See `Host`."""
        return await self._on_host(lambda host: host.now_ms())

    def webhook_url(self, token: str) -> str:
        """See `Host`."""
        return WEBHOOK_PATH + quote(token, safe="")

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._on_host(lambda host: host.status(key))

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._on_host(lambda host: host.ended(key))

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return _Events(self._project, key, wanted)

    async def streams(self, key: InstanceKey) -> list[StreamReport]:
        """See `Host`."""
        return await self._on_host(lambda host: host.streams(key))

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:
        """See `Host`."""
        return await self._on_host(lambda host: host.stream(key, namespace))

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:
        """See `Host`."""
        return _Chunks(self._project, key, namespace, start_index)

    async def _on_host(self, work: Callable[[Host], Awaitable[T]]) -> T:
        return await self._project.on_engine(lambda engine: work(EngineHost(engine)))


class _Events:
    """A subscription that lives on the project's loop.

    What has come there, and was cancelled here on its way, is kept for whoever asks next.
    """

    def __init__(self, project: Project, key: InstanceKey, wanted: EventFilter) -> None:
        self._project = project
        self._key = key
        self._wanted = wanted
        self._source: EventSource | None = None
        self._unseen: list[dict[str, Any]] = []

    async def open(self) -> None:
        await self._on_source(lambda source: source.open())

    async def more(self) -> list[dict[str, Any]]:
        async def asking(source: EventSource) -> list[dict[str, Any]]:
            self._unseen = self._unseen or await source.more()
            return self._unseen

        events = await self._on_source(asking)
        self._unseen = []
        return events

    async def close(self) -> None:
        await self._on_source(lambda source: source.close())

    async def _on_source(self, work: Callable[[EventSource], Awaitable[T]]) -> T:
        async def working(engine: Engine) -> T:
            if self._source is None:
                self._source = EngineHost(engine).events(self._key, self._wanted)
            return await work(self._source)

        return await self._project.on_engine(working)


class _Chunks:
    """A reader of a stream that lives on the project's loop; see `_Events`."""

    def __init__(
        self, project: Project, key: InstanceKey, namespace: str, start_index: int
    ) -> None:
        self._project = project
        self._key = key
        self._namespace = namespace
        self._start_index = start_index
        self._source: ChunkSource | None = None
        self._unseen: list[Chunk] = []

    async def more(self) -> list[Chunk]:
        async def working(engine: Engine) -> list[Chunk]:
            if self._source is None:
                self._source = EngineHost(engine).chunks(
                    self._key, self._namespace, self._start_index
                )
            self._unseen = self._unseen or await self._source.more()
            return self._unseen

        chunks = await self._project.on_engine(working)
        self._unseen = []
        return chunks

    async def close(self) -> None:
        """Do nothing: a reader that is not asked holds nothing."""


class TestedWorkflow(Workflow):
    """`env.MY_WORKFLOW`, to be called from a test."""

    __test__ = False  # pytest: this is no test class

    def __init__(self, project: Any, name: str, binding: str) -> None:
        super().__init__(ProjectHost(project), name)
        self.project = project
        self.name = name
        self.binding = binding


def key_of(given: object) -> InstanceKey:
    """The name of the instance that a handle is for.

    Raises:
        InvalidInput: it is no handle.
    """
    if not isinstance(given, WorkflowInstance):
        raise InvalidInput(f"An instance was expected, {_hint(given)}")
    return given._key  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - Cloudflare's handle shows its id only


def _hint(given: object) -> str:
    """What was given instead of an instance, and what was meant."""
    if inspect.iscoroutine(given):
        given.close()  # else Python says, too, that it was never awaited
        return f"and not a coroutine: `await` is missing before the call of {given.__name__}()."
    if isinstance(given, str):
        return f"and not its id: `await workflows.env.MY_WORKFLOW.get({given!r})` gives it."
    return f"as `await workflows.env.MY_WORKFLOW.create()` gives it, and not {given!r}."
