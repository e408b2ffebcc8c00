"""A law that cannot fail is worthless: each one catches the violation that is planted for it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from emulator.core.evolve import fold
from emulator.core.state import InstanceState
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    Entry,
    EventReceived,
    Fact,
    RollbackAttemptStarted,
    RollbackCompleted,
    RollbackFailed,
    RollbackStarted,
    RollbackStepFailed,
    RollbackStepStarted,
    RollbackStepSucceeded,
    SleepCompleted,
    SleepStarted,
    StepStarted,
    StepSucceeded,
    WaitCompleted,
    WaitStarted,
    WaitTimedOut,
    WorkflowFailed,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
    WorkflowSucceeded,
    WorkflowTerminated,
    WorkflowWaiting,
)
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.engine import outcomes
from emulator.engine.admission import Admission
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.port import Commit, Cut, EntryRow, InstanceRow
from emulator.testing.laws import answers, hooks, instances, moments, steps
from emulator.testing.laws.breach import LawBroken
from emulator.testing.scripts import winner_step
from emulator.testing.simulation import LAWS, Simulation, SimulationFailed
from emulator.testing.trace import (
    Answered,
    Asked,
    CommitReturned,
    Committed,
    Invoked,
    ProcessEnded,
    ProcessStarted,
    Trace,
)

KEY = InstanceKey("orders", "1")
CREATION = Creation("orders", "1", msgspec.Raw(b"null"), 0)
CHARGE = StepKey(StepKind.DO, "charge", 1)
SHIP = StepKey(StepKind.DO, "ship", 1)
NAP = StepKey(StepKind.SLEEP, "nap", 1)
PAID = StepKey(StepKind.WAIT, "paid", 1)
CONFIG = StepConfig(RetryConfig(1, 100), 1_000)
ERROR = Failure("RuntimeError", "no")
TIMEOUT = Failure("WorkflowTimeoutError", "late")
DONE = msgspec.Raw(b"1")
Law = Callable[[Trace], None]


class History:
    """A trace in the making: one instance that has been created, and runs in process 1."""

    def __init__(self, *begun: Fact) -> None:
        self.trace = Trace()
        self.now_ms = 0
        self._seq = 0
        self.trace.add(ProcessStarted(1))
        row = InstanceRow(1, CREATION, InstanceStatus.QUEUED, 0)
        self.commit(Commit(created=[row]))
        for fact in begun or (WorkflowQueued(), WorkflowStarted(), WorkflowRunning()):
            self.then(fact)

    def then(self, fact: Fact, step: StepKey | None = None, *, after_ms: int = 0) -> History:
        self.now_ms += after_ms
        self._seq += 1
        entry = Entry(self.now_ms, step, fact)
        return self.commit(Commit(entries=[EntryRow(1, self._seq, entry)]))

    def commit(self, commit: Commit) -> History:
        self.trace.add(Committed(self.now_ms, commit))
        self.trace.add(CommitReturned(1))
        return self

    def invoke(
        self, step: StepKey, attempt: int = 1, *, rollback: bool = False, in_thread: bool = False
    ) -> History:
        self.trace.add(Invoked(1, KEY, step, attempt, rollback, in_thread))
        return self

    def call(
        self, operation: str, outcome: str, *during: Fact | Commit, detail: object = None
    ) -> History:
        self.trace.add(Asked(1, 1, KEY, operation, detail))
        for happening in during:
            if isinstance(happening, Commit):
                self.commit(happening)
            else:
                self.then(happening)
        self.trace.add(Answered(1, outcome))
        return self

    def charged(self) -> History:
        """The step `charge`, which has a handler, is tried once and succeeds."""
        self.then(StepStarted(CONFIG, CONFIG), CHARGE).then(AttemptStarted(1), CHARGE)
        self.invoke(CHARGE)
        return self.then(AttemptSucceeded(1), CHARGE).then(StepSucceeded(DONE), CHARGE)

    def rolling_back(self) -> History:
        """Two steps have succeeded, and `run()` has raised."""
        self.charged().then(StepStarted(CONFIG, CONFIG), SHIP)
        return self.then(RollbackStarted(ERROR, 2))


def _ended() -> History:
    return History().charged().then(WorkflowSucceeded(DONE))


def _failed_once() -> History:
    started = History().then(StepStarted(CONFIG), CHARGE).then(AttemptStarted(1), CHARGE)
    return started.then(AttemptFailed(1, ERROR, 100), CHARGE)


def _with_events() -> History:
    waiting = History().then(WaitStarted("paid", 500, 500), PAID)
    first, second = EventReceived("paid", msgspec.Raw(b"1")), EventReceived("paid")
    return waiting.then(first).then(second)


def _rolled_back() -> History:
    history = History().rolling_back()
    for step in (SHIP, CHARGE):
        history.then(RollbackStepStarted(), step).then(RollbackAttemptStarted(1), step)
        history.invoke(step, rollback=True).then(RollbackStepSucceeded(), step)
    return history.then(RollbackCompleted(2, 2)).then(WorkflowFailed(ERROR))


GOOD = {
    "succeeds": _ended,
    "rolls back": _rolled_back,
    "retries in time": lambda: (
        _failed_once().then(AttemptStarted(2), CHARGE, after_ms=100).invoke(CHARGE, 2)
        .then(AttemptSucceeded(2), CHARGE).then(WorkflowSucceeded(DONE))
    ),
    "takes its events in order": lambda: (
        _with_events().then(WaitCompleted(5, 0, msgspec.Raw(b"1")), PAID)
        .then(WorkflowSucceeded(DONE))
    ),
    "is restarted": lambda: (
        _ended().commit(Commit(cuts=[Cut(1, frozenset({CHARGE}))])).then(WorkflowQueued())
        .then(WorkflowRunning()).charged().then(WorkflowSucceeded(DONE))
    ),
    "is deleted": lambda: History().call("delete", "done", Commit(deleted=[1])),
    "has expired": lambda: _ended().commit(Commit(deleted=[1])),
    "is paused": lambda: History().call("pause", "done", WorkflowPaused()).then(WorkflowTerminated()),
}  # fmt: skip

BROKEN: dict[str, tuple[Law, Callable[[], History]]] = {
    "a finished step is invoked": (steps.once, lambda: _ended().invoke(CHARGE, 2)),
    "an attempt is invoked twice": (
        steps.attempt,
        lambda: History().charged().invoke(CHARGE),
    ),
    "an attempt is invoked twice in a thread": (
        steps.attempt,
        lambda: _failed_once().invoke(CHARGE, in_thread=True).invoke(CHARGE, in_thread=True),
    ),
    "an attempt is invoked before its start is committed": (
        steps.attempt,
        lambda: History().then(StepStarted(CONFIG), CHARGE).invoke(CHARGE),
    ),
    "an attempt is left out": (
        steps.attempt,
        lambda: _failed_once().then(AttemptStarted(3), CHARGE),
    ),
    "there are more attempts than the limit allows": (
        steps.attempt,
        lambda: _failed_once().then(AttemptStarted(2), CHARGE).then(AttemptStarted(3), CHARGE),
    ),
    "a handler is invoked twice": (
        steps.attempt,
        lambda: _rolled_back().invoke(CHARGE, rollback=True),
    ),
    "a sleep completes early": (
        steps.patience,
        lambda: History().then(SleepStarted(9, 9), NAP).then(SleepCompleted(), NAP, after_ms=8),
    ),
    "a pause does not move a sleep": (
        steps.patience,
        lambda: (
            History().then(SleepStarted(9, 9), NAP).then(WorkflowPaused())
            .then(WorkflowQueued(), after_ms=5).then(SleepCompleted(), NAP, after_ms=5)
        ),
    ),
    "a retry starts before its delay is over": (
        steps.patience,
        lambda: _failed_once().then(AttemptStarted(2), CHARGE, after_ms=99),
    ),
    "a wait times out early": (
        steps.patience,
        lambda: _with_events().then(WaitTimedOut(TIMEOUT), PAID, after_ms=499),
    ),
    "an attempt times out early": (
        steps.patience,
        lambda: (
            History().then(StepStarted(CONFIG), CHARGE).then(AttemptStarted(1), CHARGE)
            .then(AttemptFailed(1, Failure("WorkflowTimeoutError", "")), CHARGE, after_ms=999)
        ),
    ),
    "an instance never ends": (instances.progress, History),
    "something happens after the end": (
        instances.closure,
        lambda: _ended().then(EventReceived("paid")),
    ),
    "an instance that runs is removed, and nobody has asked": (
        instances.retention,
        lambda: History().commit(Commit(deleted=[1])),
    ),
    "the second event is taken first": (
        instances.order,
        lambda: _with_events().then(WaitCompleted(6, 0), PAID),
    ),
    "an event is taken that nobody sent": (
        instances.order,
        lambda: History().then(WaitStarted("paid", 5, 5), PAID).then(WaitCompleted(9, 0), PAID),
    ),
    "an event is taken by a wait of another type": (
        instances.order,
        lambda: (
            History().then(EventReceived("paid")).then(WaitStarted("shipped", 5, 5), PAID)
            .then(WaitCompleted(4, 0), PAID)
        ),
    ),
    "an event is taken with another payload": (
        instances.order,
        lambda: _with_events().then(WaitCompleted(5, 0, msgspec.Raw(b"2")), PAID),
    ),
    "a paused instance invokes": (
        instances.quiet,
        lambda: History().then(WorkflowPaused()).invoke(CHARGE),
    ),
    "a finished instance invokes": (instances.quiet, lambda: _ended().invoke(SHIP)),
    "a deleted instance invokes": (
        instances.quiet,
        lambda: _ended().commit(Commit(deleted=[1])).invoke(SHIP),
    ),
    "an instance that rolls back calls a callback": (
        instances.quiet,
        lambda: History().rolling_back().invoke(SHIP),
    ),
    "a dead process invokes": (instances.quiet, lambda: _crashed().invoke(CHARGE)),
    "the first step is compensated first": (
        instances.rollback,
        lambda: History().rolling_back().then(RollbackStepStarted(), CHARGE),
    ),
    "a rollback goes on after a failure": (
        instances.rollback,
        lambda: (
            History().rolling_back().then(RollbackStepStarted(), SHIP)
            .then(RollbackStepFailed(), SHIP).then(RollbackStepStarted(), SHIP)
        ),
    ),
    "a rollback forgets a step": (
        instances.rollback,
        lambda: History().charged().then(RollbackStarted(ERROR, 0)),
    ),
    "a rollback is called complete that is not": (
        instances.rollback,
        lambda: History().rolling_back().then(RollbackCompleted(2, 2)),
    ),
    "a failed rollback counts wrong": (
        instances.rollback,
        lambda: (
            History().rolling_back().then(RollbackStepStarted(), SHIP)
            .then(RollbackStepFailed(), SHIP).then(RollbackFailed(2, 1))
        ),
    ),
    "a rollback changes the error": (
        instances.rollback,
        lambda: _rolled_back().then(WorkflowFailed(Failure("ValueError", "other"))),
    ),
    "a rollback ends well": (
        instances.rollback,
        lambda: History().rolling_back().then(WorkflowSucceeded(DONE)),
    ),
    "a race has two winners": (
        instances.replay,
        lambda: (
            History().then(StepStarted(CONFIG), StepKey(StepKind.DO, winner_step("r", 1, 0), 1))
            .then(StepStarted(CONFIG), StepKey(StepKind.DO, winner_step("r", 1, 1), 1))
        ),
    ),
    "an acknowledged pause did not happen": (
        answers.acknowledged,
        lambda: History().call("pause", "done"),
    ),
    "an acknowledged event is not in the journal": (
        answers.acknowledged,
        lambda: History().call("event", "done", detail=7),
    ),
    "an acknowledged creation did not happen": (
        answers.acknowledged,
        lambda: History().call("create", "done"),
    ),
    "an acknowledged restart did not happen": (
        answers.acknowledged,
        lambda: History().call("restart", "done"),
    ),
    "an acknowledged delete did not happen": (
        answers.acknowledged,
        lambda: History().call("delete", "done"),
    ),
    "an event is refused for an end that is not committed": (
        answers.acknowledged,
        lambda: History().call("event", "instance.in_finite_state", detail=7),
    ),
    "an instance is said not to exist that does": (
        answers.acknowledged,
        lambda: History().call("read", "instance.not_found"),
    ),
    "an event is in the journal that a full disk refused": (
        answers.acknowledged,
        lambda: History().call(
            "event", "engine.stopped", EventReceived("paid", msgspec.Raw(b"7")), detail=7
        ),
    ),
}  # fmt: skip


def _crashed() -> History:
    history = History().then(StepStarted(CONFIG), CHARGE).then(AttemptStarted(1), CHARGE)
    history.trace.add(ProcessEnded(1, "crash"))
    return history


@pytest.mark.parametrize("what", GOOD)
def test_a_good_life_breaks_no_law(what: str) -> None:
    trace = GOOD[what]().trace
    for law in LAWS:
        if law is not instances.progress or what != "is deleted":
            law(trace)


@pytest.mark.parametrize("what", BROKEN)
def test_a_law_notices_that(what: str) -> None:
    law, history = BROKEN[what]
    with pytest.raises(LawBroken, match=f"^{law.__name__}: "):
        law(history().trace)


def test_every_law_has_a_planted_violation() -> None:
    elsewhere = {law for law in LAWS if law.__module__ == hooks.__name__}
    assert {law for law, _ in BROKEN.values()} == set(LAWS) - elsewhere


def _folded(*facts: tuple[StepKey | None, Fact]) -> InstanceState:
    return fold(
        CREATION, ((seq, Entry(0, step, fact)) for seq, (step, fact) in enumerate(facts, 1))
    )


def test_fold_notices_a_state_that_the_journal_does_not_have() -> None:
    live, folded = (_folded((None, WorkflowQueued()), (NAP, SleepStarted(9, 9))) for _ in range(2))
    moments.fold(live, folded)
    live.steps[NAP].due_ms = 10
    with pytest.raises(LawBroken, match=r"^fold: "):
        moments.fold(live, folded)


def test_agreement_notices_a_row_with_another_status() -> None:
    folded = _folded((None, WorkflowQueued()))
    row = InstanceRow(1, CREATION, InstanceStatus.QUEUED, 0)
    moments.agreement_of_row(row, folded)
    with pytest.raises(LawBroken, match=r"^agreement: "):
        moments.agreement_of_row(row._replace(status=InstanceStatus.RUNNING), folded)


def test_agreement_notices_wrong_counts() -> None:
    queued, running = InstanceStatus.QUEUED, InstanceStatus.RUNNING
    moments.agreement_of_counts([queued, running, queued], {queued: 2, running: 1}, "orders")
    with pytest.raises(LawBroken, match=r"^agreement: "):
        moments.agreement_of_counts([queued, running], {queued: 2}, "orders")


@pytest.mark.parametrize("timers", [{}, {NAP: 8}, {NAP: 9, PAID: 9}])
def test_deadlines_notice_timers_that_are_not_the_deadlines(timers: dict[StepKey, int]) -> None:
    folded = _folded((None, WorkflowQueued()), (NAP, SleepStarted(9, 9)), (None, WorkflowWaiting()))
    moments.deadlines(folded, {NAP: 9})
    with pytest.raises(LawBroken, match=r"^deadlines: "):
        moments.deadlines(folded, timers)


def test_slots_notice_one_too_many() -> None:
    statuses = [InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE, InstanceStatus.WAITING]
    moments.slots(statuses, 2, "orders")
    moments.slots(statuses, None, "orders")
    with pytest.raises(LawBroken, match=r"^slots: "):
        moments.slots(statuses, 1, "orders")


def test_determinism_notices_a_difference_and_a_trace_that_is_shorter() -> None:
    moments.determinism(_ended().trace, _ended().trace)
    for other in (
        History().charged().then(WorkflowSucceeded(msgspec.Raw(b"2"))),
        History().charged(),
    ):
        with pytest.raises(LawBroken, match=r"^determinism: "):
            moments.determinism(_ended().trace, other.trace)


# Faults that are planted in the engine itself: the simulation as a whole finds them, and tells how to replay it.


def test_the_simulation_finds_an_engine_that_lets_everybody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def acquire(_self: Admission, _key: InstanceKey, *, waking: bool) -> bool:
        return True

    monkeypatch.setattr(Admission, "acquire", acquire)
    assert "slots: " in _first_failure()


def test_the_simulation_finds_an_engine_whose_running_instances_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def expires_ms(definition: WorkflowDefinition, state: InstanceState) -> int:
        return state.modified_ms + (definition.success_retention_ms or 0)

    monkeypatch.setattr(WorkflowDefinition, "expires_ms", expires_ms)
    assert "retention: " in _first_failure()


def test_the_simulation_finds_an_engine_that_does_not_wait_for_the_code_to_react(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcomes, "PASSES_BEFORE_REPLAY", 0)
    monkeypatch.setattr(outcomes, "PASSES_BETWEEN_OUTCOMES", 0)
    assert "replay: " in _first_failure()


def _first_failure() -> str:
    """What the first seed says that fails, which must be how to replay it."""
    for seed in range(300):
        try:
            Simulation(seed).run()
        except SimulationFailed as failure:
            text = str(failure)
            break
    else:
        return "no seed failed"
    assert f"seed={seed} faults=" in text
    assert f"--seed={seed}" in text
    return text
