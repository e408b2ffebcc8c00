"""The laws: what holds of every run of the engine, whatever the programs, the clients and the faults.

Each law is a function that raises `LawBroken`; its docstring is the law. Most judge the trace of a whole simulation;
`fold`, `agreement` and `slots` judge a moment, and are asked at every commit. They have models of their own, as small as
can be, and do not use the core's rules, so that a mistake there cannot excuse itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from emulator.core.evolve import fold as fold_journal
from emulator.core.state import InstanceState
from emulator.domain import entries as facts
from emulator.domain.config import timeout_ms
from emulator.domain.entries import Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.instance import InstanceKey
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey
from emulator.journal.port import Cut, EntryRow, InstanceRow, StoredInstance, TimerRow
from emulator.testing.trace import (
    Answered,
    Asked,
    Deleted,
    Happening,
    Invoked,
    ProcessEnded,
    ProcessStarted,
    Story,
    Trace,
)

T = TypeVar("T")

_STATUS_AFTER: dict[type[Fact], InstanceStatus] = {
    facts.WorkflowQueued: InstanceStatus.QUEUED,
    facts.WorkflowRunning: InstanceStatus.RUNNING,
    facts.WorkflowWaiting: InstanceStatus.WAITING,
    facts.WorkflowWaitingForPause: InstanceStatus.WAITING_FOR_PAUSE,
    facts.WorkflowPaused: InstanceStatus.PAUSED,
    facts.RollbackStarted: InstanceStatus.ROLLING_BACK,
    facts.WorkflowSucceeded: InstanceStatus.COMPLETE,
    facts.WorkflowFailed: InstanceStatus.ERRORED,
    facts.WorkflowTerminated: InstanceStatus.TERMINATED,
}


class LawBroken(AssertionError):
    """The engine did what it must never do."""

    def __init__(self, law: str, where: object, text: str) -> None:
        super().__init__(f"{law}: {where}: {text}")


def fold(live: InstanceState, stored: StoredInstance) -> None:
    """The live state equals the fold of the journal."""
    folded = fold_journal(stored.row.creation, stored.entries)
    for name in InstanceState.__slots__:
        mine, theirs = getattr(live, name), getattr(folded, name)
        if name != "life" and mine != theirs:
            raise LawBroken(
                "fold", live.creation.key, f"{name} is {mine} live, {theirs} by the journal"
            )


def agreement_of_row(stored: StoredInstance) -> None:
    """The row of an instance and the fold of its journal say the same."""
    row, folded = stored.row, fold_journal(stored.row.creation, stored.entries)
    shown = (row.status, row.modified_ms, row.started_ms, row.ended_ms)
    true = (folded.status, folded.modified_ms, folded.started_ms, folded.ended_ms)
    if shown != true:
        raise LawBroken("agreement", row.creation.key, f"the row says {shown}, the fold {true}")


def agreement_of_counts(
    statuses: Iterable[InstanceStatus], counts: Mapping[InstanceStatus, int], where: str
) -> None:
    """The counts of a workflow's instances by status are those of its rows."""
    counted = Counter(statuses)
    if counted != counts:
        raise LawBroken("agreement", where, f"the counts are {dict(counts)}, the rows {counted}")


def deadlines(stored: StoredInstance, timers: Iterable[TimerRow]) -> None:
    """The stored timers of an instance that waits are the deadlines of its open steps, neither more nor others."""
    folded = fold_journal(stored.row.creation, stored.entries)
    kept = {timer.step: timer.due_ms for timer in timers if timer.number == stored.row.number}
    meant = {step.key: step.due_ms for step in folded.open.values() if step.due_ms is not None}
    if folded.status is InstanceStatus.WAITING and kept != meant:
        raise LawBroken(
            "deadlines", folded.creation.key, f"the timers are {kept}, the deadlines {meant}"
        )


