"""Given, when, then: how the tables about the core are written.

    given(wait("w"), WaitStarted(...)).when(TimerFired(...)).then(...)

What an instance has been through is given as entries, or as the inputs that led there. `then` names all that the last
input led to: entries, about a step if it is named before them, and effects. Beside the state a case keeps what a journal
would have stored, and after every input both must agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from emulator.core.decide import decide
from emulator.core.decision import Decision
from emulator.core.effects import Effect, InvokeAttempt, RequestSlot, ResolveStep, StartRun
from emulator.core.evolve import fold
from emulator.core.inputs import (
    AttemptRaised,
    AttemptReturned,
    CreateRequested,
    DoRequested,
    Input,
    RunInput,
    SleepRequested,
    SlotGranted,
    SlotRefused,
    StepAbandoned,
    WaitRequested,
)
from emulator.core.state import InstanceState
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import (
    ROLLBACK_EVENTS,
    STEP_KINDS,
    Entry,
    Fact,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
)
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord, HookStage
from emulator.domain.instance import Creation
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import EmulatorError

LIVE = -1
"""The incarnation that lives now, whatever its number."""

CREATION = Creation("orders", "1001", msgspec.Raw(b"null"), created_ms=0)
BOOM = Failure("Error", "boom")
CONFIG = StepConfig(RetryConfig(limit=2, delay=100, backoff="constant"), timeout=1_000)
ONCE = StepConfig(RetryConfig(limit=0, delay=100), timeout=1_000)
AT_ONCE = StepConfig(RetryConfig(limit=3, delay=0), timeout=1_000)
ONE = msgspec.Raw(b"1")
NULL = msgspec.Raw(b"null")


def do(name: str, count: int = 1) -> StepKey:
    return StepKey(StepKind.DO, name, count)


def sleep(name: str, count: int = 1) -> StepKey:
    return StepKey(StepKind.SLEEP, name, count)


def wait(name: str, count: int = 1) -> StepKey:
    return StepKey(StepKind.WAIT, name, count)


def asks_do(
    name: str, config: StepConfig = CONFIG, rollback: StepConfig | None = None
) -> DoRequested:
    return DoRequested(LIVE, do(name), config, rollback)


def asks_sleep(name: str, duration_ms: int = 1_000) -> SleepRequested:
    return SleepRequested(LIVE, sleep(name), duration_ms)


def asks_sleep_until(name: str, until_ms: int) -> SleepRequested:
    return SleepRequested(LIVE, sleep(name), until_ms=until_ms)


def asks_wait(name: str, event_type: str = "paid", timeout_ms: int = 1_000) -> WaitRequested:
    return WaitRequested(LIVE, wait(name), event_type, timeout_ms)


def abandons(step: StepKey) -> StepAbandoned:
    return StepAbandoned(LIVE, step)


def returns(name: str, attempt: int = 1, result: msgspec.Raw = ONE) -> AttemptReturned:
    return AttemptReturned(LIVE, do(name), attempt, result)


def raises(name: str, attempt: int = 1, *, retryable: bool = True) -> AttemptRaised:
    return AttemptRaised(LIVE, do(name), attempt, BOOM, retryable)


@dataclass
class Stored:
    """What the journal holds of the instance, by the words of `journal.port.Commit`."""

    entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    timers: dict[StepKey, int] = field(default_factory=dict[StepKey, int])
    taken: list[int] = field(default_factory=list[int])
    hooks: dict[str, HookRecord] = field(default_factory=dict[str, HookRecord])
    is_deleted: bool = False

    def commit(self, decision: Decision) -> None:
        if decision.cut_made:
            self.entries = {
                seq: entry
                for seq, entry in self.entries.items()
                if _survives(entry, decision.cut_steps)
            }
        for seq, entry in decision.entries:
            assert seq not in self.entries, "an entry is written once"
            assert seq > max(self.entries, default=0), "numbers grow"
            self.entries[seq] = entry
        for seq in decision.taken:
            del self.entries[seq]
        self.taken += decision.taken
        if decision.timers_cleared:
            self.timers.clear()
        for step, due_ms in decision.timers.items():
            if due_ms is None:
                self.timers.pop(step, None)
            else:
                self.timers[step] = due_ms
        for hook_id, record in decision.hooks.items():
            self.hooks.pop(hook_id, None)
            if record.stage is not HookStage.RELEASED:
                self.hooks[hook_id] = record
        self.is_deleted |= decision.deleted

    def fold(self) -> InstanceState:
        return fold(CREATION, sorted(self.entries.items()))

    def check(self, state: InstanceState) -> None:
        """The laws of fold, of hooks and of timers."""
        assert self.fold() == state
        assert self.hooks == ({} if self.is_deleted else _hooks_held(state))
        assert self.timers.items() <= _deadlines(state).items()
        if state.status not in (InstanceStatus.PAUSED, InstanceStatus.WAITING_FOR_PAUSE):
            missing = _deadlines(state).keys() - self.timers.keys()
            # A retry that is due is not armed any more: it starts when it is asked for.
            assert all(step.kind is StepKind.DO for step in missing)


def _hooks_held(state: InstanceState) -> dict[str, HookRecord]:
    stages = {hook.hook_id: hook.stage(state.ended_ms) for hook in state.hooks.values()}
    return {
        hook_id: state.hooks[hook_id].record(CREATION, stage)
        for hook_id, stage in stages.items()
        if stage is not HookStage.RELEASED
    }


def _deadlines(state: InstanceState) -> dict[StepKey, int]:
    if state.status is InstanceStatus.PAUSED or state.is_terminal:
        return {}
    if state.status is InstanceStatus.ROLLING_BACK:
        rollback = state.rollback
        if rollback is None or rollback.current is None or rollback.due_ms is None:
            return {}
        return {rollback.current: rollback.due_ms}
    return {step.key: step.due_ms for step in state.open.values() if step.due_ms is not None}


def _survives(entry: Entry, cut: frozenset[StepKey] | None) -> bool:
    if cut is None or entry.fact.event in ROLLBACK_EVENTS:
        return False
    if entry.step is None:
        return isinstance(entry.fact, WorkflowQueued | WorkflowStarted)
    return entry.step not in cut


Line: TypeAlias = StepKey | Fact | Effect
"""Of an expectation: an entry's fact (about the step named before it, for facts about steps), or an effect."""


