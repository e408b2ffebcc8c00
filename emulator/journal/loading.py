"""Reading whole instances, however large: no text that SQLite makes, and none that is in memory, grows with them.

Theory of operation
===================
A text of SQLite's has 1 GB at most, and a thousand values of 1 MiB have more. So a statement measures first what it is
about to read, and reads nothing if that is too much. Then it is asked for fewer instances; what one instance alone is too
large for is read in pieces, some entries at a time. How many instances fit is remembered, so that a long series of large
ones is not measured over and over.

What is to be asked, in which order, stands here; who asks is not known here. A generator gives a statement's name and its
parameters, and is sent the rows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, TypeVar

from emulator.domain.entries import Entry
from emulator.domain.instance import InstanceKey
from emulator.errors import JournalCorrupt
from emulator.journal.port import StoredInstance
from emulator.journal.rows import (
    from_json,
    instances_from_json,
    journal_from_json,
    stored_from_json,
    to_json,
)

T = TypeVar("T")

Asking = Generator[tuple[str, Mapping[str, object]], list[Any], T]
"""Statements and their parameters; it is sent the rows, and returns what they add up to."""

Found = dict[InstanceKey, StoredInstance | JournalCorrupt]

MOST_CHARS = 16 * 2**20
"""How much is read at a time; one more value of 1 MiB may come on top."""

MOST_INSTANCES = 1_000
"""How many instances are read at a time."""


class Loading:
    """What has to be asked to read instances."""

    def __init__(self) -> None:
        self._many = MOST_INSTANCES

    def all(self, keys: Sequence[InstanceKey]) -> Asking[Found]:
        """Read all of these instances, those that exist."""
        found: Found = {}
        rest = list(dict.fromkeys(keys))
        while rest:
            some, many = yield from self.some(rest)
            found |= some
            rest = rest[many:]
        return found

    def some(self, keys: Sequence[InstanceKey]) -> Asking[tuple[Found, int]]:
        """Read the first of these instances, as many as fit together, and one at least; says how many keys that were."""
        while True:
            first = keys[: self._many]
            texts = yield "load", {"keys": to_json(first), "most_chars": MOST_CHARS}
            if texts:
                if len(first) == self._many:
                    self._many = min(MOST_INSTANCES, 2 * self._many)
                return stored_from_json(*texts[0]), len(first)
            if len(first) == 1:
                return (yield from _pieces(first[0])), 1
            self._many = max(1, len(first) // 4)


def _pieces(key: InstanceKey) -> Asking[Found]:
    """Read an instance that is too large for one text."""
    [(row,)] = yield "row", key._asdict()
    measured = yield "sizes", key._asdict()
    if not measured:
        return {}  # it has been deleted since it was found to be too large
    [(number, sizes)] = measured
    journal: list[tuple[int, Entry]] = []
    try:
        for first, last in _spans(from_json(sizes, list[tuple[int, int]])):
            piece = {"number": number, "first_seq": first, "last_seq": last}
            [(entries, events)] = yield "piece", piece
            journal += journal_from_json(key, entries, events)
        [shown] = instances_from_json(row)
    except JournalCorrupt as error:
        return {key: error}
    return {key: StoredInstance(shown, journal)}


def _spans(sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and the last of those that are read together, of numbered things and their sizes."""
    ends = accumulate(size for _, size in sizes)
    placed = zip(ends, (seq for seq, _ in sizes), strict=True)
    spans: list[tuple[int, int]] = []
    for _, some in groupby(placed, lambda each: each[0] // MOST_CHARS):
        seqs = [seq for _, seq in some]
        spans.append((seqs[0], seqs[-1]))
    return spans
