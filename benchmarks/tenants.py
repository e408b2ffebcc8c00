"""Many tenants with many versions: what a cold start of one costs, and whether memory grows with those there are.

The code of all tenants is in the file only; what is loaded is bounded. Every version of every tenant is a code of its own.
The floor of a start is the same workflow as the project's own, already imported.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.measure import resident_bytes
from bindings import Workflow, WorkflowEntrypoint
from bindings.dynamic import CodeStore, create_dynamic_workflow_entrypoint, wrap_workflow_binding
from bindings.dynamic.tenants import Tenants
from bindings.host import EngineHost
from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock

CODE = '''
"""The billing of tenant {tenant}, version {version}."""

from dataclasses import dataclass

from bindings import WorkflowEntrypoint

RATES = {{number: number * {version} for number in range(200)}}


@dataclass
class Line:
    cents: int
    text: str


class Billing(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("bill")
        async def bill():
            line = Line(RATES[7], "{tenant}")
            return [line.cents, line.text]

        return await bill()
'''


class Plain(WorkflowEntrypoint):
    """The same work, as a class of the project."""

    async def run(self, event: Any, step: Any) -> Any:
        @step.do("bill")
        async def bill() -> Any:
            return [7, "plain"]

        return await bill()


class TenantFigures(NamedTuple):
    """Milliseconds from `create` to the end of an instance; bytes by which memory grows for each tenant after the first half."""

    published_a_second: float
    plain_ms: float
    warm_ms: float
    cold_ms: float
    cold_p99_ms: float
    bytes_a_tenant: float
    process_cold_ms: float
    process_warm_ms: float


async def tenants(folder: Path, *, many: int, versions: int) -> TenantFigures:
    """Publish all, then run an instance of the newest version for each tenant, cold, and again, warm."""
    engine, runner = _engine(folder)
    await engine.start()
    host = EngineHost(engine)
    store = runner.store
    began = time.perf_counter()
    for number in range(many):
        for version in range(1, versions + 1):
            code = CODE.format(tenant=f"t{number}", version=version)
            await store.publish(f"t{number}", "billing", f"v{version}", code)
    published_a_second = many * versions / (time.perf_counter() - began)
    plain = [await _run(Workflow(host, "plain")) for _ in range(200)]
    local = Workflow(host, "local")
    cold: list[float] = []
    before = 0
    for number in range(many):
        if number == many // 2:
            before = _resident_bytes()
        cold.append(await _run(_wrapped(local, number)))
    grown = _resident_bytes() - before
    warm = [await _run(_wrapped(local, many - 1)) for _ in range(200)]
    apart = Workflow(host, "apart")
    process_cold = [await _run(_wrapped(apart, number)) for number in range(5)]
    process_warm = [await _run(_wrapped(apart, 4)) for _ in range(50)]
    await engine.close()
    await runner.close()
    return TenantFigures(
        published_a_second,
        statistics.median(plain),
        statistics.median(warm),
        statistics.median(cold),
        statistics.quantiles(cold, n=100)[-1],
        grown / (many - many // 2),
        statistics.median(process_cold),
        statistics.median(process_warm),
    )


def _engine(folder: Path) -> tuple[Engine, Tenants]:
    journal, clock = SqliteJournal(folder / "journal.sqlite"), SystemClock()
    runner = Tenants(CodeStore(journal.codes, clock.now_ms))
    classes: dict[str, type[WorkflowEntrypoint]] = {
        "plain": Plain,
        "local": create_dynamic_workflow_entrypoint(),
        "apart": create_dynamic_workflow_entrypoint(isolation="process"),
    }
    definitions = [
        WorkflowDefinition(
            name,
            runner.program_of(workflow, SimpleNamespace(), None, PRODUCTION_DEFAULTS),
        )
        for name, workflow in classes.items()
    ]
    return Engine(journal, clock, definitions), runner


def _wrapped(binding: Workflow, number: int) -> Workflow:
    return wrap_workflow_binding({"tenant": f"t{number}"}, binding=binding, name="billing")


def _resident_bytes() -> int:
    """Without modules that are garbage already: their functions refer to them."""
    gc.collect()
    return resident_bytes()


async def _run(binding: Workflow) -> float:
    """Run one instance; how many milliseconds that took."""
    began = time.perf_counter()
    instance = await binding.create()
    while (await instance.status())["status"] != "complete":
        await asyncio.sleep(0)
    return (time.perf_counter() - began) * 1000
