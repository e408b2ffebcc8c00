"""How long an attempt may take, when the process has stood still meanwhile and when it has not."""

from __future__ import annotations

import pytest

from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.instance import Creation
from emulator.domain.steps import StepKey, StepKind
from emulator.domain.values import encode
from emulator.engine.attempts import STANDSTILL_MS, Attempt, Raised, Verdict
from emulator.engine.step_code import AttemptContext, StepCode
from emulator.testing.clock import LoopClock
from emulator.timing.alarm import Timers
from tests.unit.bindings.project import in_virtual_time, pause_for

CREATION = Creation("shop", "o-1", encode({}, "params"), 0)
CONFIG = StepConfig(RetryConfig(limit=0, delay=0), timeout="10 seconds")
CONTEXT = AttemptContext(StepKey(StepKind.DO, "a", 1), 1, CONFIG, CREATION)
DONE = encode("done", "result")


class Watched:
    """An attempt whose callback takes some seconds, and the verdict on it."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.clock = LoopClock()
        self.verdicts: list[Verdict] = []
        self._seconds = seconds
        self._error = error
        self._attempt = Attempt(
            CONTEXT, StepCode(self._call), CONTEXT, Timers(self.clock), self._hear
        )

    @property
    def is_timed_out(self) -> bool:
        """Whether the verdict is that it took too long."""
        [verdict] = self.verdicts
        return isinstance(verdict, Raised) and verdict.failure.name == "WorkflowTimeoutError"

    async def _call(self, _: object) -> str:
        await pause_for(self._seconds)
        if self._error is not None:
            raise self._error
        return "done"

    def _hear(self, _: Attempt, verdict: Verdict) -> None:
        self.verdicts.append(verdict)


@in_virtual_time
async def test_an_attempt_that_takes_too_long_times_out() -> None:
    watched = Watched(seconds=60)
    await pause_for(9.9)
    assert watched.verdicts == []
    await pause_for(0.2)
    assert watched.is_timed_out


@pytest.mark.parametrize("error", [None, OSError("too late")])
@in_virtual_time
async def test_what_comes_of_an_attempt_after_its_time_is_no_second_verdict(
    error: Exception | None,
) -> None:
    watched = Watched(seconds=60, error=error)
    await pause_for(100)
    assert watched.is_timed_out


@in_virtual_time
async def test_time_in_which_the_process_stood_still_is_no_time_of_the_attempt() -> None:
    watched = Watched(seconds=12)
    await pause_for(5)
    watched.clock.skew(3_600_000)  # as a debugger does that holds it for an hour
    await pause_for(8)
    assert watched.verdicts == [DONE]


@in_virtual_time
async def test_after_a_standstill_an_attempt_has_its_time_anew_and_no_more() -> None:
    watched = Watched(seconds=60)
    await pause_for(5)
    watched.clock.skew(3_600_000)
    await pause_for(9.9)
    assert watched.verdicts == []
    await pause_for(0.2)
    assert watched.is_timed_out


@in_virtual_time
async def test_a_loop_that_is_a_little_late_is_no_standstill() -> None:
    watched = Watched(seconds=60)
    await pause_for(5)
    watched.clock.skew(5_000 + STANDSTILL_MS)
    await pause_for(0.1)
    assert watched.is_timed_out
