"""The law of answers: what clients have been told is true."""

from __future__ import annotations

from operator import itemgetter

from emulator.domain import entries as facts
from emulator.domain.entries import Entry
from emulator.domain.instance import InstanceKey
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.journal.port import Cut, EntryRow, InstanceRow
from emulator.testing.laws.breach import LawBroken, statuses
from emulator.testing.laws.hooks import RESUME
from emulator.testing.trace import (
    Answered,
    Asked,
    Deleted,
    ProcessEnded,
    Story,
    Trace,
)


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
    "resume": frozenset(InstanceStatus) - {InstanceStatus.PAUSED, InstanceStatus.WAITING_FOR_PAUSE},
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
    "hook_conflict": frozenset({*InstanceStatus, None}),
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
        for timeline in self._timelines.values():
            timeline.sort(
                key=itemgetter(0)
            )  # an id may have had several lives, told one after the other

    def _read(self, story: Story) -> None:
        timeline = self._timelines.setdefault(story.key, [])
        places = [place for place, _ in story.happenings]
        for place, (happening, status) in zip(places, statuses(story), strict=True):
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
        if call.operation == RESUME:
            return  # see `laws.hooks`
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
