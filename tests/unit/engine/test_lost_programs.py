"""Programs whose code runs elsewhere: it may be lost, and it takes its time to react."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from emulator.core.losses import MOST_LOSSES
from emulator.core.state import InstanceState
from emulator.domain.config import DYNAMIC_DELAY, RetryConfig, StepConfig
from emulator.domain.entries import AttemptFailed, StepSucceeded
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.engine.engine import Engine
from emulator.engine.programs import Program, RunEvent, WorkflowDefinition
from emulator.engine.step_code import AttemptContext, StepCode
from emulator.engine.steps import StepContext
from emulator.errors import ProgramLost
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import StoredInstance
from emulator.testing.clock import LoopClock
from tests.unit.bindings.project import in_virtual_time, pause_for

KEY = InstanceKey("w", "1")
CONFIG = StepConfig(RetryConfig(limit=5, delay=100), timeout=60_000)
COMPUTED = StepConfig(RetryConfig(limit=5, delay=DYNAMIC_DELAY), timeout=60_000)


def unwanted(context: AttemptContext, error: BaseException) -> object:
    raise AssertionError("nobody asks for a delay")


def told_attempt(context: AttemptContext) -> object:
    return context.attempt


class Killer:
    """Its process ends in the first `deaths` attempts of its only step."""

    deaths = 1
    config = CONFIG

    async def run(self, event: RunEvent, step: StepContext) -> object:
        def callback(context: AttemptContext) -> int:
            if context.attempt <= self.deaths:
                raise ProgramLost("it ended with exit code 3")
            return context.attempt

        return await step.do("kill", StepCode(callback, delay=unwanted), self.config)


class ComputingKiller(Killer):
    """Its delays are computed; not for a process that has ended."""

    config = COMPUTED


class Hopeless:
    """Its process ends before it has done anything."""

    async def run(self, event: RunEvent, step: StepContext) -> object:
        raise ProgramLost("it ended with exit code 3")


@asynccontextmanager
async def running(program: Callable[[], Program]) -> AsyncGenerator[tuple[Engine, MemoryJournal]]:
    journal = MemoryJournal()
    engine = Engine(journal, LoopClock(), [WorkflowDefinition(KEY.workflow, program)])
    await engine.start()
    creation = Creation(*KEY, msgspec.Raw(b"null"), engine.now_ms())
    await engine.create([creation], may_be_taken=False)
    yield engine, journal
    await engine.close()


def finished(state: InstanceState) -> InstanceState | None:
    return state if state.is_terminal else None


@pytest.mark.parametrize("program", [Killer, ComputingKiller])
@in_virtual_time
async def test_an_attempt_that_is_lost_with_its_process_is_made_again(
    program: type[Killer],
) -> None:
    async with running(program) as (engine, journal):
        state = await engine.until(KEY, finished)
        assert state.status is InstanceStatus.COMPLETE
        assert state.output == msgspec.Raw(b"2")
        stored = (await journal.load([KEY]))[KEY]
        assert isinstance(stored, StoredInstance)
        errors = [e.fact.error for _, e in stored.entries if isinstance(e.fact, AttemptFailed)]
        assert [(each.name, each.message) for each in errors] == [
            ("ProgramLost", "it ended with exit code 3")
        ]


@in_virtual_time
async def test_code_that_ends_its_process_every_time_fails_its_instance() -> None:
    starts: list[Hopeless] = []

    def program() -> Hopeless:
        starts.append(Hopeless())
        return starts[-1]

    async with running(program) as (engine, _):
        state = await engine.until(KEY, finished)
        assert state.status is InstanceStatus.ERRORED
        assert state.error is not None
        assert (state.error.name, state.error.message) == (
            "ProgramLost",
            "it ended with exit code 3",
        )
        assert len(starts) == MOST_LOSSES + 1


@in_virtual_time
async def test_outcomes_are_handed_over_once_slow_code_has_reacted() -> None:
    seen: list[str] = []

    class Slow:
        """Reacts to its first outcome after a minute."""

        async def run(self, event: RunEvent, step: StepContext) -> object:
            async def one(name: str) -> None:
                await step.do(name, StepCode(told_attempt), CONFIG)
                release = step.hold()
                seen.append(name)
                await pause_for(60)
                seen.append(f"{name} over")
                release()

            await asyncio.gather(one("a"), one("b"))
            return None

    async with running(Slow) as (engine, journal):
        await engine.until(KEY, finished)
        assert seen == ["a", "a over", "b", "b over"]
        stored = (await journal.load([KEY]))[KEY]
        assert isinstance(stored, StoredInstance)
        ends = [e.at_ms for _, e in stored.entries if isinstance(e.fact, StepSucceeded)]
        assert max(ends) - min(ends) < 60_000, "both had ended long before"
