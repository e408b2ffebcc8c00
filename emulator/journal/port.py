"""The port to the journal: what the engine asks of storage.

The engine is the only writer. It writes one `Commit` a turn, and one for a tick of the Worker's: all of it or nothing. What a commit holds, per
instance, is already consistent; the journal adds no rule of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from emulator.domain.entries import Entry
from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.errors import JournalCorrupt
from emulator.journal.codes import Codes


class InstanceRow(NamedTuple):
    """The row that listings and scheduling read. `number` is the journal's own short name for an instance.

    `waking` says of a queued one that it goes before those that have never run, and of a waiting one that its code has
    timers of its own; `expires_ms` of a finished one how long it is kept. `attributes` are those that its entries add up to.
    """

    number: int
    creation: Creation
    status: InstanceStatus
    modified_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    waking: bool = False
    expires_ms: int | None = None
    attributes: Mapping[str, str] = {}


class EntryRow(msgspec.Struct, frozen=True, gc=False):
    """An entry at its place: `seq` starts at one and grows inside an instance, with gaps after a cut."""

    number: int
    seq: int
    entry: Entry


class TimerRow(NamedTuple):
    """A deadline that outlives the process: a sleep's, a wait's, or a retry's."""

    number: int
    step: StepKey
    due_ms: int


class TickRow(NamedTuple):
    """Until when the ticks of a schedule are settled: the last one that was admitted, or when it was first seen.

    `workflow` is empty for a cron trigger of the Worker.
    """

    workflow: str
    cron: str
    last_ms: int


class ChunkRow(NamedTuple):
    """A chunk of an output stream. `place` counts from 0, without gaps; `value` is a stored value.

    `step` is the label of the step whose `attempt` wrote it; both are None for one that no callback of a step wrote. A
    stream whose name is U+001F and a step's label holds what that step has returned, in pieces.
    """

    number: int
    stream: str
    place: int
    step: str | None
    attempt: int | None
    value: msgspec.Raw


class ClosedRow(NamedTuple):
    """A stream that takes no more chunks, and the label of the step that closed it (None: no step)."""

    number: int
    stream: str
    step: str | None


class StreamCommit(msgspec.Struct):
    """What a commit does to streams, in the order of its fields."""

    cleared: list[tuple[int, str]] = []
    """Streams (instance, name) whose chunks go."""
    chunks: list[ChunkRow] = []
    closed: list[ClosedRow] = []
    """One that is closed already changes nothing."""


class StreamState(NamedTuple):
    """How many chunks a stream has, and whether it is closed."""

    length: int
    is_closed: bool


class StreamPage(NamedTuple):
    """Chunks of a stream, in order, and how stream and instance were when they were read.

    A restart of the whole instance, which begins its streams anew, moves `started_ms`.
    """

    number: int
    status: InstanceStatus
    started_ms: int | None
    state: StreamState
    chunks: list[ChunkRow]


class Cut(NamedTuple):
    """What a restart removes: the whole journal of an instance (`steps` is None), or, beside everything that is about
    the instance itself, its mailbox and its rollbacks, all that is about the given steps. Queued and started stay.

    The whole journal includes the streams. A restart from a step keeps their chunks, so that an index means the same to
    those who read: steps that run again append, and their attempts count from 1 anew. What the given steps have closed
    is open again, and what they have returned in pieces goes.
    """

    number: int
    steps: frozenset[StepKey] | None


class Commit(msgspec.Struct):
    """One transaction. It is applied in the order of its fields."""

    deleted: list[int] = []
    cuts: list[Cut] = []
    created: list[InstanceRow] = []
    updated: dict[int, InstanceRow] = {}
    entries: list[EntryRow] = []
    """`EventReceived` goes to the mailbox, and comes back from `load` at its place among the others."""
    taken: list[tuple[int, int]] = []
    """Events (instance, seq) that leave the mailbox."""
    disarmed: list[tuple[int, StepKey | None]] = []
    """Timers that go: one step's, or all of an instance's (None)."""
    armed: list[TimerRow] = []
    ticks: list[TickRow] = []
    """One earlier than what is stored changes nothing."""
    hooks: dict[str, HookRecord] = {}
    """By id, as they are from now on; those that are released go. A deleted instance leaves its own to this."""
    streams: StreamCommit | None = None


class StoredInstance(NamedTuple):
    """An instance as it is found again: its row and its whole journal, in order.

    `outputs` is what its steps have returned as streams, where that is looked for: `load` does not.
    """

    row: InstanceRow
    entries: list[tuple[int, Entry]]
    outputs: tuple[ChunkRow, ...] = ()


class InstanceQuery(NamedTuple):
    """Which instances a listing wants: newest first unless `ascending`. Times are inclusive bounds on creation.

    `attributes` are those that an instance must have, each a name and a value.
    `after` is the number of the last row of the page before; `offset` counts rows to skip.
    """

    workflow: str
    status: InstanceStatus | None = None
    created_from_ms: int | None = None
    created_to_ms: int | None = None
    ascending: bool = False
    after: int | None = None
    offset: int = 0
    limit: int = 25
    attributes: tuple[tuple[str, str], ...] = ()


