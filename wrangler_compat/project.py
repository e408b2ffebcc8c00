"""A project, assembled: configuration, user code, bindings, engine, application.

The command line and the test harness open a project in the same way; they differ in the journal and the clock.

The parts need each other: the engine wants programs, a program wants the user's class, whose module may use `env`
while it is imported, and `env` holds bindings to the engine. So a definition looks its program up when the first
instance runs, which is after the module is imported.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from bindings.ambient import hosting
from bindings.dynamic.store import CodeStore
from bindings.dynamic.tenants import Tenants
from bindings.entrypoint import WorkflowEntrypoint
from bindings.host import EngineHost
from bindings.lifecycle import Lifecycle, registering
from bindings.workflow import Workflow
from emulator.domain.config import FAST_DEFAULTS, PRODUCTION_DEFAULTS
from emulator.domain.cron import parse_cron
from emulator.domain.instance import Schedule
from emulator.domain.limits import DEFAULT_INSTANCE_STEPS, DEFAULT_RETENTION_MS
from emulator.domain.status import TERMINAL
from emulator.engine.arrangements import Arrangements
from emulator.engine.engine import Engine
from emulator.engine.programs import Program, WorkflowDefinition
from emulator.engine.schedules import WORKER, Schedules, Trigger
from emulator.journal.port import Journal
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import Clock, SystemClock
from wrangler_compat.config import WorkerConfig, WorkflowConfig
from wrangler_compat.rest.operations import Operations, WorkerInfo
from wrangler_compat.server import Access, Server
from wrangler_compat.webhooks.app import WebhookApp
from wrangler_compat.webhooks.table import read_webhooks
from wrangler_compat.worker.app import WorkerApp
from wrangler_compat.worker.asgi import applications
from wrangler_compat.worker.current import running
from wrangler_compat.worker.entrypoint import ExecutionContext, Worker
from wrangler_compat.worker.env import make_env
from wrangler_compat.worker.loader import LoadedWorker, load_worker, project_imports
from wrangler_compat.worker.scheduled import ScheduledApp, run_scheduled

STATE_FOLDER: Final = ".workflow-emulator"
JOURNAL_FILE: Final = "journal.sqlite"


@dataclass(frozen=True)
class Project:
    """A project whose engine runs. `classes` are the workflow classes by name, `worker` its handlers."""

    config: WorkerConfig
    engine: Engine
    clock: Clock
    worker: Worker
    classes: dict[str, type[WorkflowEntrypoint]]

    def app(self, access: Access | None = None) -> Server:
        """Make its ASGI application.

        Raises:
            ConfigError: the table of webhooks has mistakes, or a secret is not set.
        """
        since_ms = int(self.config.path.stat().st_mtime * 1000)
        operations = Operations(self.engine, since_ms, _worker_info(self.config), clock=self.clock)
        webhooks = read_webhooks(self.config, os.environ)
        worker = WebhookApp(webhooks, self.engine, WorkerApp(self.worker))
        scheduled = ScheduledApp(self.worker, self.clock)
        return Server(worker, operations, access or Access(), scheduled)

    async def unfinished(self) -> int:
        """How many instances have not ended."""
        count = 0
        for name in self.engine.definitions:
            counts = await self.engine.journal.status_counts(name)
            count += sum(many for status, many in counts.items() if status not in TERMINAL)
        return count


def journal_of(
    config: WorkerConfig,
    persist_to: Path | Literal[":memory:"] | None = None,
    *,
    full_durability: bool = False,
) -> SqliteJournal:
    """The project's journal: in its own folder, in another, or in memory."""
    if persist_to == ":memory:":
        return SqliteJournal(":memory:", full_durability=full_durability)
    return SqliteJournal(journal_path(config, persist_to), full_durability=full_durability)


def journal_path(config: WorkerConfig, persist_to: Path | None = None) -> Path:
    """Where the project's journal is."""
    return (persist_to or config.root / STATE_FOLDER) / JOURNAL_FILE


