"""A project in virtual time: workflows, an engine, and a journal that outlives it.

    @in_virtual_time
    async def test_...() -> None:
        async with Project(run) as project:
            assert await project.result(params={"n": 1}) == 2

`run` is a workflow class, or only its `run(event, step)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, Self

from bindings import Workflow, WorkflowEntrypoint, WorkflowInstance, WorkflowStep
from bindings.ambient import current_host, hosting
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DEFAULT_INSTANCE_STEPS, DEFAULT_RETENTION_MS
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import HookQuery, InstanceQuery, Journal
from emulator.testing.clock import LoopClock
from emulator.testing.loop import run as run_in_virtual_time

P = ParamSpec("P")
Run = Callable[[JsDict, WorkflowStep], Awaitable[Any]]
Result = Callable[[], Awaitable[Any]]

ONCE = {"retries": {"limit": 0, "delay": 0}}
"""The config of a step that has one attempt."""

AT_ONCE = {"retries": {"limit": 2, "delay": 0}}
"""The config of a step that has three attempts, one right after the other."""

NAME = "orders"


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a virtual loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_in_virtual_time(test(*args, **kwargs))

    return run


def workflow_class(run: Run) -> type[WorkflowEntrypoint]:
    """The workflow class of a bare `run(event, step)`."""

    class Written(WorkflowEntrypoint):
        async def run(self, event: JsDict, step: WorkflowStep) -> Any:
            return await run(event, step)

    return Written


class Project:
    """One workflow, `orders`, on an engine that can be restarted."""

    def __init__(
        self,
        workflow: type[WorkflowEntrypoint] | Run,
        *,
        env: Any = None,
        max_live: int = 1_000,
        concurrency_limit: int | None = None,
        success_retention_ms: int = DEFAULT_RETENTION_MS,
        error_retention_ms: int = DEFAULT_RETENTION_MS,
        keep_all: bool = False,
        step_limit: int = DEFAULT_INSTANCE_STEPS,
        preserve_non_retryable_message: bool = True,
    ) -> None:
        self.journal = MemoryJournal()
        self.clock = LoopClock()
        self._hosting = ExitStack()
        self.keep_all = keep_all
        self._max_live = max_live
        is_class = isinstance(workflow, type)
        self._definition = WorkflowDefinition(
            NAME,
            program_of(workflow if is_class else workflow_class(workflow), None, env),
            concurrency_limit=concurrency_limit,
            success_retention_ms=success_retention_ms,
            error_retention_ms=error_retention_ms,
            step_limit=step_limit,
            preserve_non_retryable_message=preserve_non_retryable_message,
        )

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.close()
        self._hosting.close()

    async def restart(self, **settings: Any) -> None:
        """Stop the engine, and start a new one on the same journal, with other settings of the workflow perhaps."""
        await self.engine.close()
        self._definition = replace(self._definition, **settings)
        await self._start()

    async def _start(self) -> None:
        self.engine = Engine(
            self.way_to_journal(),
            self.clock,
            [self._definition],
            max_live=self._max_live,
            keep_all=self.keep_all,
        )
        await self.engine.start()
        self.host = EngineHost(self.engine)
        self._hosting.close()
        self._hosting.enter_context(hosting(self.host, asyncio.get_running_loop()))
        self.workflow = Workflow(self.host, NAME)

    def way_to_journal(self) -> Journal:
        """The journal, as an engine that starts now shall see it."""
        return self.journal

    async def crash(self) -> None:
        """Let the engine die as with a killed process, and start a new one on the same journal."""
        await self.engine.kill()
        await self._start()

    def now_ms(self) -> int:
        """The time of the engine."""
        return self.clock.now_ms()

    def handle(self, instance: WorkflowInstance | str) -> WorkflowInstance:
        """A handle that works after a restart."""
        instance_id = instance if isinstance(instance, str) else instance.id
        return WorkflowInstance(EngineHost(self.engine), InstanceKey(NAME, instance_id))

    async def ended(self, instance: WorkflowInstance | str) -> JsDict:
        """Wait until an instance has ended, and give its status."""
        await self.engine.until(_key(instance), lambda state: state.is_terminal or None)
        return await self.handle(instance).status()

    async def becomes(self, instance: WorkflowInstance | str, status: str) -> None:
        """Wait until an instance has a status."""
        await self.engine.until(_key(instance), lambda state: state.status == status or None)

    async def outcome(self, **options: Any) -> JsDict:
        """Create an instance, wait until it has ended, and give its status."""
        return await self.ended(await self.workflow.create(**options))

    async def result(self, **options: Any) -> Any:
        """The output of an instance that completes."""
        status = await self.outcome(**options)
        assert status["status"] == "complete", status
        return status["output"]

    async def error(self, **options: Any) -> tuple[str, str]:
        """Name and message of the error of an instance that fails."""
        status = await self.outcome(**options)
        assert status["status"] == "errored", status
        return status["error"]["name"], status["error"]["message"]

    async def history(self, instance: WorkflowInstance | str) -> list[tuple[str, str]]:
        """What the journal has of an instance: kind of entry, and label of the step or an empty text."""
        key = _key(instance)
        stored = (await self.journal.load([key]))[key]
        assert not isinstance(stored, Exception)
        return [
            (type(entry.fact).__name__, entry.step.label if entry.step else "")
            for _, entry in stored.entries
        ]

    async def listed(self) -> set[str]:
        """The ids of all instances."""
        return {
            row.creation.id for row in await self.journal.rows(InstanceQuery(NAME, limit=9_999))
        }

    async def tokens(self) -> dict[str, str]:
        """The tokens that are held, or retained, and by which instance."""
        hooks = await self.journal.hooks(HookQuery(limit=9_999))
        return {hook.token: hook.instance_id for hook in hooks if hook.holds_at(self.now_ms())}

    async def timers(self) -> int:
        """How many timers the journal has."""
        return len(await self.journal.due(2**60, 1_000_000))


def orders() -> Workflow:
    """The binding of the project that runs, for code in a workflow."""
    return Workflow(current_host("a test"), NAME)


def _key(instance: WorkflowInstance | str) -> InstanceKey:
    return InstanceKey(NAME, instance if isinstance(instance, str) else instance.id)


async def pause_for(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


async def refusal_of(awaitable: Awaitable[object]) -> Exception:
    """The exception that a call raises."""
    try:
        answer = await awaitable
    except Exception as error:
        return error
    raise AssertionError(f"not refused, but answered {answer!r}")
