"""The measurements: each runs the product as `workflow-emulator dev` runs it, on a file, durable."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.floor import Floor
from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.sqlite import SqliteJournal
from wrangler_compat.config import load_config
from wrangler_compat.project import Project, open_project

WORKER = Path(__file__).parent / "worker"


@asynccontextmanager
async def project(folder: Path) -> AsyncGenerator[Project]:
    """The benchmark's project, on a new file in `folder`."""
    async with open_project(
        load_config(WORKER), SqliteJournal(folder / "journal.sqlite")
    ) as opened:
        yield opened


async def task_us(*, tasks: int) -> float:
    """Microseconds to create a task and await it: how fast this machine runs Python."""
    began = time.perf_counter()
    for _ in range(tasks):
        await asyncio.create_task(_nothing())
    return (time.perf_counter() - began) * 1e6 / tasks


async def many_steps(folder: Path, *, instances: int, steps: int) -> float:
    """Steps a second, of many instances at once."""
    async with project(folder) as opened:
        began = time.perf_counter()
        create = opened.worker.env.STEPS.create
        await asyncio.gather(*(create(params={"steps": steps}) for _ in range(instances)))
        await _complete(opened, "steps", instances)
        return instances * steps / (time.perf_counter() - began)


async def many_steps_floor(folder: Path, *, instances: int, steps: int) -> float:
    """The same work on the floor."""
    async with Floor(folder / "floor.sqlite") as floor:
        began = time.perf_counter()
        await asyncio.gather(*(floor.run(number, steps, _nothing) for number in range(instances)))
        return instances * steps / (time.perf_counter() - began)


async def one_after_another(folder: Path, *, steps: int) -> float:
    """Milliseconds a step, of one instance alone."""
    async with project(folder) as opened:
        await _run_one(opened, 1)
        return await _run_one(opened, steps) * 1000 / steps


async def one_after_another_floor(folder: Path, *, steps: int) -> float:
    """The same work on the floor."""
    async with Floor(folder / "floor.sqlite") as floor:
        began = time.perf_counter()
        await floor.run(1, steps, _nothing)
        return (time.perf_counter() - began) * 1000 / steps


async def wake(folder: Path, *, times: int) -> float:
    """Milliseconds from `send_event` to the completed instance that waited for it; the median."""
    async with project(folder) as opened:
        took: list[float] = []
        for _ in range(times):
            instance = await opened.worker.env.WAITER.create()
            key = InstanceKey("waiter", instance.id)
            await opened.engine.until(key, _is(InstanceStatus.WAITING))
            began = time.perf_counter()
            await instance.send_event(type="answer", payload=1)
            await opened.engine.until(key, _is(InstanceStatus.COMPLETE))
            took.append((time.perf_counter() - began) * 1000)
        return statistics.median(took)


async def sleepers(folder: Path, *, instances: int) -> tuple[float, float, float]:
    """Parked instances: creations a second, bytes of memory each, and the share of a core they use while idle."""
    async with project(folder) as opened:
        await _create_and_park(
            opened, 5_000
        )  # the engine's working memory is there once it has worked
        before = resident_bytes()
        began = time.perf_counter()
        await _create_and_park(opened, instances)
        rate = instances / (time.perf_counter() - began)
        await asyncio.sleep(
            12
        )  # the longest that a parked instance is kept in memory, and a little
        grown = resident_bytes() - before
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.sleep(3)
        return rate, grown / instances, (time.process_time() - cpu) / (time.perf_counter() - wall)


def dev_start(folder: Path) -> float:
    """Seconds from starting `dev` to the answer of a request that runs an instance to its end."""
    command = [
        sys.executable,
        "-m",
        "wrangler_compat.cli.main",
        "dev",
        str(WORKER),
        "--port",
        "8919",
    ]
    began = time.perf_counter()
    server = subprocess.Popen(
        [*command, "--persist-to", str(folder)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        with httpx.Client() as client:
            while True:
                try:
                    client.get("http://127.0.0.1:8919/").raise_for_status()
                except httpx.ConnectError:
                    time.sleep(0.005)
                else:
                    return time.perf_counter() - began
    finally:
        server.terminate()
        server.wait()


IN_PROCESS = """
import asyncio, sys
from pathlib import Path
from bindings import Workflow, WorkflowEntrypoint
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock

class Hello(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("hello")
        async def hello():
            return "hello"
        return await hello()

async def main():
    definition = WorkflowDefinition("hello", program_of(Hello, None, None))
    engine = Engine(SqliteJournal(Path(sys.argv[1])), SystemClock(), [definition])
    await engine.start()
    instance = await Workflow(EngineHost(engine), "hello").create()
    while (await instance.status())["status"] != "complete":
        pass
    await engine.close()

asyncio.run(main())
"""


def in_process_start(folder: Path) -> float:
    """Seconds of a whole process that runs one instance on an engine of its own."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", IN_PROCESS, str(folder / "journal.sqlite")], check=True)
    return time.perf_counter() - began


async def _nothing() -> object:
    return {"done": True}


def _is(wanted: InstanceStatus):
    def reached(state: InstanceState) -> bool | None:
        return state.status is wanted or None

    return reached


async def _run_one(opened: Project, steps: int) -> float:
    """Run one instance of so many steps; gives the seconds that its `run()` took."""
    steps_class: Any = opened.classes["Steps"]
    spans: list[float] = steps_class.spans
    spans.clear()
    await opened.worker.env.STEPS.create(params={"steps": steps})
    while not spans:
        await asyncio.sleep(0.01)
    return spans[0]


async def _complete(opened: Project, workflow: str, instances: int) -> None:
    while (await opened.engine.journal.status_counts(workflow)).get(
        InstanceStatus.COMPLETE, 0
    ) < instances:
        await asyncio.sleep(0.01)


async def _create_and_park(opened: Project, instances: int) -> None:
    counts = opened.engine.journal.status_counts
    wanted = (await counts("waiter")).get(InstanceStatus.WAITING, 0) + instances
    for begin in range(0, instances, 1_000):
        many = min(1_000, instances - begin)
        await asyncio.gather(*(opened.worker.env.WAITER.create() for _ in range(many)))
    while (await counts("waiter")).get(InstanceStatus.WAITING, 0) < wanted:
        await asyncio.sleep(0.05)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
