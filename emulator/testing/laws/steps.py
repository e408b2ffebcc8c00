"""The laws of steps: what is invoked, how often, and when."""

from __future__ import annotations

from collections import Counter

from emulator.domain import entries as facts
from emulator.domain.config import timeout_ms
from emulator.domain.entries import Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.steps import StepKey
from emulator.journal.port import Cut, EntryRow
from emulator.testing.laws.breach import LawBroken, kept
from emulator.testing.trace import (
    CommitReturned,
    Happening,
    Invoked,
    Story,
    Trace,
)


def once(trace: Trace) -> None:
    """A step with `StepSucceeded` is never invoked again, unless a restart has removed it."""
    for story in trace.stories():
        finished: dict[StepKey, bool] = {}
        for happening in story:
            match happening:
                case Cut():
                    finished = kept(finished, happening)
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.StepSucceeded())):
                    finished[step] = True
                case Invoked(step=step, rollback=False) if step in finished:
                    raise LawBroken("once", story, f"{step.label} has its result, and was invoked")
                case _:
                    pass


def attempt(trace: Trace) -> None:
    """Attempts count 1, 2, 3 … to at most limit + 1; each is invoked at most once, and after its start is committed.

    One that a stop in good order has taken back starts again.
    """
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
        self._taken_back = (
            facts.RollbackAttemptInterrupted if self._is_rollback else facts.AttemptInterrupted
        )
        self._limits: dict[StepKey, float] = {}
        self._attempts: dict[StepKey, int] = {}
        self._uncalled: dict[StepKey, int] = {}
        self._cut: dict[StepKey, int] = {}
        self._in_threads: Counter[tuple[StepKey, int]] = Counter()

    def hear(self, happening: Happening) -> None:
        match happening:
            case Cut():
                self._limits = kept(self._limits, happening)
                self._attempts = {} if self._is_rollback else kept(self._attempts, happening)
                # The engine has not heard of the cut yet, and may be about to call.
                self._cut, self._uncalled = self._uncalled, kept(self._uncalled, happening)
            case CommitReturned():
                self._cut = {}
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
            case EntryRow(entry=Entry(step=StepKey() as step, fact=fact)) if isinstance(
                fact, self._taken_back
            ):
                self._attempts[step] -= 1
                if step in self._uncalled:
                    self._cut[step] = self._uncalled.pop(step)
            case Invoked(rollback=rollback) if rollback == self._is_rollback:
                self._invoke(happening)
            case _:
                pass

    def _start_attempt(self, step: StepKey, number: int) -> None:
        last = self._attempts.get(step, 0)
        if number != last + 1 or number > self._limits[step] + 1:
            text = f"{step.label} starts attempt {number} after {last}; {self._limits[step]} retries are allowed"
            raise LawBroken("attempt", self._story, text)
        self._attempts[step] = self._uncalled[step] = number
        self._in_threads[step, number] += 1

    def _invoke(self, call: Invoked) -> None:
        if call.in_thread:
            # Heard of late: all that can be said is that there are not more calls than starts.
            self._in_threads[call.step, call.attempt] -= 1
            is_due = self._in_threads[call.step, call.attempt] >= 0
        else:
            started = self._uncalled.pop(call.step, None) or self._cut.pop(call.step, None)
            is_due = started == call.attempt or (self._is_rollback and started is not None)
        if not is_due:
            label = call.step.label
            text = f"attempt {call.attempt} of {label} is invoked twice, or without a start"
            raise LawBroken("attempt", self._story, text)


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
        self._due = kept(self._due, made)
        self._paused_ms = None

    def hear(self, entry: Entry) -> None:
        at_ms, step, fact = entry.at_ms, entry.step, entry.fact
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
            case facts.WaitStarted(deadline_ms=None):
                self._due.pop(step, None)
            case facts.WaitStarted(deadline_ms=int() as due_ms):
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
            case facts.WaitTimedOut(error=error) if error.name != "HookDisposedError":
                self._judge(step, at_ms, "the wait times out")
            case facts.WaitCompleted() | facts.WaitTimedOut():
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
