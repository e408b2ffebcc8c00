"""A process that dies before or after any of its commits, while `run()` and a step write."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from bindings import Workflow, WorkflowEntrypoint, WorkflowInstance, WorkflowStep
from bindings.entrypoint import program_of
from bindings.host import EngineHost
from bindings.testing import simulate
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.errors import EngineStopped
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, Journal
from emulator.testing.clock import LoopClock
from emulator.testing.faults import Crash, Fault, FaultKind, FaultyJournal
from tests.unit.bindings.project import AT_ONCE, in_virtual_time, workflow_class

KEY = InstanceKey("writes", "one")


class Told:
    """What each attempt has been told that it has written, in all processes."""

    def __init__(self) -> None:
        self.chunks: set[tuple[int, int]] = set()

    async def run(self, event: JsDict, step: WorkflowStep) -> None:
        writable = step.get_writable()

        @step.do("write", config=AT_ONCE)
        async def write(ctx: JsDict) -> None:
            for number in range(3):
                await writable.write(number)
                self.chunks.add((number, ctx["attempt"]))

        @step.do("pages", config=AT_ONCE)
        async def pages() -> Any:
            yield b"page 1"
            yield b"page 2"

        await writable.write("first")
        await asyncio.gather(write(), writable.write("beside"))
        async for page in await pages():
            await writable.write(page)
        await writable.close()


async def nothing(_: Commit) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER])
def test_nothing_is_lost_and_what_run_writes_is_there_once(kind: FaultKind) -> None:
    deaths = 0
    for commit in count(1):
        if not crash_and_look(Fault(kind, commit, 1)):
            break
        deaths += 1
    assert deaths > 15


def crash_and_look(fault: Fault) -> bool:
    """Let one process meet the fault and a second one finish; whether the first one has met it."""
    has_met: list[bool] = []

    @in_virtual_time
    async def play() -> None:
        told, inner = Told(), MemoryJournal()
        journal = FaultyJournal(inner, [2], fault, nothing, lambda: None, lambda: None)
        first = engine_of(told, journal)
        await first.start()
        try:
            await Workflow(EngineHost(first), "writes").create(id="one")
            await first.until(KEY, lambda state: state.is_terminal or None)
        except (EngineStopped, Crash):
            has_met.append(True)
        with suppress(Crash):
            await first.close()
        second = engine_of(told, inner)
        await second.start()
        workflow = Workflow(EngineHost(second), "writes")
        if await inner.row(KEY) is None:
            await workflow.create(id="one")
        await second.until(KEY, lambda state: state.is_terminal or None)
        await look(WorkflowInstance(EngineHost(second), KEY), told)
        await second.close()

    play()
    return bool(has_met)


async def look(instance: WorkflowInstance, told: Told) -> None:
    assert (await instance.status()).status == "complete"
    records = [each async for each in instance.readable().records()]
    assert [each.index for each in records] == list(range(len(records)))
    of_run = [each.value for each in records if each.step is None]
    assert of_run == ["first", "beside", b"page 1", b"page 2"]
    of_step = [(each.value, each.attempt) for each in records if each.step == "write-1"]
    assert len(of_step) == len(set(of_step)) == len(records) - len(of_run)
    assert told.chunks <= set(of_step)
    last = max(attempt for _, attempt in of_step)
    assert [number for number, attempt in of_step if attempt == last] == [0, 1, 2]


def engine_of(told: Told, journal: Journal) -> Engine:
    program = program_of(workflow_class(told.run), None, None)
    return Engine(journal, LoopClock(), [WorkflowDefinition("writes", program)])


class Writes(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        writable = step.get_writable()

        @step.do("write")
        async def write() -> None:
            await writable.write("chunk")

        @step.do("pages")
        async def pages() -> Any:
            yield b"page"

        await writable.write("first")
        await write()
        await step.sleep("nap", "1 hour")
        await writable.write("last")
        return [page async for page in await pages()]


def test_a_simulation_finds_nothing_to_say_about_streams() -> None:
    report = simulate(Writes, seeds=60)
    assert not report.findings, str(report)
