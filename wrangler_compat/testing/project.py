"""A project under test: a real engine over a journal in memory, in virtual time.

The project runs on an event loop of its own, in a thread of its own, whose time moves only while a test waits for
something, and no further than that needs: it jumps from one deadline to the next. So a month takes no longer than a
millisecond, also for an `asyncio.sleep` in a callback, and it does not matter on which loop the test itself runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bindings import WorkflowInstance
from bindings.ambient import hosting
from emulator.core.modifiers import Modifiers, ModifiersChanged
from emulator.core.state import InstanceState
from emulator.domain.duration import UNITS, duration_ms, unknown_unit
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DAY_MS
from emulator.domain.status import InstanceStatus
from emulator.engine.arrangements import Arrangements
from emulator.engine.engine import Engine
from emulator.engine.rest import PARK_AFTER_MS
from emulator.errors import ConfigError, EngineStopped, InvalidDuration, InvalidInput
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, InstanceQuery, StoredInstance
from emulator.testing.clock import LoopClock
from wrangler_compat import project as assembly
from wrangler_compat.testing.classes import (
    Entrypoint,
    Subject,
    check_classes,
    project_from,
    project_of,
)
from wrangler_compat.testing.host import ProjectHost, TestedWorkflow, key_of
from wrangler_compat.testing.loop import PATIENCE_S, InVain, LoopThread, TooLong
from wrangler_compat.testing.tree import is_pending, progress, standing, tree

T = TypeVar("T")

ORIGIN = "http://localhost"
MOST_SHOWN = 20
"""How many instances a report is about at most, of each workflow."""


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

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"The Worker's answer has no {name!r}: it has status, headers, body, text() and json().",
            name=name,
            obj=self,
        )


MOST_DAYS = 32
"""How much virtual time `until` lets pass in a project with schedules: a month, and a little."""


class TestProject:
    """A project under test. It opens itself when it is used for the first time.

    `find` says what it is about unless classes are added; `file` is where those come from.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(self, find: Callable[[], Subject], file: Path) -> None:
        self.arrangements = Arrangements(replays="few")
        self._find = find
        self._file = file
        self._classes: list[Entrypoint] = []
        self._stand_ins: dict[str, object] = {}
        self._journal = _CountingJournal()
        self._gone: list[StoredInstance] = []
        self._thread: LoopThread | None = None
        self._clock = LoopClock()
        self._subject: Subject | None = None
        self._has_ended = False
        self._project: assembly.Project | None = None
        self._opened = AsyncExitStack()
        self._hosting = ExitStack()
        self.divergences: list[str] = []
        """Replays that asked for other steps than the journal has: an error, unless the test takes it out of the list."""

    # what a test sets up

    def add(self, *classes: Entrypoint) -> None:
        """Test these classes instead of a project: workflows, each bound under its name in UPPER_SNAKE, and a Worker.

        Raises:
            ConfigError: the engine runs already, or something is neither a workflow's class nor a Worker's.
        """
        check_classes(classes)
        if self._subject is not None:
            raise ConfigError("The engine runs already: add classes before anything is done.")
        self._classes += classes

    def replace_env(self, stand_ins: Mapping[str, object]) -> None:
        """Put fakes into `env`, from now on and after every restart."""
        self._stand_ins.update(stand_ins)
        if self._project is not None:
            for name, value in stand_ins.items():
                setattr(self._project.worker.env, name, value)

    # what a test does

    @property
    def env(self) -> Any:
        """The Worker's `env`: its bindings, to be called from the test, and its variables. Assign to put a fake there."""
        return _Env(self)

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
        return await self._call(
            self._request(method, path, json=json, content=body, headers=headers)
        )

    async def until(self, instance: WorkflowInstance, status: str) -> None:
        """Let time pass until the instance has this status.

        Raises:
            InvalidInput: there is no such status, or what was given is no instance.
            AssertionError: it has ended otherwise, or waits for something that no time brings; the text says which.
        """
        wanted = status_of(status)
        key = key_of(instance)

        def reached(state: InstanceState) -> InstanceStatus | None:
            return state.status if state.status is wanted or state.is_terminal else None

        if await self.until_answered(key, reached, f"become {wanted}") is not wanted:
            how = await self._standing(key)
            raise AssertionError(f"instance {key.id} did not become {wanted}: {how}")

    async def advance(self, duration: int | str | timedelta) -> None:
        """Let this much time pass: milliseconds, a text such as "3 days", or a timedelta.

        Raises:
            InvalidDuration: it is none, its unit is unknown, or it is negative.
        """
        left_ms = duration_ms(duration, what="the time to advance")
        if unit := unknown_unit(duration):
            raise InvalidDuration(
                f'the time to advance cannot be {duration!r}: there is no unit "{unit}"; there are {UNITS}'
            )
        if left_ms < 0:
            raise InvalidDuration(
                f"the time to advance cannot be {duration!r}: time does not run backwards"
            )
        while left_ms > DAY_MS:  # it is each day that must not take too long
            await self._call(self._advance(DAY_MS))
            left_ms -= DAY_MS
        await self._call(self._advance(left_ms))

    async def settle(self) -> None:
        """Let everything go on that can without time passing, until it has finished or is parked.

        The few milliseconds pass after which code counts as parked (`waiting`). A callback that itself waits for a time
        counts as parked, too.
        """
        await self._call(self._settle())

    async def restart(self) -> None:
        """Let the process die, as `kill -9` does, and start again from the journal.

        What was not committed is lost. Attempts under way have failed; they are retried if their limit allows. (Their code
        is unwound, as Python cannot just end it, but nothing that it does reaches the journal.)
        """
        await self._call(self._restart())

    # for those who look inside

    def in_env(self, name: str) -> Any:
        """What `env` has under a name; a workflow's binding in a form that a test can call."""
        env = self._started().worker.env
        for each in self._started().config.workflows:
            if name == each.binding and each.script_name is None and name not in self._stand_ins:
                return TestedWorkflow(self, each.name, name)
        return getattr(env, name)

    async def on_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        """Do some work on the project's loop, with the engine that runs now."""
        engine = self._started().engine

        async def working() -> T:
            return await work(engine)

        return await self._call(working())

    async def until_answered(
        self, key: InstanceKey, question: Callable[[InstanceState], T | None], what: str
    ) -> T:
        """Let time pass until a question about an instance has an answer other than None.

        Raises:
            AssertionError: that cannot happen any more, or takes for ever; the text says that the instance does not do `what`.
        """
        try:
            return await self.on_engine(lambda engine: self._until(engine, key, question))
        except TooLong:
            how = await self._describe(key, progress)
            raise TooLong(
                f"instance {key.id} did not {what} within {PATIENCE_S:g} s of real time, and goes on: {how}"
            ) from None
        except (InVain, TimeoutError):
            how = await self._standing(key)
            raise AssertionError(f"instance {key.id} will not {what}: {how}") from None

    async def _until(
        self, engine: Engine, key: InstanceKey, question: Callable[[InstanceState], T | None]
    ) -> T:
        config = self._started().config
        has_schedule = bool(config.crons) or any(each.schedules for each in config.workflows)
        # A schedule ticks for ever, so that there is always something that can still happen.
        async with asyncio.timeout(MOST_DAYS * DAY_MS / 1000 if has_schedule else None):
            return await engine.until(key, question)

    async def arrange(self, key: InstanceKey, modifiers: Modifiers | None) -> None:
        """Arrange something for an instance that exists, or will."""

        async def arranging(engine: Engine) -> None:
            self.arrangements.change(key, modifiers)
            engine.post(key, ModifiersChanged(modifiers or Modifiers()))

        await self.on_engine(arranging)

    def pending(self) -> list[str]:
        """The instances that have not ended, each with what it waits for."""
        return self._pending(standing)

    def trees(self) -> list[str]:
        """The journal of each instance, as a tree: first of those that introspectors have removed. Also after `stop`."""
        return [tree(each) for each in (*self._gone, *self._instances())]

    async def remember(self, key: InstanceKey) -> None:
        """Keep the journal of an instance that is about to be removed, for a report."""
        found = (await self.on_engine(lambda engine: engine.journal.load([key]))).get(key)
        if isinstance(found, StoredInstance):
            self._gone = [*self._gone, found][-MOST_SHOWN:]

    # its life

    def start(self) -> None:
        """Open the project in its thread.

        Raises:
            ConfigError: there is no wrangler file, or it is wrong.
            WorkerLoadError: the module lacks what the configuration names.
        """
        subject = project_from(self._classes, self._file) if self._classes else self._find()
        self._subject = subject
        thread = LoopThread()
        thread.start()
        try:
            thread.block(self._open())
        except BaseException:
            thread.stop()
            self._subject = None  # who tries again is told again
            raise
        self._thread = thread
        self._hosting.enter_context(hosting(ProjectHost(self)))

    def stop(self) -> None:
        """Close the project and end the thread, whatever is unfinished.

        Raises:
            AssertionError: a replay asked for other steps than the journal has.
        """
        self._hosting.close()
        self._gone += self._instances()
        self._has_ended = True
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.block(self._close())
            finally:
                thread.stop()
        if self.divergences:
            raise AssertionError(
                "\n".join(self.divergences)
                + "\nThis is an error in tests; one that means it takes the text out of workflows.divergences."
            )

    def _started(self) -> assembly.Project:
        if self._has_ended:
            raise EngineStopped(
                "The project under test has ended, with its test or its block: so have its instances and bindings.",
                hint="Every test has a project of its own: create there what it needs.",
            )
        if self._subject is None:
            self.start()
        assert self._project is not None, "the project is open"
        return self._project

    async def _open(self) -> None:
        assert self._subject is not None
        config, load = self._subject
        opening = assembly.open_project(
            config,
            self._journal,
            self._clock,
            load=load,
            stand_ins=self._stand_ins,
            arrangements=self.arrangements,
            default_retention_ms=None,
        )
        self._project = await self._opened.enter_async_context(opening)
        # One list for all lives, from which a test may take at any time.
        notices = self._project.engine.notices
        self.divergences += notices.divergences
        notices.divergences = self.divergences

    async def _close(self) -> None:
        opened, self._opened = self._opened, AsyncExitStack()
        self._project = None
        await opened.aclose()

    async def _call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._started()
            assert self._thread is not None
        except BaseException:
            work.close()
            raise
        try:
            return await self._thread.call(work)
        except TooLong:
            pending = "; ".join(self._pending(progress)) or "no instance"
            raise TooLong(
                f"The test has waited for {PATIENCE_S:g} s of real time, and code still runs. "
                f"Unfinished: {pending}."
            ) from None
        except InVain:
            pending = "; ".join(self.pending()) or "no instance"
            raise InVain(
                "The test waits for something that cannot happen: no code runs and no timer is set. "
                f"Unfinished: {pending}."
            ) from None

    async def _request(self, method: str, path: str, **options: Any) -> Response:
        transport = httpx.ASGITransport(self._started().app())
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            answer = await client.request(method, path, **options)
        return Response(answer.status_code, dict(answer.headers), answer.content)

    async def _advance(self, delay_ms: int) -> None:
        assert self._thread is not None
        reached = self._thread.loop.create_future()
        self._thread.loop.call_later(delay_ms / 1000, reached.set_result, None)
        await reached

    async def _settle(self) -> None:
        # A look that comes upon code which has moved meanwhile is followed by a second one.
        until_parked_ms = 2 * PARK_AFTER_MS + 1
        while True:
            commits = self._journal.commits
            await self._advance(until_parked_ms)
            if commits == self._journal.commits:
                return

    async def _restart(self) -> None:
        await self._started().engine.kill()
        await self._close()
        await self._open()

    async def _standing(self, key: InstanceKey) -> str:
        return await self._describe(key, standing)

    async def _describe(self, key: InstanceKey, describe: Callable[[StoredInstance], str]) -> str:
        found = await self.on_engine(lambda engine: engine.journal.load([key]))
        stored = found.get(key)
        return describe(stored) if isinstance(stored, StoredInstance) else "it does not exist"

    def _pending(self, describe: Callable[[StoredInstance], str]) -> list[str]:
        return [
            f"{each.row.creation.workflow}/{each.row.creation.id}: {describe(each)}"
            for each in self._instances()
            if is_pending(each)
        ]

    def _instances(self) -> list[StoredInstance]:
        return [] if self._thread is None else self._thread.block(self._load_instances())

    async def _load_instances(self) -> list[StoredInstance]:
        found: list[StoredInstance] = []
        for workflow in self._started().engine.definitions:
            query = InstanceQuery(workflow, ascending=True, limit=MOST_SHOWN)
            keys = [row.creation.key for row in await self._journal.rows(query)]
            loaded = (await self._journal.load(keys)).values()
            found += [stored for stored in loaded if isinstance(stored, StoredInstance)]
        return found


