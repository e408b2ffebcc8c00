"""What happened in a simulation, in order: the material that the laws judge.

A trace is taken at the journal and in the callbacks, outside the engine: memory misses the commit that a crash came
upon, and a restart removes from the journal what the laws still have to see. `Trace.stories` tells it once more, one
instance after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from emulator.domain.instance import InstanceKey
from emulator.domain.steps import StepKey
from emulator.journal.port import Commit, Cut, EntryRow, InstanceRow


class ProcessStarted(NamedTuple):
    """An engine begins; the first is number 1."""

    process: int


class ProcessEnded(NamedTuple):
    """An engine is no more. Only a `crash` leaves its clients in the dark about what it did last."""

    process: int
    how: str


class Committed(NamedTuple):
    """A commit is in the journal, whether the engine heard of it or not."""

    at_ms: int
    commit: Commit


class CommitReturned(NamedTuple):
    """The engine hears of its commit, and acts on it at once. Until then callbacks may be called that it forbids."""

    process: int


class Invoked(NamedTuple):
    """A callback, or with `rollback` a handler, was called. `attempt` is the step's, also for a handler.

    What a thread does is heard at the same instant, but after whatever else happens at it.
    """

    process: int
    key: InstanceKey
    step: StepKey
    attempt: int
    rollback: bool = False
    in_thread: bool = False


class Asked(NamedTuple):
    """A client asks something of the engine. `detail` tells calls of one kind apart, such as an event's number."""

    call: int
    process: int
    key: InstanceKey
    operation: str
    detail: object = None


class Answered(NamedTuple):
    """The call's answer: "done", or the code of the error."""

    call: int
    outcome: str


class Deleted(NamedTuple):
    """The instance is gone."""

    number: int


Record = ProcessStarted | ProcessEnded | Committed | CommitReturned | Invoked | Asked | Answered
Happening = (
    InstanceRow
    | EntryRow
    | Cut
    | Deleted
    | CommitReturned
    | Invoked
    | ProcessStarted
    | ProcessEnded
)


class Story:
    """All that happened to one instance from its creation on, with the places in the trace."""

    def __init__(self, key: InstanceKey, number: int) -> None:
        self.key = key
        self.number = number
        self.happenings: list[tuple[int, Happening]] = []

    def __iter__(self) -> Iterator[Happening]:
        return (happening for _, happening in self.happenings)

    def __str__(self) -> str:
        return f"{self.key.workflow}/{self.key.id} (number {self.number})"


class Trace:
    """The records of one simulation."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._told: tuple[int, list[Story]] = (0, [])

    def add(self, record: Record) -> None:
        """Write down what has just happened."""
        self.records.append(record)

    def stories(self) -> list[Story]:
        """Tell it instance by instance, in order of creation."""
        if self._told[0] != len(self.records):
            teller = _Teller()
            for place, record in enumerate(self.records):
                teller.hear(place, record)
            self._told = len(self.records), list(teller.by_number.values())
        return self._told[1]

    def text(self) -> str:
        """Put it in words: the same for two runs exactly if the same happened."""
        return "\n".join(_line(record) for record in self.records)


class _Teller:
    """Deals the records out to the instances that they are about."""

    def __init__(self) -> None:
        self.by_number: dict[int, Story] = {}
        self._by_key: dict[InstanceKey, Story] = {}
        self._living: dict[int, Story] = {}

    def hear(self, place: int, record: Record) -> None:
        match record:
            case Committed(commit=commit):
                for number, happening in _in_order(commit):
                    if isinstance(happening, InstanceRow):
                        self._begin(happening)
                    self.by_number[number].happenings.append((place, happening))
            case Invoked(key=key):
                self._by_key[key].happenings.append((place, record))
            case CommitReturned() | ProcessStarted() | ProcessEnded():
                for number, story in list(self._living.items()):
                    was_deleted = isinstance(story.happenings[-1][1], Deleted)
                    story.happenings.append((place, record))
                    if was_deleted:
                        del self._living[number]
            case Asked() | Answered():
                pass

    def _begin(self, row: InstanceRow) -> None:
        story = Story(row.creation.key, row.number)
        self.by_number[row.number] = self._living[row.number] = self._by_key[story.key] = story


def _in_order(commit: Commit) -> Iterator[tuple[int, InstanceRow | EntryRow | Cut | Deleted]]:
    for number in commit.deleted:
        yield number, Deleted(number)
    for part in (*commit.cuts, *commit.created, *commit.entries):
        yield part.number, part


def _line(record: Record) -> str:
    if not isinstance(record, Committed):
        return repr(record)
    commit = record.commit
    cuts = [(cut.number, cut.steps and sorted(cut.steps)) for cut in commit.cuts]
    entries = [(type(each.entry.fact).__name__, each) for each in commit.entries]
    rows = [*commit.created, *commit.updated.values()]
    timers = [commit.disarmed, commit.armed]
    hooks = list(commit.hooks.values())
    parts = [record.at_ms, commit.deleted, cuts, rows, entries, commit.taken, timers, hooks]
    return msgspec.json.encode(parts).decode()
