"""One instance, driven by chance through everything that can happen to it, beside a small model.

The machine plays the shell: user code that asks for steps, in a different order in every incarnation, and the engine that
grants slots, fires timers and dies. The model knows the rules in other words than the core's: results, attempts, events
and deadlines in plain dictionaries. After every input the laws hold: the state is the fold of what is stored, the timers
are those of the deadlines, and the core agrees with the model.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emulator.core.decide import decide
from emulator.core.decision import Decision
from emulator.core.effects import (
    ArmTimer,
    Interrupt,
    InvokeAttempt,
    InvokeRollback,
    RejectStep,
    RequestSlot,
    ResolveStep,
    StartRun,
)
from emulator.core.inputs import (
    AttemptRaised,
    AttemptReturned,
    CreateRequested,
    DeleteRequested,
    DoRequested,
    EventSent,
    Input,
    PauseRequested,
    Recovered,
    RestartRequested,
    ResumeRequested,
    RollbackRaised,
    RollbackReturned,
    RunParked,
    RunRaised,
    RunReturned,
    SleepRequested,
    SlotGranted,
    SlotRefused,
    StepAbandoned,
    StepRequest,
    TerminateRequested,
    TimerFired,
    UnloadRequested,
    WaitRequested,
)
from emulator.core.state import InstanceState
from emulator.domain import entries as facts
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from tests.unit.core.vocabulary import BOOM, CREATION, ONE, Stored

S = InstanceStatus
DOS = [StepKey(StepKind.DO, name, 1) for name in "abc"]
SLEEPS = [StepKey(StepKind.SLEEP, name, 1) for name in "st"]
UNTIL = StepKey(StepKind.SLEEP, "u", 1)
WAITS = [StepKey(StepKind.WAIT, name, 1) for name in "vwx"]
STEPS = [*DOS, *SLEEPS, UNTIL, *WAITS]
EVENT_TYPES = {WAITS[0]: "paid", WAITS[1]: "paid", WAITS[2]: "sent"}
CONFIGS = {
    DOS[0]: StepConfig(RetryConfig(0, 5), timeout=1_000),
    DOS[1]: StepConfig(RetryConfig(2, 0), timeout=1_000),
    DOS[2]: StepConfig(RetryConfig(2, 7, "linear"), timeout=1_000),
}
ROLLBACKS = {
    DOS[0]: StepConfig(RetryConfig(1, 0), timeout=1_000),
    DOS[2]: StepConfig(RetryConfig(1, 5), timeout=1_000),
}
UNTIL_MS = 60
slots = st.sampled_from([True, True, True, False])
ALLOWED = {
    S.QUEUED: {S.RUNNING, S.PAUSED, S.TERMINATED, S.ROLLING_BACK},
    S.RUNNING: {*S} - {S.PAUSED},
    S.WAITING: {*S} - {S.PAUSED},
    S.WAITING_FOR_PAUSE: {*S} - {S.QUEUED, S.WAITING},
    S.PAUSED: {S.QUEUED, S.TERMINATED, S.ROLLING_BACK},
    S.ROLLING_BACK: {S.ERRORED, S.TERMINATED},
    S.COMPLETE: set[S](),
    S.ERRORED: set[S](),
    S.TERMINATED: set[S](),
}
"""From which status to which, without a restart."""

STATUS_OF: dict[type[Fact], InstanceStatus] = {
    facts.WorkflowQueued: S.QUEUED,
    facts.WorkflowRunning: S.RUNNING,
    facts.WorkflowWaiting: S.WAITING,
    facts.WorkflowWaitingForPause: S.WAITING_FOR_PAUSE,
    facts.WorkflowPaused: S.PAUSED,
    facts.RollbackStarted: S.ROLLING_BACK,
    facts.WorkflowSucceeded: S.COMPLETE,
    facts.WorkflowFailed: S.ERRORED,
    facts.WorkflowTerminated: S.TERMINATED,
}


@dataclass
class Model:
    """What must be true of an instance, told from its entries alone, and what each entry may follow."""

    status: InstanceStatus | None = None
    started: list[StepKey] = field(default_factory=list[StepKey])
    finished: set[StepKey] = field(default_factory=set[StepKey])
    attempts: dict[StepKey, int] = field(default_factory=lambda: defaultdict(int))
    trying: set[StepKey] = field(default_factory=set[StepKey])
    not_before: dict[StepKey, int] = field(default_factory=dict[StepKey, int])
    paused_ms: int | None = None
    mailbox: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    taken: dict[StepKey, tuple[int, str]] = field(default_factory=dict[StepKey, tuple[int, str]])
    returned: list[tuple[StepKey, tuple[int, str]]] = field(
        default_factory=list[tuple[StepKey, tuple[int, str]]]
    )
    deadlines: dict[StepKey, int] = field(default_factory=dict[StepKey, int])
    compensated: list[StepKey] = field(default_factory=list[StepKey])
    handler_attempts: int = 0
    handler_not_before: int = 0

    def see(self, seq: int, entry: Entry) -> None:
        fact, key = entry.fact, entry.step
        assert self.status not in TERMINAL, f"{fact} after the end"
        if new := STATUS_OF.get(type(fact)):
            assert self.status is None or new in ALLOWED[self.status] or new is self.status
            self._status(new, entry.at_ms)
        match fact:
            case facts.EventReceived(event_type):
                self.mailbox.append((seq, event_type))
            case facts.WaitCompleted(event_seq) if key:
                fitting = [each for each, kind in self.mailbox if kind == EVENT_TYPES[key]]
                assert fitting[0] == event_seq, "events are taken first in, first out"
                self.taken[key] = event_seq, EVENT_TYPES[key]
                self.mailbox.remove(self.taken[key])
                self._finish(key)
            case facts.WaitAbandoned() if key and key in self.taken:
                event = self.taken.pop(key)
                self.returned.append((key, event))
                self.mailbox = sorted([*self.mailbox, event])
                self.finished.discard(key)
                self.not_before[key] = self.deadlines[key]
            case _ if key and fact.event in facts.ROLLBACK_EVENTS:
                self._compensation(key, entry)
            case _ if key:
                self._step(key, entry)
            case _:
                pass

    def _status(self, new: InstanceStatus, at_ms: int) -> None:
        if new is S.PAUSED:
            self.paused_ms = at_ms
        elif new is S.QUEUED and self.paused_ms is not None:
            for key in self.not_before:
                if key != UNTIL:
                    self.not_before[key] += at_ms - self.paused_ms
            for key in self.deadlines:
                self.deadlines[key] += at_ms - self.paused_ms
        if new is not S.PAUSED:
            self.paused_ms = None
        self.status = new

    def _step(self, key: StepKey, entry: Entry) -> None:
        match entry.fact:
            case facts.StepStarted():
                self._start(key)
            case facts.SleepStarted(wake_ms=due_ms) | facts.WaitStarted(deadline_ms=due_ms):
                self._start(key)
                assert due_ms is not None, "nothing here waits for ever"
                self.not_before[key] = self.deadlines[key] = due_ms
            case facts.AttemptStarted(attempt):
                assert self.status is S.RUNNING, "an attempt starts only while the instance runs"
                assert key not in self.trying
                assert attempt == self.attempts[key] + 1 <= CONFIGS[key].retries.limit + 1
                assert entry.at_ms >= self.not_before.pop(key, 0)
                self.attempts[key] = attempt
                self.trying.add(key)
            case facts.AttemptFailed(attempt, _, delay_ms):
                assert attempt == self.attempts[key]
                self.trying.remove(key)
                if delay_ms is not None:
                    self.not_before[key] = entry.at_ms + delay_ms
            case facts.AttemptSucceeded(attempt):
                assert attempt == self.attempts[key]
                self.trying.remove(key)
            case facts.SleepCompleted() | facts.WaitTimedOut():
                assert entry.at_ms >= self.not_before[key], "no deadline comes early"
                self._finish(key)
            case facts.StepSucceeded() | facts.StepFailed():
                assert key not in self.trying
                self._finish(key)
            case other:
                assert isinstance(other, facts.WaitAbandoned | facts.RetriesAbandoned)

    def _start(self, key: StepKey) -> None:
        assert key not in self.started
        self.started.append(key)

    def _finish(self, key: StepKey) -> None:
        assert key in self.started
        assert key not in self.finished
        self.finished.add(key)
        self.not_before.pop(key, None)

    def _compensation(self, key: StepKey, entry: Entry) -> None:
        eligible = [step for step in self.started if step in ROLLBACKS]
        assert self.status is S.ROLLING_BACK
        assert key == eligible[-1 - len(self.compensated)], "last started, first compensated"
        match entry.fact:
            case facts.RollbackStepStarted():
                self.handler_attempts = 0
                self.handler_not_before = 0
            case facts.RollbackAttemptStarted(attempt):
                self.handler_attempts += 1
                assert attempt == self.handler_attempts <= ROLLBACKS[key].retries.limit + 1
                assert entry.at_ms >= self.handler_not_before
            case facts.RollbackAttemptFailed(_, _, delay_ms):
                self.handler_not_before = entry.at_ms + (delay_ms or 0)
            case facts.RollbackStepSucceeded():
                self.compensated.append(key)
            case _:
                pass

    def restart(self, target: StepKey | None) -> None:
        """Keep the steps that started before the target."""
        kept = [] if target is None else self.started[: self.started.index(target)]
        fresh = Model(S.QUEUED)
        fresh.started = kept
        fresh.finished = self.finished & {*kept}
        fresh.trying = self.trying & {*kept}
        fresh.attempts.update({key: self.attempts[key] for key in kept})
        fresh.taken = {key: event for key, event in self.taken.items() if key in kept}
        fresh.returned = [(key, event) for key, event in self.returned if key in kept]
        fresh.mailbox = sorted({event for _, event in fresh.returned} - {*fresh.taken.values()})
        fresh.deadlines = {key: ms for key, ms in self.deadlines.items() if key in kept}
        fresh.not_before = {key: ms for key, ms in self.not_before.items() if key in kept}
        self.__dict__.update(fresh.__dict__)


class Instance(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.state = InstanceState(CREATION)
        self.stored = Stored()
        self.model = Model()
        self.incarnation = 0
        self.is_live = False
        self.waiting_for: set[StepKey] = set()
        self.unseen: set[StepKey] = set()
        self.asked: set[StepKey] = set()
        self.invoked: dict[tuple[StepKey, int], int] = {}
        self.handlers: set[StepKey] = set()
        self.handler: tuple[StepKey, int] | None = None
        self.queued = False

    # the shell

    def send(self, item: Input, *, slot: bool = True) -> Decision:
        """Decide, commit, check, perform."""
        decision = decide(self.state, item, self.now_ms)
        self.stored.commit(decision)
        if decision.refusal is not None:
            assert not decision.entries
        if decision.cut_made:
            assert isinstance(item, RestartRequested)
            self.model.restart(item.from_step)
        for seq, entry in decision.entries:
            self.model.see(seq, entry)
        self.stored.check(self.state)  # so a refused decision has changed nothing
        for effect in decision.effects:
            if isinstance(effect, RequestSlot):
                self.queued = not slot
                self.send(SlotGranted() if slot else SlotRefused())
            else:
                self.perform(effect)
        return decision

    def perform(self, effect: object) -> None:
        match effect:
            case StartRun(incarnation):
                assert incarnation == self.state.life.incarnation
                self.incarnation = incarnation
                self.is_live = True
                self.forget_code()
                self.handlers = set()
            case Interrupt(keep_handlers):
                assert self.state.status is not S.PAUSED or not self.invoked, "a pause waits"
                self.is_live = False
                self.incarnation = self.state.life.incarnation
                self.forget_code()
                if not keep_handlers:
                    self.handlers = set()
            case InvokeAttempt(step, attempt):
                assert self.state.status is S.RUNNING
                assert self.is_live
                assert step in self.asked, "the code of a step that was not asked for is unknown"
                assert (step, attempt) not in self.invoked
                self.invoked[step, attempt] = self.incarnation
            case InvokeRollback(step, attempt):
                assert self.state.status is S.ROLLING_BACK
                self.handler = (step, attempt)
            case ResolveStep(step) | RejectStep(step):
                assert self.is_live
                self.waiting_for.remove(step)
                self.unseen.add(step)
            case _:
                assert isinstance(effect, ArmTimer)

    def forget_code(self) -> None:
        self.waiting_for = set()
        self.unseen = set()
        self.asked = set()
        self.invoked = {}
        self.handler = None

    def request(self, step: StepKey) -> StepRequest:
        if step in CONFIGS:
            return DoRequested(self.incarnation, step, CONFIGS[step], ROLLBACKS.get(step))
        if step in SLEEPS:
            return SleepRequested(self.incarnation, step, {"s": 10, "t": 0}[step.name])
        if step == UNTIL:
            return SleepRequested(self.incarnation, step, until_ms=UNTIL_MS)
        return WaitRequested(self.incarnation, step, EVENT_TYPES[step], 25)

    # user code

    @initialize(slot=slots)
    def create(self, slot: bool) -> None:
        self.send(CreateRequested(), slot=slot)

    @precondition(lambda self: self.is_live)
    @rule(steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=5), slot=slots)
    def ask(self, steps: list[StepKey], slot: bool) -> None:
        for step in steps:
            if self.is_live and step not in self.asked:
                self.asked.add(step)
                self.waiting_for.add(step)
                if step in ROLLBACKS:
                    self.handlers.add(step)
                self.send(self.request(step), slot=slot)

    @precondition(lambda self: self.waiting_for or self.unseen)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        """Before the answer, or when that is there and the code has not seen it."""
        step = data.draw(st.sampled_from(sorted(self.waiting_for | self.unseen)))
        self.waiting_for.discard(step)
        self.unseen.discard(step)
        self.send(StepAbandoned(self.incarnation, step))

    @precondition(lambda self: self.unseen)
    @rule()
    def see(self) -> None:
        self.unseen = set()

    @precondition(lambda self: self.invoked)
    @rule(data=st.data(), verdict=st.sampled_from(["return", "raise", "forbid", "bad delay"]))
    def end_attempt(self, data: st.DataObject, verdict: str) -> None:
        step, attempt = data.draw(st.sampled_from(sorted(self.invoked)))
        del self.invoked[step, attempt]
        if verdict == "return":
            self.send(AttemptReturned(self.incarnation, step, attempt, ONE))
        else:
            bad = BOOM if verdict == "bad delay" else None
            retryable = verdict != "forbid"
            self.send(
                AttemptRaised(self.incarnation, step, attempt, BOOM, retryable, delay_error=bad)
            )

    @precondition(lambda self: self.handler)
    @rule(verdict=st.sampled_from(["return", "raise", "forbid"]))
    def end_handler(self, verdict: str) -> None:
        assert self.handler
        (step, attempt), self.handler = self.handler, None
        if step not in self.handlers:
            missing = Failure("RollbackMissing", "")
            self.send(RollbackRaised(self.incarnation, step, attempt, missing, retryable=False))
        elif verdict == "return":
            self.send(RollbackReturned(self.incarnation, step, attempt))
        else:
            self.send(
                RollbackRaised(self.incarnation, step, attempt, BOOM, retryable=verdict == "raise")
            )

    @precondition(lambda self: self.is_live and len(self.model.started) > 3)
    @rule(returns=st.sampled_from([False, False, True]))
    def end_run(self, returns: bool) -> None:
        if returns:
            self.send(RunReturned(self.incarnation, ONE))
        else:
            self.send(RunRaised(self.incarnation, BOOM))
        assert self.state.is_terminal or self.state.status is S.ROLLING_BACK

    @precondition(lambda self: self.is_live and self.waiting_for and not self.invoked)
    @rule(unload=st.booleans())
    def rest(self, unload: bool) -> None:
        self.send(RunParked(self.incarnation))
        for wait in WAITS:
            if wait in self.waiting_for and self.state.status in (S.RUNNING, S.WAITING):
                assert EVENT_TYPES[wait] not in [kind for _, kind in self.model.mailbox]
        if self.state.status in (S.RUNNING, S.WAITING):
            assert all(self.will_end(step) for step in self.waiting_for & {*DOS})
        if unload:
            self.send(UnloadRequested(self.incarnation))

    def will_end(self, step: StepKey) -> bool:
        return step in self.stored.timers or any(step == key for key, _ in self.invoked)

    # time and process

    @rule(ms=st.integers(1, 12), slot=slots)
    def pass_time(self, ms: int, slot: bool) -> None:
        self.now_ms += ms
        for step, due_ms in sorted(self.stored.timers.items()):
            if due_ms <= self.now_ms:
                self.send(TimerFired(step, due_ms), slot=slot)

    @precondition(lambda self: self.queued)
    @rule()
    def grant(self) -> None:
        self.queued = False
        self.send(SlotGranted())

    @precondition(lambda self: len(self.model.started) > 1)
    @rule(recover=slots, slot=slots)
    def crash(self, recover: bool, slot: bool) -> None:
        self.state = self.stored.fold()
        self.incarnation = 0
        self.is_live = False
        self.forget_code()
        self.handlers = set()
        # Queued instances stand in the queue again; running ones are taken up, perhaps after another input.
        self.queued = self.state.status is S.QUEUED
        if recover and not self.queued:
            self.send(Recovered(), slot=slot)

    @precondition(lambda self: not self.queued)
    @rule(slot=slots)
    def recover_late(self, slot: bool) -> None:
        self.send(Recovered(), slot=slot)

    # people

    @rule(event_type=st.sampled_from(["paid", "sent", "none"]), slot=slots)
    def send_event(self, event_type: str, slot: bool) -> None:
        was_terminal = self.state.is_terminal
        decision = self.send(EventSent(event_type, msgspec.Raw(b"1")), slot=slot)
        assert (decision.refusal is not None) == was_terminal

    @rule(resume_only=st.booleans(), slot=slots)
    def pause_or_resume(self, resume_only: bool, slot: bool) -> None:
        was = self.state.status
        if was in (S.QUEUED, S.RUNNING, S.WAITING) and not resume_only:
            self.send(PauseRequested())
            assert self.state.status in (S.PAUSED, S.WAITING_FOR_PAUSE)
            return
        self.send(ResumeRequested(), slot=slot)
        assert (was is not self.state.status) == (was in (S.PAUSED, S.WAITING_FOR_PAUSE))

    @precondition(lambda self: len(self.model.started) > 3)
    @rule(rollback=st.sampled_from([True, True, False]))
    def terminate(self, rollback: bool) -> None:
        was_terminal = self.state.is_terminal
        decision = self.send(TerminateRequested(rollback))
        assert (decision.refusal is not None) == was_terminal
        assert self.state.is_terminal or rollback

    @precondition(lambda self: len(self.model.started) > 1)
    @rule(step=st.none() | st.sampled_from(STEPS), slot=slots)
    def restart(self, step: StepKey | None, slot: bool) -> None:
        is_known = step is None or step in self.model.started
        decision = self.send(RestartRequested(step), slot=slot)
        assert (decision.refusal is None) == is_known
        assert not is_known or self.state.status in (S.RUNNING, S.QUEUED)

    @rule(step=st.sampled_from(STEPS), due_ms=st.integers(0, 100), slot=slots)
    def be_told_what_is_stale(self, step: StepKey, due_ms: int, slot: bool) -> None:
        for item in (
            AttemptReturned(self.incarnation - 1, step, 1, ONE),
            RollbackReturned(self.incarnation - 1, step, 1),
            RunRaised(self.incarnation - 1, BOOM),
            RunParked(self.incarnation + 1),
            RollbackReturned(self.incarnation, step, 99),
            AttemptReturned(self.incarnation, step, 99, ONE),
        ):
            decision = self.send(item)
            assert not decision.entries
            assert not decision.effects
        self.send(TimerFired(step, due_ms), slot=slot)

    @rule()
    def delete_a_copy(self) -> None:
        decision = decide(self.stored.fold(), DeleteRequested(), self.now_ms)
        assert decision.deleted
        assert not decision.entries

    # what holds always

    @invariant()
    def core_and_model_agree(self) -> None:
        state, model = self.state, self.model
        assert state.status is model.status or model.status is None
        assert set(state.steps) == set(model.started)
        assert set(state.open) == set(model.started) - model.finished
        if not state.is_terminal:
            assert list(state.mailbox) == [seq for seq, _ in model.mailbox]

    @invariant()
    def the_code_is_told_what_has_ended(self) -> None:
        if self.state.status in (S.RUNNING, S.WAITING):
            assert not self.model.finished & self.waiting_for

    @invariant()
    def whatever_the_code_waits_for_comes(self) -> None:
        if self.state.status is S.RUNNING and self.is_live:
            for step in self.waiting_for:
                # A `do` that the code had cancelled before comes once it rests.
                is_for_later = step in DOS and self.state.open[step].abandoned
                assert is_for_later or self.will_end(step), step

    @invariant()
    def an_instance_that_lives_runs(self) -> None:
        assert self.is_live == self.state.life.running
        if self.state.status in (S.QUEUED, S.PAUSED) or self.state.is_terminal:
            assert not self.is_live

    @invariant()
    def a_rollback_goes_on(self) -> None:
        rollback = self.state.rollback
        if self.state.status is S.ROLLING_BACK and self.state.life.incarnation:
            assert rollback
            assert self.is_live or self.handler or rollback.current in self.stored.timers


TestInstance = Instance.TestCase
TestInstance.settings = settings(
    max_examples=200,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