class HookQuery(NamedTuple):
    """Which hooks a listing wants, of a workflow or an instance. `after` is the last one of the page before."""

    workflow: str | None = None
    instance_id: str | None = None
    after: tuple[int, str] = (-1, "")
    """Its `created_ms` and `hook_id`."""
    limit: int = 100


class Journal(Protocol):
    """Storage. Every method may raise `StorageError`; after a failed commit the journal must not be used again."""

    @property
    def codes(self) -> Codes:
        """Where the code of dynamic workflows lies."""
        ...

    async def open(self) -> None:
        """Make it usable.

        Raises:
            JournalLocked: another process owns it.
            JournalTooNew: a later version wrote it.
            JournalCorrupt: it is not a journal, or is damaged.
            JournalUnavailable: it cannot be written.
        """
        ...

    async def close(self) -> None:
        """Give it up. Idempotent."""
        ...

    async def commit(self, commit: Commit) -> None:
        """Write all of it, or nothing and raise."""
        ...

    async def last_number(self) -> int:
        """The highest number ever given to an instance (0: none), so that numbers are not used again."""
        ...

    async def load(
        self, keys: Sequence[InstanceKey]
    ) -> dict[InstanceKey, StoredInstance | JournalCorrupt]:
        """The instances of these names, those that exist; for one that does not decode, the error."""
        ...

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """The first of these instances, as `load` gives them, so that memory does not grow with their number.

        Says how many of the keys those are: one at least, if there is one.
        """
        ...

    async def entries(self, key: InstanceKey, after_seq: int, limit: int) -> list[EntryRow]:
        """The next entries of an instance, in order, without those of its mailbox. None if it does not exist."""
        ...

    async def existing(self, keys: Sequence[InstanceKey]) -> set[InstanceKey]:
        """Which of these names are taken."""
        ...

    async def row(self, key: InstanceKey) -> InstanceRow | None:
        """One instance's row."""
        ...

    async def rows(self, query: InstanceQuery) -> list[InstanceRow]:
        """A page of a listing."""
        ...

    async def count(self, query: InstanceQuery) -> int:
        """How many instances the query matches, whatever its page."""
        ...

    async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
        """How many instances of the workflow there are, by status; statuses with none are left out."""
        ...

    async def recoverable(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Instances that must be taken up at start, each with its number, in order of that, above `after`: running, waiting
        for pause, rolling back. (Queued ones stand in the queue, waiting ones are found by their timers, paused ones by a
        request.)"""
        ...

    async def restless(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Waiting instances that must be taken up at start all the same, as `recoverable` gives them: their code has timers
        of its own, of which the journal knows nothing."""
        ...

    async def unfinished(self, known: Collection[str]) -> dict[str, int]:
        """How many unfinished instances there are of each workflow that is not among the known ones, if there are any."""
        ...

    async def queued(self, workflow: str, limit: int, *, waking: bool) -> list[InstanceKey]:
        """The first of the workflow's queue, of those that wake or of the others: who was queued first, then by number."""
        ...

    async def due(
        self, until_ms: int, limit: int, after: TimerRow | None = None
    ) -> list[tuple[InstanceKey, TimerRow]]:
        """The earliest timers of waiting and running instances due at or before `until_ms`, in order of due time.

        With `after` only those behind that one: ties are in order of number, and of kind and label of the step. (The timers of queued and rolling-back instances are armed again when they start.)
        """
        ...

    async def next_due_ms(self, after_ms: int) -> int | None:
        """When the earliest timer, of those that `due` would give, is due later than `after_ms`."""
        ...

    async def expired(self, until_ms: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """The instances, each with its number, that expire first, at or before `until_ms`, in order of that."""
        ...

    async def next_expiry_ms(self) -> int | None:
        """When the next instance expires, or the retention of a token is over, or should have been."""
        ...

    async def shrink(self, most_pages: int, /) -> bool:
        """Give room that is free inside the file back, `most_pages` at most; says whether there is more.

        The file is shorter when a call has said that there is no more.
        """
        ...

    async def holders(self, tokens: Sequence[TokenKey]) -> dict[TokenKey, HookRecord]:
        """Who holds these tokens, or held them last: a retention that is over is for the caller to see."""
        ...

    async def hooks(self, query: HookQuery) -> list[HookRecord]:
        """A page of the hooks that are there, oldest first."""
        ...

    async def forget_tokens(self, until_ms: int) -> None:
        """Remove what is left of hooks whose retention is over at this time."""
        ...

    async def seed(self) -> str:
        """A secret of this journal, from which it can be told what nobody can guess: always the same."""
        ...

    async def last_ticks(self) -> dict[tuple[str, str], int]:
        """Until when each schedule is settled, by workflow and cron expression, also of those that are gone."""
        ...

    async def stream_states(
        self, streams: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StreamState]:
        """How each of these streams (instance, name) is; one that nobody has written to is empty and open."""
        ...

    async def streams(self, key: InstanceKey) -> dict[str, StreamState] | None:
        """The streams of an instance, those for users, by name, in order of name. None if it does not exist."""
        ...

    async def chunks(
        self, key: InstanceKey, stream: str, first: int, limit: int, most_bytes: int
    ) -> StreamPage | None:
        """The next chunks of a stream from place `first` on, and how it is; None if the instance does not exist.

        There are `limit` at most, and values of `most_bytes` together, but one chunk if there is one.
        """
        ...