@asynccontextmanager
async def open_project(
    config: WorkerConfig,
    journal: Journal,
    clock: Clock | None = None,
    *,
    max_live: int = 1_000,
    keep_all: bool = False,
    fast_retries: bool = False,
    schedules: Literal["on", "off", "catch up"] = "on",
    base_url: str = "",
    load: Callable[[WorkerConfig], LoadedWorker] = load_worker,
    stand_ins: Mapping[str, object] | None = None,
    arrangements: Arrangements | None = None,
    default_retention_ms: int | None = DEFAULT_RETENTION_MS,
) -> AsyncGenerator[Project]:
    """Import the user's code and run the engine as long as the context lasts.

    `keep_all` keeps finished instances beyond their time, `fast_retries` gives steps without a config the delays of
    Cloudflare's local engine; `schedules` to catch up is to fire first the last tick that each has missed. `base_url` is where
    the project is served, for the addresses of its webhooks. What the user's module raises when it is imported is raised as
    it is. Tests give `stand_ins` for what `env` has otherwise, their `arrangements`, and another way to `load` the classes;
    None for `default_retention_ms` keeps what nobody has set a retention for.

    Raises:
        WorkerLoadError: the module lacks what the configuration names.
        StorageError: the journal cannot be used.
    """
    _relax_collector()
    defaults = FAST_DEFAULTS if fast_retries else PRODUCTION_DEFAULTS
    own = [each for each in config.workflows if each.script_name is None]
    programs: dict[str, Callable[[], Program]] = {}
    definitions = [_definition(config, each, programs, default_retention_ms) for each in own]
    clock = clock or SystemClock()
    engine = Engine(
        journal, clock, definitions, max_live=max_live, keep_all=keep_all, arrangements=arrangements
    )
    host = EngineHost(engine, base_url)
    store = CodeStore(journal.codes, engine.now_ms)
    tenants = Tenants(store, has_processes=isinstance(clock, SystemClock))
    bindings = {each.binding: Workflow(host, each.name) for each in own if each.binding}
    context = ExecutionContext({each.class_name: Workflow(host, each.name) for each in own})
    with project_imports(config), _speaking_for(host, engine):
        env = await make_env(_with_foreign(config), bindings, stand_ins)
        with running(env, context):
            loaded = load(config)
            for name, workflow in loaded.workflows.items():
                programs[name] = tenants.program_of(
                    workflow, context, env, defaults, host, implicit_dependencies=config.implicit_dependencies
                )  # fmt: skip
            await engine.start()
            try:
                project = Project(
                    config, engine, clock, Worker(loaded.default, env, context), loaded.workflows
                )
                async with applications(), _firing(project, schedules):
                    yield project
            finally:
                await engine.close()
                await tenants.close()


@contextmanager
def _speaking_for(host: EngineHost, engine: Engine) -> Generator[None]:
    """Let what names no binding mean this project: `resume_hook`, `register_lifecycle_hooks` and their like."""
    lifecycle = Lifecycle(host)
    engine.ended = lifecycle.ended
    with hosting(host, asyncio.get_running_loop()), registering(lifecycle):
        yield


def _worker_info(config: WorkerConfig) -> WorkerInfo:
    bindings = {each.name: each.binding for each in config.workflows if each.binding is not None}
    scope = sha256(str(config.root).encode()).hexdigest()
    return WorkerInfo(config.name, bindings, config.crons, scope, scripts_of(config))


def scripts_of(config: WorkerConfig) -> dict[str, str]:
    """The scripts of the workflows that the Worker binds and does not define, by the workflows' names."""
    return {each.name: each.script_name for each in config.workflows if each.script_name}


@asynccontextmanager
async def _firing(
    project: Project, schedules: Literal["on", "off", "catch up"]
) -> AsyncGenerator[None]:
    """Fire what is due, by the workflows' schedules and the Worker's cron triggers, as long as the context lasts."""
    if schedules == "off":
        yield
        return
    engine, worker = project.engine, project.worker
    triggers = [
        Trigger(definition.name, cron)
        for definition in engine.definitions.values()
        for cron in definition.schedules
    ]
    triggers += [Trigger(WORKER, parse_cron(text)) for text in project.config.crons]

    def run_worker(tick: Schedule) -> None:
        worker.ctx.wait_until(run_scheduled(worker, tick.cron, tick.scheduled_ms))

    firing = Schedules(
        engine, project.clock, triggers, run_worker, catch_up=schedules == "catch up"
    )
    await firing.start()
    try:
        yield
    finally:
        await firing.close()


def _relax_collector() -> None:
    """Let the garbage collector look less often.

    Thousands of instances in flight are live objects by the hundred thousand, and Python's thresholds make it look
    through all of them again and again: that took half the time of a busy engine.
    """
    gc.set_threshold(50_000, 20, 50)


def _definition(
    config: WorkerConfig,
    workflow: WorkflowConfig,
    programs: dict[str, Callable[[], Program]],
    default_retention_ms: int | None,
) -> WorkflowDefinition:
    success_ms, error_ms = (
        default_retention_ms if given_ms is None else given_ms
        for given_ms in (workflow.success_retention_ms, workflow.error_retention_ms)
    )
    return WorkflowDefinition(
        workflow.name,
        lambda: programs[workflow.class_name](),
        class_name=workflow.class_name,
        script_name=config.name,
        step_limit=workflow.step_limit or DEFAULT_INSTANCE_STEPS,
        concurrency_limit=workflow.concurrency_limit,
        success_retention_ms=success_ms,
        error_retention_ms=error_ms,
        schedules=tuple(parse_cron(text) for text in workflow.schedules),
        preserve_non_retryable_message=config.preserve_non_retryable_message,
    )


def _with_foreign(config: WorkerConfig) -> WorkerConfig:
    """The configuration, with the workflows of other scripts among what is not emulated."""
    foreign = dict(foreign_workflows(config.workflows))
    return replace(config, unsupplied={**config.unsupplied, **foreign})


def foreign_workflows(workflows: Iterable[WorkflowConfig]) -> Iterable[tuple[str, str]]:
    """The bindings to workflows of other scripts, each with what it is."""
    for each in workflows:
        if each.script_name is not None and each.binding is not None:
            yield each.binding, f"a workflow of the script {each.script_name}"
