"""`create_dynamic_workflow_entrypoint`: the class that stands for the tenants' classes, and how it runs them.

# wrangler.jsonc: {"workflows": [{"name": "tenants", "binding": "TENANTS", "class_name": "TenantWorkflow"}]}
TenantWorkflow = create_dynamic_workflow_entrypoint(isolation="process")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from bindings.dynamic.code import LoadedCodes
from bindings.dynamic.dispatching import LoadRunner, dispatch_workflow
from bindings.dynamic.envelope import opened
from bindings.dynamic.processes import ProcessLimits, TenantProcesses
from bindings.dynamic.remote import RemoteRun
from bindings.dynamic.store import CodeStore
from bindings.dynamic.tenant_host import TenantHost
from bindings.entrypoint import WorkflowEntrypoint, program_of
from bindings.host import Host
from bindings.step import WorkflowStep
from emulator.domain import values
from emulator.domain.config import StepConfig
from emulator.domain.instance import id_in_scope, scope_of
from emulator.domain.values import JsDict
from emulator.engine.programs import Program, RunEvent
from emulator.engine.steps import StepContext
from emulator.errors import DynamicCodeNotFoundError

TenantEnv = Callable[[JsDict, Any], Mapping[str, Any]]
"""Gives what a tenant's class finds in `self.env`, for the tenant's metadata and the Worker's own `env`."""


class StoredWorkflow(WorkflowEntrypoint):
    """The base of what stands for the tenants' classes when their code comes from the code store."""

    isolation: ClassVar[Literal["none", "process"]]
    limits: ClassVar[ProcessLimits]
    tenant_env: ClassVar[TenantEnv | None]


def create_dynamic_workflow_entrypoint(
    load_runner: LoadRunner | None = None,
    *,
    isolation: Literal["none", "process"] = "none",
    limits: ProcessLimits | None = None,
    tenant_env: TenantEnv | None = None,
) -> type[WorkflowEntrypoint]:
    """Make the class to be named as `class_name` in the wrangler file (Cloudflare: dynamic-workflows).

    Without a loader every instance runs the code that it was pinned to (`wrap_workflow_binding`). `isolation="process"`
    runs it in a process of the tenant's, within `limits`; otherwise it runs in this process, and may do all that this
    process may. `tenant_env` gives what the tenant's class finds in `self.env`, which is empty otherwise; in another
    process only values that can be stored.

    With `load_runner` that decides, at every run: see `dispatch_workflow`. It takes no other options.

    Raises:
        TypeError: options are given with a loader, or limits without a process.
    """
    # As `namedtuple` does it: the class is of the module that calls.
    module: str = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if load_runner is not None:
        if isolation != "none" or limits is not None or tenant_env is not None:
            raise TypeError("A loader of your own decides how code runs: it takes no options.")
        return _with_loader(load_runner, module)
    if limits is not None and isolation != "process":
        raise TypeError('limits are those of a process: they need isolation="process".')
    chosen: dict[str, object] = {
        "__module__": module,
        "isolation": isolation,
        "limits": limits or ProcessLimits(),
        "tenant_env": None if tenant_env is None else staticmethod(tenant_env),
    }
    return type("DynamicWorkflow", (StoredWorkflow,), chosen)


def _with_loader(load_runner: LoadRunner, module: str) -> type[WorkflowEntrypoint]:
    class DynamicWorkflow(WorkflowEntrypoint):
        __module__ = module

        async def run(self, event: JsDict, step: WorkflowStep) -> Any:
            return await dispatch_workflow(self, event, step, load_runner)

    return DynamicWorkflow


class Tenants:
    """Runs the dynamic workflows of a project: over one store, with what is loaded and the processes there are.

    `has_processes` is False where time is virtual: it would not wait for another process, so there all code is loaded here.
    """

    def __init__(self, store: CodeStore, *, has_processes: bool = True) -> None:
        self.store = store
        self._has_processes = has_processes
        self.loaded = LoadedCodes()
        self.processes: list[TenantProcesses] = []

    def program_of(
        self,
        workflow: type[WorkflowEntrypoint],
        ctx: Any,
        env: Any,
        defaults: StepConfig,
        host: Host | None = None,
        *,
        implicit_dependencies: bool = True,
    ) -> Callable[[], Program]:
        """What the engine calls for every incarnation of a workflow class, be it dynamic or not."""
        if not issubclass(workflow, StoredWorkflow):
            return program_of(
                workflow, ctx, env, defaults, host, implicit_dependencies=implicit_dependencies
            )
        if workflow.isolation == "none" or not self._has_processes:
            return lambda: _LocalProgram(self, workflow, env, defaults, host)
        processes = TenantProcesses(workflow.limits)
        self.processes.append(processes)
        return lambda: _ProcessProgram(self, workflow, env, defaults, host, processes)

    async def close(self) -> None:
        """End the processes."""
        for processes in self.processes:
            await processes.close()


class _TenantProgram:
    """One incarnation of an instance whose code comes from the store."""

    def __init__(
        self,
        tenants: Tenants,
        workflow: type[StoredWorkflow],
        env: Any,
        defaults: StepConfig,
        host: Host | None,
    ) -> None:
        self._tenants = tenants
        self._workflow = workflow
        self._env = env
        self._defaults = defaults
        self._host = host

    async def run(self, event: RunEvent, step: StepContext) -> object:
        metadata, params = opened(event.payload)
        if event.code is None:
            raise DynamicCodeNotFoundError(
                "The instance was created without code: give wrap_workflow_binding() name or load."
            )
        make_env = self._workflow.tenant_env
        env = {} if make_env is None else dict(make_env(metadata, self._env))
        own = event._replace(payload=params, instance_id=id_in_scope(event.instance_id))
        return await self._go(scope_of(event.instance_id), event.code, own, env, step)

    async def _go(
        self, tenant: str, code_hash: str, event: RunEvent, env: dict[str, Any], step: StepContext
    ) -> object:
        raise NotImplementedError


class _LocalProgram(_TenantProgram):
    """In this process."""

    async def _go(
        self,
        tenant: str,
        code_hash: str,
        event: RunEvent,
        env: dict[str, Any],
        step: StepContext,
    ) -> object:
        loaded = self._tenants.loaded
        workflow = loaded.find(code_hash)
        if workflow is None:
            code = await self._tenants.store.get(code_hash)
            # Somebody may have loaded it meanwhile.
            workflow = loaded.find(code_hash) or loaded.load(code, code_hash)
        own_env = SimpleNamespace(**env)
        host = None if self._host is None else TenantHost(self._host, tenant)
        program = program_of(workflow, SimpleNamespace(), own_env, self._defaults, host)()
        return await program.run(event, step)


class _ProcessProgram(_TenantProgram):
    """In a process of the tenant's."""

    def __init__(
        self,
        tenants: Tenants,
        workflow: type[StoredWorkflow],
        env: Any,
        defaults: StepConfig,
        host: Host | None,
        processes: TenantProcesses,
    ) -> None:
        super().__init__(tenants, workflow, env, defaults, host)
        self._processes = processes

    async def _go(
        self, tenant: str, code_hash: str, event: RunEvent, env: dict[str, Any], step: StepContext
    ) -> object:
        code = await self._tenants.store.get(code_hash)
        stored_env = values.encode(env, f'the env of tenant "{tenant}"')
        process = await self._processes.of(tenant)
        host = None if self._host is None else TenantHost(self._host, tenant)
        run = RemoteRun(process, tenant, step, self._defaults, host)
        return await run.go(event, code, stored_env)