def slots(statuses: Iterable[InstanceStatus], limit: int | None, where: str) -> None:
    """Never more instances of a workflow run than it has slots."""
    running = sum(
        status in (InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE) for status in statuses
    )
    if limit is not None and running > limit:
        raise LawBroken("slots", where, f"{running} run, {limit} may")


def determinism(first: Trace, second: Trace) -> None:
    """The same seed leaves the same trace, byte for byte."""
    lines = zip(first.text().split("\n"), second.text().split("\n"), strict=False)
    for place, (one, other) in enumerate(lines):
        if one != other:
            raise LawBroken("determinism", f"record {place}", f"once {one}, then {other}")
    if len(first.records) != len(second.records):
        raise LawBroken(
            "determinism", "length", f"{len(first.records)} and {len(second.records)} records"
        )


def once(trace: Trace) -> None:
    """A step with `StepSucceeded` is never invoked again, unless a restart has removed it."""
    for story in trace.stories():
        finished: dict[StepKey, bool] = {}
        for happening in story:
            match happening:
                case Cut():
                    finished = _kept(finished, happening)
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.StepSucceeded())):
                    finished[step] = True
                case Invoked(step=step, rollback=False) if step in finished:
                    raise LawBroken("once", story, f"{step.label} has its result, and was invoked")
                case _:
                    pass


def attempt(trace: Trace) -> None:
    """Attempts count 1, 2, 3 … to at most limit + 1; each is invoked at most once, and after its start is committed."""
    for story in trace.stories():
        for counts in (
            _AttemptCount(story, facts.AttemptStarted),
            _AttemptCount(story, facts.RollbackAttemptStarted),
        ):
            for happening in story:
                counts.hear(happening)


class _AttemptCount:
    """The attempts of callbacks, or of rollback handlers."""

    def __init__(
        self, story: Story, start: type[facts.AttemptStarted] | type[facts.RollbackAttemptStarted]
    ) -> None:
        self._story = story
        self._start = start
        self._is_rollback = start is facts.RollbackAttemptStarted
        self._limits: dict[StepKey, float] = {}
        self._attempts: dict[StepKey, int] = {}
        self._uncalled: dict[StepKey, bool] = {}

    def hear(self, happening: Happening) -> None:
        match happening:
            case Cut():
                self._limits = _kept(self._limits, happening)
                self._attempts = {} if self._is_rollback else _kept(self._attempts, happening)
                self._uncalled = _kept(self._uncalled, happening)
            case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.StepStarted() as fact)):
                config = fact.rollback if self._is_rollback else fact.config
                if config is not None:
                    self._limits[step] = config.retries.limit
            case EntryRow(
                entry=Entry(
                    step=StepKey() as step,
                    fact=(facts.AttemptStarted() | facts.RollbackAttemptStarted()) as fact,
                )
            ) if isinstance(fact, self._start):
                self._start_attempt(step, fact.attempt)
            case Invoked(rollback=rollback) if rollback == self._is_rollback:
                self._invoke(happening)
            case _:
                pass

    def _start_attempt(self, step: StepKey, number: int) -> None:
        last = self._attempts.get(step, 0)
        if number != last + 1 or number > self._limits[step] + 1:
            text = f"{step.label} starts attempt {number} after {last}; {self._limits[step]} retries are allowed"
            raise LawBroken("attempt", self._story, text)
        self._attempts[step] = number
        self._uncalled[step] = True

    def _invoke(self, call: Invoked) -> None:
        is_due = self._uncalled.pop(call.step, False)
        is_number_right = self._is_rollback or call.attempt == self._attempts.get(call.step)
        if not is_due or not is_number_right:
            if call.in_thread and not self._was_called(call):
                return  # it was heard of late
            text = f"attempt {call.attempt} of {call.step.label} is invoked twice, or without a start"
            raise LawBroken("attempt", self._story, text)

    def _was_called(self, call: Invoked) -> bool:
        """Whether this is the second call of an attempt of this life."""
        since: list[Invoked] = []
        for happening in self._story:
            if happening is call:
                break
            if isinstance(happening, Cut) and (
                happening.steps is None or call.step in happening.steps
            ):
                since = []
            elif isinstance(happening, Invoked):
                since.append(happening)
        return any(
            (each.step, each.attempt, each.rollback) == (call.step, call.attempt, call.rollback)
            for each in since
        )


