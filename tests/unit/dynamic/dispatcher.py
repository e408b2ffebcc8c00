"""A dispatcher in a project of its own: an engine that runs tenants' code, and what the tests ask of it.

async with Dispatcher() as dispatcher:
    await dispatcher.publish("acme", "v1", SOURCE)
    instance = await dispatcher.binding("acme").create()
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bindings import Workflow, WorkflowEntrypoint, WorkflowInstance
from bindings.dynamic import (
    CodeStore,
    create_dynamic_workflow_entrypoint,
    wrap_workflow_binding,
)
from bindings.dynamic.envelope import scoped_id
from bindings.dynamic.processes import TenantProcess
from bindings.dynamic.tenants import Tenants
from bindings.host import EngineHost
from emulator.core.state import InstanceState
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.programs import Program, WorkflowDefinition
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Journal
from emulator.testing.clock import LoopClock
from emulator.timing.clock import Clock

NAME = "tenants"
SHOP = "billing"
HEAD = """\
from bindings import NonRetryableError, WorkflowEntrypoint


class Tenant(WorkflowEntrypoint):
    async def run(self, event, step):
"""


def source(body: str, *, before: str = "") -> str:
    """The code of a tenant whose `run(event, step)` has this body."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return before + HEAD + lines


def saying(word: str, *, naps: int = 0) -> str:
    """A tenant's code that says a word, after some naps of an hour."""
    return source(
        f"for _ in range({naps}):\n    await step.sleep('nap', '1 hour')\nreturn {word!r}"
    )


class Dispatcher:
    """One dynamic workflow, over a journal that outlives its engine."""

    def __init__(
        self,
        workflow: type[WorkflowEntrypoint] | None = None,
        *,
        env: Any = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        max_live: int = 1_000,
    ) -> None:
        self.journal: Journal = MemoryJournal() if journal is None else journal
        self._workflow = workflow or create_dynamic_workflow_entrypoint()
        self._env = env
        self._clock = clock
        self._max_live = max_live

    async def __aenter__(self) -> Dispatcher:
        clock = self._clock or LoopClock()
        self.store = CodeStore(self.journal.codes, clock.now_ms)
        self.tenants = Tenants(self.store)
        # Quick retries, for the sake of tests that drive real processes.
        defaults = StepConfig(RetryConfig(limit=5, delay=1, backoff="constant"), "10 minutes")
        programs: list[Callable[[], Program]] = []
        self.engine = Engine(
            self.journal,
            clock,
            [WorkflowDefinition(NAME, lambda: programs[0]())],
            max_live=self._max_live,
        )
        host = EngineHost(self.engine, "http://localhost:8787")
        programs.append(
            self.tenants.program_of(self._workflow, SimpleNamespace(), self._env, defaults, host)
        )
        await self.engine.start()
        self.raw = Workflow(host, NAME)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.close()
        await self.tenants.close()

    async def restart(self) -> None:
        """End the process and begin another one on the same journal."""
        await self.__aexit__()
        await self.__aenter__()

    async def publish(self, tenant: str, version: str, code: object) -> str:
        """Publish a version; gives its hash."""
        return (await self.store.publish(tenant, SHOP, version, code)).version.hash

    def binding(self, tenant: str, version: str | None = None, **metadata: Any) -> Workflow:
        """A tenant's binding to what it has published."""
        return wrap_workflow_binding(
            {"tenant": tenant, **metadata}, binding=self.raw, name=SHOP, version=version
        )

    async def ended(self, tenant: str, instance: WorkflowInstance) -> JsDict:
        """Wait until a tenant's instance has ended, and give its status."""
        await self.engine.until(key(tenant, instance), lambda state: state.is_terminal or None)
        return await (await self.binding(tenant).get(instance.id)).status()

    async def becomes(self, tenant: str, instance: WorkflowInstance, status: str) -> None:
        """Wait until a tenant's instance has a status."""
        await self.engine.until(key(tenant, instance), lambda state: state.status == status or None)

    async def state(self, tenant: str, instance: WorkflowInstance) -> InstanceState:
        """The state of a tenant's instance."""
        return await self.engine.until(key(tenant, instance), lambda state: state)

    async def process_of(self, tenant: str) -> TenantProcess:
        """The process of a tenant."""
        [processes] = self.tenants.processes
        return await processes.of(tenant)

    async def outcome(self, tenant: str, code: object, **options: Any) -> JsDict:
        """Publish code for a tenant that has none yet, run an instance to its end, and give its status."""
        await self.publish(tenant, "v1", code)
        return await self.ended(tenant, await self.binding(tenant).create(**options))

    async def result(self, tenant: str, code: object, **options: Any) -> Any:
        """The output of an instance that completes."""
        status = await self.outcome(tenant, code, **options)
        assert status["status"] == "complete", status
        return status["output"]


def key(tenant: str, instance: WorkflowInstance) -> InstanceKey:
    """How the engine calls a tenant's instance."""
    return InstanceKey(NAME, scoped_id(tenant, instance.id))
