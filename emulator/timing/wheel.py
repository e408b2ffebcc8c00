"""A hierarchical timing wheel: the nearest of many deadlines, cheap to add and cheap to give up.

Theory
======
An instant is a number of milliseconds, read as nine digits of base 64. A timer stands on the level
of the highest digit in which its due time and the wheel's `now` differ, in the slot of its own
digit there. So a timer of the next 64 ms has a slot of one millisecond, one that is a year away shares a
slot with its neighbours of some weeks, and all that stands on one level is due before anything
above it. One bitmap says which slots are occupied, level over level: its lowest bit is the next
slot. When `now` reaches a slot, what is due in it goes out and the rest moves to lower levels:
at most eight times in a timer's life.

Most timers here are timeouts that are cancelled at once. A timer knows its place, so that cancelling is
a removal from that slot and leaves nothing behind.

The wheel has no clock: it learns what time it is from `advance`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_BITS = 6  # of a digit
_SLOTS = 1 << _BITS
_LEVELS = 9
HORIZON_MS = 1 << _BITS * _LEVELS
"""Instants are below this one: twice the range of ECMAScript's dates."""


class Timer(msgspec.Struct, Generic[T], eq=False):
    """An item and when it is due. Every timer is itself alone, whatever it holds.

    `place` is where it stands in the wheel: level and slot as one index; None once it is out.
    """

    due_ms: int
    item: T
    place: int | None = None


class TimerWheel(Generic[T]):
    """Timers in the order in which they fall due."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._count = 0
        self._occupied = 0
        self._slots: list[dict[Timer[T], None]] = [{} for _ in range(_LEVELS * _SLOTS)]

    def __len__(self) -> int:
        return self._count

    def schedule(self, due_ms: int, item: T) -> Timer[T]:
        """Add a timer; one that is already due goes out with the next `advance`."""
        assert due_ms < HORIZON_MS, f"{due_ms} ms is beyond what the timer wheel can hold"
        timer = Timer(due_ms, item)
        self._put(timer)
        self._count += 1
        return timer

    def cancel(self, timer: Timer[T]) -> None:
        """Take a timer out; nothing happens when it has gone out or was cancelled before."""
        place = timer.place
        if place is None:
            return
        timer.place = None
        slot = self._slots[place]
        del slot[timer]
        self._count -= 1
        if not slot:
            self._occupied ^= 1 << place

    def advance(self, now_ms: int) -> list[Timer[T]]:
        """Move to `now_ms` and take out what is due, by due time, then in the order of scheduling.

        A `now_ms` before the wheel's own changes nothing: time does not run backwards here, and
        nothing goes out early.
        """
        if now_ms < self._now_ms:
            return []
        due: list[Timer[T]] = []
        later: list[Timer[T]] = []
        while (start_ms := self.next_wake_ms()) is not None and start_ms <= now_ms:
            for timer in self._take(self._place(start_ms)):
                timer.place = None
                (due if timer.due_ms <= now_ms else later).append(timer)
        self._now_ms = now_ms
        self._count -= len(due)
        for timer in later:
            self._put(timer)
        # Timers of one due time stood in one slot, in order; the sort is stable.
        due.sort(key=attrgetter("due_ms"))
        return due

    def next_wake_ms(self) -> int | None:
        """Tell when the next occupied slot begins: no timer is due before; None: there is no timer.

        An `advance` at that time may find nothing due and only move timers to finer slots.
        """
        if not self._occupied:
            return None
        place = (self._occupied & -self._occupied).bit_length() - 1
        shift = (place >> _BITS) * _BITS
        higher_digits = self._now_ms >> shift + _BITS
        return (higher_digits << _BITS | place & _SLOTS - 1) << shift

    def _place(self, due_ms: int) -> int:
        """Where a timer of this due time belongs: level and slot as one index."""
        now_ms = self._now_ms
        at_ms = max(due_ms, now_ms)
        level = ((at_ms ^ now_ms | 1).bit_length() - 1) // _BITS
        return level << _BITS | at_ms >> level * _BITS & _SLOTS - 1

    def _put(self, timer: Timer[T]) -> None:
        place = timer.place = self._place(timer.due_ms)
        slot = self._slots[place]
        if not slot:
            self._occupied |= 1 << place
        slot[timer] = None

    def _take(self, place: int) -> dict[Timer[T], None]:
        """Empty a slot."""
        taken = self._slots[place]
        self._slots[place] = {}
        self._occupied ^= 1 << place
        return taken