class Case:
    """An instance, what is stored of it, and what its last input led to."""

    def __init__(self, state: InstanceState, stored: Stored) -> None:
        self.state = state
        self.stored = stored
        self.now_ms = state.modified_ms
        self.last = Decision(state, self.now_ms)

    def at(self, now_ms: int) -> Case:
        """Let time pass until then."""
        self.now_ms = now_ms
        return self

    def when(self, *items: Input) -> Case:
        """Decide on inputs, one after the other."""
        for item in items:
            spoken = item
            if isinstance(item, RunInput) and item.incarnation == LIVE:
                spoken = msgspec.structs.replace(item, incarnation=self.state.life.incarnation)
            self.last = decide(self.state, spoken, self.now_ms)
            if self.last.refusal is not None:
                assert not [*self.last.entries, *self.last.effects, *self.last.timers]
                assert not self.last.hooks
            self.stored.commit(self.last)
            self.stored.check(self.state)  # so a refused decision has changed nothing
        return self

    def and_slot(self) -> Case:
        """Grant the slot that the last input asked for."""
        assert any(isinstance(effect, RequestSlot) for effect in self.last.effects)
        return self.when(SlotGranted())

    def and_no_slot(self) -> Case:
        """Refuse the slot that the last input asked for."""
        assert any(isinstance(effect, RequestSlot) for effect in self.last.effects)
        return self.when(SlotRefused())

    def then(self, *expected: Line) -> Case:
        """All that the last input led to, in order: entries, then effects."""
        lines: list[Line] = []
        last_step: StepKey | None = None
        for _, entry in self.last.entries:
            if entry.step is not None and entry.step != last_step:
                lines.append(entry.step)
            last_step = entry.step
            lines.append(entry.fact)
        assert self.last.refusal is None
        assert [*lines, *self.last.effects] == list(expected)
        return self

    def then_nothing(self) -> Case:
        """The last input was stale, or changes nothing."""
        assert not self.last.timers
        return self.then()

    def then_refused(self, error: type[EmulatorError]) -> Case:
        """The rules refuse the last input."""
        assert type(self.last.refusal) is error
        return self

    def then_status(self, status: InstanceStatus) -> Case:
        assert self.state.status is status
        return self

    def then_armed(self, **due_ms: int) -> Case:
        """The deadlines that are stored now, by the names of their steps."""
        assert {step.name: at_ms for step, at_ms in self.stored.timers.items()} == due_ms
        return self

    def crash(self) -> Case:
        """End the process: what is stored is all that is left."""
        self.state = self.stored.fold()
        return self

    # what was said last

    @property
    def resolved(self) -> list[StepKey]:
        """The steps whose outcome the last input handed to the code."""
        return [each.step for each in self.last.effects if isinstance(each, ResolveStep)]

    @property
    def invoked(self) -> list[tuple[StepKey, int]]:
        """The attempts that the last input started."""
        effects = self.last.effects
        return [(each.step, each.attempt) for each in effects if isinstance(each, InvokeAttempt)]

    @property
    def started(self) -> bool:
        """Whether the last input started a run."""
        return any(isinstance(effect, StartRun) for effect in self.last.effects)


def given(*lines: StepKey | Fact, at_ms: int = 0) -> Case:
    """An instance whose journal holds these entries; nothing of it is in memory."""
    stored = Stored()
    step: StepKey | None = None
    for line in lines:
        if isinstance(line, StepKey):
            step = line
        else:
            about = step if line.event in STEP_KINDS else None
            stored.entries[len(stored.entries) + 1] = Entry(at_ms, about, line)
    return Case(stored.fold(), stored)


def running() -> Case:
    """An instance that runs, and whose code has asked for nothing yet."""
    case = given().when(CreateRequested()).and_slot()
    assert isinstance(case.last.entries[-1][1].fact, WorkflowRunning)
    return case