def patience(trace: Trace) -> None:
    """No sleep completes early, no retry starts before its delay is over, no timeout comes early; a pause adds to all."""
    for story in trace.stories():
        watch = _Deadlines(story)
        for happening in story:
            match happening:
                case Cut():
                    watch.cut(happening)
                case EntryRow(entry=entry):
                    watch.hear(entry)
                case _:
                    pass


class _Deadlines:
    """The open deadlines of an instance, and whether they move with a pause."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._due: dict[StepKey, tuple[int, bool]] = {}
        self._started: dict[StepKey, int] = {}
        self._timeouts: dict[StepKey, int] = {}
        self._paused_ms: int | None = None

    def cut(self, made: Cut) -> None:
        self._due = _kept(self._due, made)
        self._paused_ms = None

    def hear(self, entry: Entry) -> None:
        at_ms, step, fact = entry
        if step is not None:
            self._hear_of(step, at_ms, fact)
        elif isinstance(fact, facts.WorkflowPaused):
            self._paused_ms = at_ms
        elif isinstance(fact, facts.WorkflowQueued) and self._paused_ms is not None:
            pause_ms = at_ms - self._paused_ms
            self._due = {
                step: (due_ms + pause_ms * moves, moves)
                for step, (due_ms, moves) in self._due.items()
            }
            self._paused_ms = None
        elif isinstance(fact, facts.RollbackStarted):
            self._due.clear()

    def _hear_of(self, step: StepKey, at_ms: int, fact: Fact) -> None:
        match fact:
            case facts.StepStarted(config=config):
                self._timeouts[step] = timeout_ms(config)
            case facts.SleepStarted(wake_ms=due_ms, until=until):
                self._due[step] = (due_ms, not until)
            case facts.WaitStarted(deadline_ms=due_ms):
                self._due[step] = (due_ms, True)
            case facts.AttemptFailed(error=error, retry_delay_ms=delay_ms):
                self._judge_timeout(step, at_ms, error)
                self._set_retry(step, at_ms, delay_ms)
            case facts.RollbackAttemptFailed(retry_delay_ms=delay_ms):
                self._set_retry(step, at_ms, delay_ms)
            case facts.AttemptStarted():
                self._started[step] = at_ms
                self._judge(step, at_ms, "its retry starts")
            case facts.RollbackAttemptStarted():
                self._judge(step, at_ms, "its handler is tried again")
            case facts.SleepCompleted():
                self._judge(step, at_ms, "the sleep completes")
            case facts.WaitTimedOut():
                self._judge(step, at_ms, "the wait times out")
            case facts.WaitCompleted():
                self._due.pop(step, None)
            case _:
                pass

    def _set_retry(self, step: StepKey, at_ms: int, delay_ms: int | None) -> None:
        if delay_ms is not None:
            self._due[step] = (at_ms + delay_ms, True)

    def _judge(self, step: StepKey, at_ms: int, what: str) -> None:
        due_ms, _ = self._due.pop(step, (at_ms, False))
        if at_ms < due_ms:
            raise LawBroken(
                "patience", self._story, f"{step.label}: {what} {due_ms - at_ms} ms early"
            )

    def _judge_timeout(self, step: StepKey, at_ms: int, error: Failure) -> None:
        took_ms = at_ms - self._started[step]
        if error.name == "WorkflowTimeoutError" and took_ms < self._timeouts[step]:
            raise LawBroken("patience", self._story, f"{step.label} times out after {took_ms} ms")


def progress(trace: Trace) -> None:
    """When the faults have stopped, every instance that waits for nobody reaches a terminal status.

    (The trace ends with a long rest in which whatever is paused is resumed.)
    """
    for story in trace.stories():
        status: InstanceStatus | None = None
        for _, status in _statuses(story):
            pass
        if status is not None and status not in TERMINAL:
            raise LawBroken("progress", story, f"it is {status} and stays so")


def closure(trace: Trace) -> None:
    """After a terminal entry there is none but of a restart or a delete."""
    for story in trace.stories():
        before: InstanceStatus | None = None
        for happening, status in _statuses(story):
            if isinstance(happening, EntryRow) and before in TERMINAL:
                raise LawBroken("closure", story, f"{happening.entry.fact} although it is {before}")
            before = status


def order(trace: Trace) -> None:
    """Events of one type are taken first in, first out, each once and whole, by waits of that type.

    None is lost: it is in the mailbox until it is taken, or until the instance ends or restarts.
    """
    for story in trace.stories():
        mailbox: dict[int, facts.EventReceived] = {}
        waits: dict[StepKey, str] = {}
        for happening in story:
            match happening:
                case Cut():
                    mailbox, waits = {}, _kept(waits, happening)
                case EntryRow(seq=seq, entry=Entry(fact=facts.EventReceived() as event)):
                    mailbox[seq] = event
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.WaitStarted() as wait)):
                    waits[step] = wait.event_type
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.WaitCompleted() as fact)):
                    _take(story, mailbox, waits[step], fact)
                case _:
                    pass


def _take(
    story: Story,
    mailbox: dict[int, facts.EventReceived],
    event_type: str,
    taken: facts.WaitCompleted,
) -> None:
    first = next((seq for seq, event in mailbox.items() if event.event_type == event_type), None)
    if taken.event_seq != first:
        text = f"event {taken.event_seq} is taken, the oldest {event_type!r} is {first}"
        raise LawBroken("order", story, text)
    if taken.payload != mailbox.pop(first).payload:
        raise LawBroken("order", story, f"event {first} is taken with another payload")


def quiet(trace: Trace) -> None:
    """Callbacks are called only while the instance runs, handlers only while it rolls back, by a process that lives.

    So a paused, finished or deleted instance invokes nothing, nor does a process that is dead.
    """
    for story in trace.stories():
        process: int | None = None
        for happening, status in _statuses(story):
            match happening:
                case ProcessStarted(number):
                    process = number
                case ProcessEnded():
                    process = 0
                case Invoked(in_thread=False) if process not in (None, happening.process):
                    text = f"process {happening.process} is dead, and invokes {happening.step.label}"
                    raise LawBroken("quiet", story, text)
                case Invoked(in_thread=False) if not _may_invoke(status, happening.rollback):
                    text = f"{happening.step.label} is invoked while it is {status}"
                    raise LawBroken("quiet", story, text)
                case _:
                    pass


def _may_invoke(status: InstanceStatus | None, rollback: bool) -> bool:
    if rollback:
        return status is InstanceStatus.ROLLING_BACK
    return status in (InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE)


def rollback(trace: Trace) -> None:
    """Rollback goes over the steps with a handler, last in, first out, and stops at the first failure.

    It does not change how the instance ends.
    """
    for story in trace.stories():
        eligible: dict[StepKey, bool] = {}
        under_way: _Rollback | None = None
        for happening in story:
            match happening:
                case Cut():
                    eligible, under_way = _kept(eligible, happening), None
                case EntryRow(
                    entry=Entry(step=StepKey() as step, fact=facts.StepStarted() as fact)
                ) if fact.rollback is not None:
                    eligible[step] = True
                case EntryRow(entry=Entry(fact=facts.RollbackStarted() as fact)):
                    under_way = _Rollback(story, fact, list(eligible))
                case EntryRow(entry=entry) if under_way is not None:
                    under_way.hear(entry)
                case _:
                    pass


class _Rollback:
    """A rollback as it has to be."""

    def __init__(self, story: Story, start: facts.RollbackStarted, pending: list[StepKey]) -> None:
        self._story = story
        self._start = start
        self._pending = pending
        self._has_failed = False
        self._must(start.total_steps == len(pending), f"{len(pending)} steps have a handler")

    def hear(self, entry: Entry) -> None:
        done = self._start.total_steps - len(self._pending)
        match entry.fact:
            case facts.RollbackStepStarted() | facts.RollbackAttemptStarted():
                self._must(not self._has_failed, "it goes on after a failure")
                self._must(self._pending[-1:] == [entry.step], f"{entry.step} is not the last")
            case facts.RollbackStepSucceeded():
                self._pending.pop()
            case facts.RollbackStepFailed():
                self._has_failed = True
            case facts.RollbackCompleted():
                self._must(not self._pending and not self._has_failed, "it is not complete")
            case facts.RollbackFailed(completed_steps=completed_steps):
                self._must(self._has_failed and completed_steps == done, f"{done} steps are done")
            case facts.WorkflowFailed(error=error):
                self._must(not self._start.terminating, "who terminates gets `terminated`")
                self._must(error == self._start.error, "the error that began it is the instance's")
            case facts.WorkflowSucceeded():
                self._must(False, "an instance that rolls back does not succeed")
            case _:
                pass

    def _must(self, holds: bool, text: str) -> None:
        if not holds:
            raise LawBroken("rollback", self._story, text)


def replay(trace: Trace) -> None:
    """A race between steps has the same winner in every replay (see `scripts.winner_step`)."""
    for story in trace.stories():
        winners: dict[StepKey, bool] = {}
        for happening in story:
            match happening:
                case Cut():
                    winners = _kept(winners, happening)
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.StepStarted())):
                    name, won, _ = step.name.partition(" won by ")
                    rivals = [each for each in winners if each.name.startswith(name + won)]
                    if won and rivals:
                        raise LawBroken("replay", story, f"{rivals[0].name}, then {step.name}")
                    winners[step] = True
                case _:
                    pass


def acknowledged(trace: Trace) -> None:
    """What a call returned is true of the committed history between the call and its answer.

    What the call did is in the journal then, whatever comes after; what it refused had a reason. A call that an engine
    failed to answer, other than by a crash, has done nothing.
    """
    claims = _Claims(trace)
    for place, record in enumerate(trace.records):
        if isinstance(record, Asked):
            claims.ask(place, record)
        elif isinstance(record, Answered):
            claims.judge(place, record.outcome, record.call)


_DONE: dict[str, frozenset[InstanceStatus | None]] = {
    "pause": frozenset(
        {InstanceStatus.PAUSED, InstanceStatus.WAITING_FOR_PAUSE, InstanceStatus.ROLLING_BACK}
    )
    | TERMINAL,
    "resume": frozenset(InstanceStatus)
    - {InstanceStatus.PAUSED, InstanceStatus.WAITING_FOR_PAUSE},
    "terminate": frozenset({InstanceStatus.TERMINATED, InstanceStatus.ROLLING_BACK}),
    "read": frozenset(InstanceStatus),
    "create": frozenset({InstanceStatus.QUEUED, InstanceStatus.RUNNING}),
    "restart": frozenset({InstanceStatus.QUEUED, InstanceStatus.RUNNING}),
    "delete": frozenset({None}),
}
"""What an instance must have been at some point of a call that did its work (None: not there)."""

_REFUSED: dict[str, frozenset[InstanceStatus | None]] = {
    "instance.not_found": frozenset({None}),
    "instance.already_exists": frozenset(InstanceStatus),
    "instance.cannot_terminate": TERMINAL,
    "instance.in_finite_state": TERMINAL,
    "instance.cannot_restart": frozenset(InstanceStatus),
}
"""What it must have been at some point of a call that was refused."""


class _Claims:
    """What the answers claim, and the history to hold it against."""

    def __init__(self, trace: Trace) -> None:
        self._calls: dict[int, tuple[int, Asked]] = {}
        self._ends = {
            record.process: record.how
            for record in trace.records
            if isinstance(record, ProcessEnded)
        }
        self._timelines: dict[InstanceKey, list[tuple[int, InstanceStatus | None]]] = {}
        self._events: dict[bytes, int] = {}
        self._changes: dict[tuple[InstanceKey, type[object]], list[int]] = {}
        for story in trace.stories():
            self._read(story)

    def _read(self, story: Story) -> None:
        timeline = self._timelines.setdefault(story.key, [])
        places = [place for place, _ in story.happenings]
        for place, (happening, status) in zip(places, _statuses(story), strict=True):
            timeline.append((place, status))
            if isinstance(happening, InstanceRow | Cut | Deleted):
                self._changes.setdefault((story.key, type(happening)), []).append(place)
            match happening:
                case EntryRow(entry=Entry(fact=facts.EventReceived(payload=payload))) if payload:
                    self._events[bytes(payload)] = place
                case _:
                    pass

    def ask(self, place: int, call: Asked) -> None:
        self._calls[call.call] = (place, call)

    def judge(self, answered: int, outcome: str, number: int) -> None:
        asked, call = self._calls[number]
        if not self._is_true(asked, answered, call, outcome):
            text = f"{call.operation} {call.detail} was answered {outcome!r}"
            raise LawBroken("acknowledged", call.key, f"call {number}: {text}; it is not true")

    def _is_true(self, asked: int, answered: int, call: Asked, outcome: str) -> bool:
        if outcome == "engine.stopped":
            crashed = self._ends.get(call.process) == "crash"
            return crashed or str(call.detail).encode() not in self._events
        if outcome != "done":
            return self._was(call.key, asked, answered, _REFUSED[outcome])
        if call.operation == "event":
            place = self._events.get(str(call.detail).encode(), answered)
            return asked <= place < answered
        kind = {"create": InstanceRow, "restart": Cut, "delete": Deleted}.get(call.operation)
        places = self._changes.get((call.key, kind), []) if kind else [asked]
        return any(asked <= place < answered for place in places) and self._was(
            call.key, asked, answered, _DONE[call.operation]
        )

    def _was(
        self,
        key: InstanceKey,
        asked: int,
        answered: int,
        statuses: frozenset[InstanceStatus | None],
    ) -> bool:
        """Whether the instance was one of these at some point between the two."""
        before: InstanceStatus | None = None
        for place, status in self._timelines.get(key, []):
            if place >= answered:
                break
            if place > asked and (status in statuses or before in statuses):
                return True
            before = status
        return before in statuses


def _statuses(story: Story) -> Iterable[tuple[Happening, InstanceStatus | None]]:
    """Every happening with the status after it; None is an instance that is gone."""
    status: InstanceStatus | None = InstanceStatus.QUEUED
    for happening in story:
        match happening:
            case EntryRow(entry=Entry(fact=fact)):
                status = _STATUS_AFTER.get(type(fact), status)
            case Cut():
                status = InstanceStatus.QUEUED
            case Deleted():
                status = None
            case _:
                pass
        yield happening, status


def _kept(of_steps: dict[StepKey, T], cut: Cut) -> dict[StepKey, T]:
    """What a restart leaves of something that is known of each step."""
    if cut.steps is None:
        return {}
    return {step: value for step, value in of_steps.items() if step not in cut.steps}


OF_TRACES = (
    once,
    attempt,
    patience,
    progress,
    closure,
    order,
    quiet,
    rollback,
    replay,
    acknowledged,
)
"""The laws about the trace of a whole simulation."""
