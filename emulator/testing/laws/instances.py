"""The laws of an instance's life: its end, its mailbox, its rollback, its replays."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.domain import entries as facts
from emulator.domain.entries import Entry
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey
from emulator.journal.port import Cut, EntryRow
from emulator.testing.laws.breach import LawBroken, kept, statuses
from emulator.testing.trace import (
    Answered,
    Asked,
    CommitReturned,
    Deleted,
    Invoked,
    ProcessEnded,
    ProcessStarted,
    Story,
    Trace,
)


def progress(trace: Trace) -> None:
    """When the faults have stopped, every instance that waits for nobody reaches a terminal status.

    (The trace ends with a long rest in which whatever is paused is resumed.)
    """
    for story in trace.stories():
        *_, (_, last) = statuses(story)
        if last is not None and last not in TERMINAL:
            raise LawBroken("progress", story, f"it is {last} and stays so")


def closure(trace: Trace) -> None:
    """After a terminal entry there is none but of a restart or a delete."""
    for story in trace.stories():
        before: InstanceStatus | None = None
        for happening, status in statuses(story):
            if isinstance(happening, EntryRow) and before in TERMINAL:
                raise LawBroken("closure", story, f"{happening.entry.fact} although it is {before}")
            before = status


def retention(trace: Trace) -> None:
    """An instance goes when a client deletes it, or some time after it has ended: never otherwise."""
    for story in trace.stories():
        before: InstanceStatus | None = None
        places = (place for place, _ in story.happenings)
        for place, (happening, status) in zip(places, statuses(story), strict=True):
            if isinstance(happening, Deleted) and before not in TERMINAL:
                calls = _calls_under_way(trace, place)
                if not any((call.key, call.operation) == (story.key, "delete") for call in calls):
                    raise LawBroken("retention", story, f"it goes while it is {before}")
            before = status


def _calls_under_way(trace: Trace, place: int) -> Iterable[Asked]:
    calls: dict[int, Asked] = {}
    for record in trace.records[:place]:
        if isinstance(record, Asked):
            calls[record.call] = record
        elif isinstance(record, Answered):
            del calls[record.call]
    return calls.values()


def order(trace: Trace) -> None:
    """Events of one type are taken first in, first out, each once and whole, by waits of that type.

    None is lost: it is in the mailbox until it is taken, or until the instance ends or restarts. A wait that the code
    cancelled before it saw its event gives it back.
    """
    for story in trace.stories():
        mailbox: dict[int, facts.EventReceived] = {}
        waits: dict[StepKey, str] = {}
        taken: dict[StepKey, tuple[int, facts.EventReceived]] = {}
        for happening in story:
            match happening:
                case Cut():
                    mailbox, waits, taken = {}, kept(waits, happening), kept(taken, happening)
                case EntryRow(seq=seq, entry=Entry(fact=facts.EventReceived() as event)):
                    mailbox[seq] = event
                case EntryRow(
                    entry=Entry(step=StepKey() as step, fact=facts.WaitStarted() as wait)
                ):
                    waits[step] = wait.event_type
                case EntryRow(
                    entry=Entry(step=StepKey() as step, fact=facts.WaitCompleted() as fact)
                ):
                    taken[step] = fact.event_seq, _take(story, mailbox, waits[step], fact)
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.WaitAbandoned())) if (
                    step in taken
                ):
                    mailbox = dict(sorted([*mailbox.items(), taken.pop(step)]))
                case _:
                    pass


def _take(
    story: Story,
    mailbox: dict[int, facts.EventReceived],
    event_type: str,
    taken: facts.WaitCompleted,
) -> facts.EventReceived:
    first = next((seq for seq, event in mailbox.items() if event.event_type == event_type), None)
    if first is None or taken.event_seq != first:
        text = f"event {taken.event_seq} is taken, the oldest {event_type!r} is {first}"
        raise LawBroken("order", story, text)
    event = mailbox.pop(first)
    if taken.payload != event.payload:
        raise LawBroken("order", story, f"event {first} is taken with another payload")
    return event


def quiet(trace: Trace) -> None:
    """Callbacks are called only while the instance runs, handlers only while it rolls back, by a process that lives.

    So a paused, finished or deleted instance invokes nothing, nor does a process that is dead.
    """
    for story in trace.stories():
        process: int | None = None
        heard: set[InstanceStatus | None] = set()
        for happening, status in statuses(story):
            heard.add(status)
            match happening:
                case CommitReturned():
                    heard = {status}
                case ProcessStarted(number):
                    process = number
                case ProcessEnded():
                    process = 0
                case Invoked(in_thread=False) if process not in (None, happening.process):
                    text = (
                        f"process {happening.process} is dead, and invokes {happening.step.label}"
                    )
                    raise LawBroken("quiet", story, text)
                case Invoked(in_thread=False) if not heard & _INVOKING[happening.rollback]:
                    text = f"{happening.step.label} is invoked while it is {status}"
                    raise LawBroken("quiet", story, text)
                case _:
                    pass


_INVOKING: dict[bool, frozenset[InstanceStatus]] = {
    False: frozenset({InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE}),
    True: frozenset({InstanceStatus.ROLLING_BACK}),
}
"""When callbacks, and handlers (True), may be called."""


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
                    eligible, under_way = kept(eligible, happening), None
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
                    winners = kept(winners, happening)
                case EntryRow(entry=Entry(step=StepKey() as step, fact=facts.StepStarted())):
                    name, won, _ = step.name.partition(" won by ")
                    rivals = [each for each in winners if each.name.startswith(name + won)]
                    if won and rivals:
                        raise LawBroken("replay", story, f"{rivals[0].name}, then {step.name}")
                    winners[step] = True
                case _:
                    pass
