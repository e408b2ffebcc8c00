"""Expiry: what those who run notice of many finished instances that go.

The journal is filled directly, as the engine would have left it: instances that ended long ago. Then one instance after
another is run, first with history that is kept and then with history that goes, on the same file.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from emulator.domain.entries import (
    Entry,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
    WorkflowSucceeded,
)
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.limits import DAY_MS
from emulator.domain.status import InstanceStatus
from emulator.engine.engine import Engine
from emulator.engine.programs import RunEvent, WorkflowDefinition
from emulator.engine.steps import StepContext
from emulator.journal.port import Commit, EntryRow, InstanceRow
from emulator.journal.sqlite import SqliteJournal
from emulator.timing.clock import SystemClock

PER_COMMIT = 5_000
NULL = msgspec.Raw(b"null")
HISTORY = (WorkflowQueued(), WorkflowStarted(), WorkflowRunning(), WorkflowSucceeded(NULL))


class Expiry(NamedTuple):
    """Milliseconds from `create` to the end of an instance, while nothing and while everything expires."""

    quiet_median_ms: float
    quiet_p99_ms: float
    busy_median_ms: float
    busy_p99_ms: float
    removed_a_second: float
    file_before_bytes: int
    file_after_bytes: int


class _Program:
    async def run(self, event: RunEvent, step: StepContext) -> object:
        return None


async def expiry(folder: Path, *, finished: int, seconds: float = 5) -> Expiry:
    """Let `finished` instances expire while others run; before, others run for some seconds undisturbed."""
    path = folder / "journal.sqlite"
    await fill(path, finished)
    quiet, _ = await _run_others(path, keep_all=True, seconds=seconds)
    before_bytes = path.stat().st_size
    busy, took_s = await _run_others(path, keep_all=False, seconds=0)
    await _shrink(path)
    after_bytes = path.stat().st_size
    return Expiry(*_figures(quiet), *_figures(busy), finished / took_s, before_bytes, after_bytes)


async def fill(path: Path, finished: int) -> None:
    """Write a journal of instances whose time is up."""
    journal = SqliteJournal(path)
    await journal.open()
    for start in range(1, finished + 1, PER_COMMIT):
        numbers = range(start, min(start + PER_COMMIT, finished + 1))
        entries = [
            EntryRow(number, seq, Entry(0, None, fact))
            for number in numbers
            for seq, fact in enumerate(HISTORY, start=1)
        ]
        await journal.commit(Commit(created=[_row(number) for number in numbers], entries=entries))
    await journal.close()


def _row(number: int) -> InstanceRow:
    creation = Creation("work", f"finished-{number}", NULL, 0)
    return InstanceRow(number, creation, InstanceStatus.COMPLETE, 0, 0, 0, expires_ms=number)


async def _run_others(path: Path, *, keep_all: bool, seconds: float) -> tuple[list[float], float]:
    """Run instances one after another, for some seconds or until all are gone whose time is up."""
    journal = SqliteJournal(path)
    engine = Engine(
        journal, SystemClock(), [WorkflowDefinition("work", _Program)], keep_all=keep_all
    )
    await engine.start()
    latencies: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds or (not keep_all and await _are_left(journal)):
        latencies += [await _run_one(engine) for _ in range(20)]
    took_s = time.perf_counter() - began
    await engine.close()
    return latencies, took_s


async def _run_one(engine: Engine) -> float:
    began = time.perf_counter()
    key = InstanceKey("work", str(uuid4()))
    await engine.create([Creation(key.workflow, key.id, NULL, engine.now_ms())], may_be_taken=False)
    await engine.until(key, lambda state: state.is_terminal or None)
    return (time.perf_counter() - began) * 1000


async def _are_left(journal: SqliteJournal) -> bool:
    return bool(await journal.expired(DAY_MS, 1))


async def _shrink(path: Path) -> None:
    """Start once more, with nothing to do, and wait until the file has given its room back."""
    journal = SqliteJournal(path)
    engine = Engine(journal, SystemClock(), [WorkflowDefinition("work", _Program)])
    await engine.start()
    await asyncio.sleep(1)
    while await journal.shrink(1):
        await asyncio.sleep(0.1)
    await engine.close()


def _figures(latencies: list[float]) -> tuple[float, float]:
    return statistics.median(latencies), statistics.quantiles(latencies, n=100)[-1]
