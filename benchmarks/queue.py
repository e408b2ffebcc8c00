"""The queue: many instances before few slots, on a file.

What it must show: memory does not grow with those who wait, and a start of the emulator does not take longer for them.
"""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from emulator.domain.instance import Creation, InstanceKey
from emulator.engine.engine import Engine
from emulator.engine.programs import RunEvent, WorkflowDefinition
from emulator.engine.steps import StepContext
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock

PER_COMMIT = 1_000
NAME = "work"


class Queue(NamedTuple):
    """Figures of a queue. `bytes_a_waiting` is by how much the peak of memory grows for each one after the first tenth."""

    created_a_second: float
    bytes_a_waiting: float
    restart_s: float
    finished_a_second: float


async def queue(folder: Path, *, waiting: int, slots: int = 100) -> Queue:
    """Let `waiting` instances stand before `slots`, start anew, and let them all through."""
    path, gate = folder / "journal.sqlite", asyncio.Event()
    engine = await _start(path, slots, gate)
    began = time.perf_counter()
    await _create(engine, waiting // 10)
    first_bytes = _peak_bytes()
    last = await _create(engine, waiting - waiting // 10)
    created_s = time.perf_counter() - began
    growth_bytes = _peak_bytes() - first_bytes
    await engine.close()
    began = time.perf_counter()
    engine = await _start(path, slots, gate)
    await engine.read(last, lambda state: state.status)
    restart_s = time.perf_counter() - began
    began = time.perf_counter()
    gate.set()
    await engine.until(last, lambda state: state.is_terminal or None)
    finished_s = time.perf_counter() - began
    await engine.close()
    return Queue(
        waiting / created_s,
        growth_bytes / (waiting - waiting // 10),
        restart_s,
        waiting / finished_s,
    )


class _Program:
    """Holds its slot until the gate is open."""

    def __init__(self, gate: asyncio.Event) -> None:
        self._gate = gate

    async def run(self, event: RunEvent, step: StepContext) -> object:
        await self._gate.wait()
        return None


async def _start(path: Path, slots: int, gate: asyncio.Event) -> Engine:
    definition = WorkflowDefinition(NAME, lambda: _Program(gate), concurrency_limit=slots)
    engine = Engine(SqliteJournal(path), SystemClock(), [definition])
    await engine.start()
    return engine


async def _create(engine: Engine, many: int) -> InstanceKey:
    """Create instances; the key of the last."""
    key = InstanceKey(NAME, "none")
    for start in range(0, many, PER_COMMIT):
        creations = [
            Creation(NAME, str(uuid4()), msgspec.Raw(b"{}"), engine.now_ms())
            for _ in range(min(PER_COMMIT, many - start))
        ]
        await engine.create(creations, may_be_taken=False)
        key = creations[-1].key
    return key


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