def status_of(text: str) -> InstanceStatus:
    """Read the name of a status.

    Raises:
        InvalidInput: there is none of this name.
    """
    if text not in list(InstanceStatus):
        raise InvalidInput(f"There is no status {text!r}: there are {', '.join(InstanceStatus)}.")
    return InstanceStatus(text)


class _Env:
    """`env` as a test sees it."""

    def __init__(self, project: TestProject) -> None:
        self.__dict__["_project"] = project

    def __getattr__(self, name: str) -> Any:
        project: TestProject = self.__dict__["_project"]
        return project.in_env(name)

    def __setattr__(self, name: str, value: object) -> None:
        project: TestProject = self.__dict__["_project"]
        project.replace_env({name: value})


class _CountingJournal(MemoryJournal):
    """A journal in memory that knows how often it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    async def commit(self, commit: Commit) -> None:
        self.commits += 1
        await super().commit(commit)


@asynccontextmanager
async def open_project(folder: Path) -> AsyncGenerator[TestProject]:
    """Open the project that `folder` belongs to, with an empty journal in memory and its own virtual time.

        async with open_project(Path(__file__).parent) as project:
            instance = await project.env.ORDERS.create(params={"id": 1})
            await project.until(instance, "complete")

    Raises:
        ConfigError: there is no wrangler file, or it is wrong.
        WorkerLoadError: the module lacks what the configuration names.
    """
    project = TestProject(lambda: project_of(folder), folder)
    project.start()
    try:
        yield project
    finally:
        project.stop()
