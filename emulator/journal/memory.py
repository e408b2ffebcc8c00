"""`MemoryJournal`: dictionaries. What every other journal must agree with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from emulator.domain.entries import (
    ROLLBACK_EVENTS,
    Entry,
    EventReceived,
    WorkflowQueued,
    WorkflowStarted,
)
from emulator.domain.hooks import HookStage
from emulator.domain.names import RESERVED
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import JournalCorrupt
from emulator.journal.codes import MemoryCodes
from emulator.journal.port import (
    ChunkRow,
    Commit,
    Cut,
    EntryRow,
    HookQuery,
    InstanceQuery,
    InstanceRow,
    StoredInstance,
    StreamCommit,
    StreamPage,
    StreamState,
    TickRow,
    TimerRow,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from emulator.domain.hooks import HookRecord, TokenKey
    from emulator.domain.instance import InstanceKey

_RECOVERABLE = frozenset(
    {
        InstanceStatus.RUNNING,
        InstanceStatus.WAITING_FOR_PAUSE,
        InstanceStatus.ROLLING_BACK,
    }
)


@dataclass(slots=True)
class _Instance:
    row: InstanceRow
    entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    timers: dict[StepKey, int] = field(default_factory=dict[StepKey, int])
    chunks: dict[str, list[ChunkRow]] = field(default_factory=dict[str, list[ChunkRow]])
    closed: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def state(self, stream: str) -> StreamState:
        return StreamState(len(self.chunks.get(stream, ())), stream in self.closed)


class MemoryJournal:
    """A journal that lasts as long as the object: closed and opened again, it still has everything."""

    def __init__(self) -> None:
        self._instances: dict[int, _Instance] = {}
        self._numbers: dict[InstanceKey, int] = {}
        self._last_number = 0
        self._last_ticks: dict[tuple[str, str], int] = {}
        self._hooks: dict[TokenKey, HookRecord] = {}
        self.codes = MemoryCodes()

    async def open(self) -> None:
        """Do nothing: there is nothing to open."""

    async def close(self) -> None:
        """Do nothing: the object keeps what it has."""

    async def commit(self, commit: Commit) -> None:
        """Write all of it. See `Journal.commit`."""
        for number in commit.deleted:
            if gone := self._instances.pop(number, None):
                del self._numbers[gone.row.creation.key]
        for cut in commit.cuts:
            self._cut(cut)
        for row in commit.created:
            assert row.creation.key not in self._numbers, "names are unique"
            self._instances[row.number] = _Instance(row)
            self._numbers[row.creation.key] = row.number
            self._last_number = max(self._last_number, row.number)
        for number, row in commit.updated.items():
            self._instances[number].row = row
        for each in commit.entries:
            entries = self._instances[each.number].entries
            assert each.seq not in entries, "an entry is written once"
            entries[each.seq] = each.entry
        for number, seq in commit.taken:
            self._instances[number].entries.pop(seq, None)
        for number, step in commit.disarmed:
            if instance := self._instances.get(number):
                if step is None:
                    instance.timers.clear()
                else:
                    instance.timers.pop(step, None)
        for number, step, due_ms in commit.armed:
            self._instances[number].timers[step] = due_ms
        self._settle(commit.ticks)
        self._hold(commit.hooks.values())
        self._write(commit.streams or StreamCommit())

    async def last_number(self) -> int:
        """The highest number ever given."""
        return self._last_number

    async def load(
        self, keys: Sequence[InstanceKey]
    ) -> dict[InstanceKey, StoredInstance | JournalCorrupt]:
        """The instances of these names, those that exist; for one that does not decode, the error."""
        return {
            key: StoredInstance(instance.row, sorted(instance.entries.items()))
            for key in keys
            if (instance := self._named(key))
        }

    async def load_some(
        self, keys: Sequence[InstanceKey]
    ) -> tuple[dict[InstanceKey, StoredInstance | JournalCorrupt], int]:
        """All of these instances: they are in memory."""
        return await self.load(keys), len(keys)

    async def entries(self, key: InstanceKey, after_seq: int, limit: int) -> list[EntryRow]:
        """The next entries of an instance, in order, without those of its mailbox."""
        instance = self._named(key)
        if instance is None:
            return []
        rows = [
            EntryRow(instance.row.number, seq, entry)
            for seq, entry in instance.entries.items()
            if seq > after_seq and not isinstance(entry.fact, EventReceived)
        ]
        return sorted(rows, key=attrgetter("seq"))[:limit]

    async def existing(self, keys: Sequence[InstanceKey]) -> set[InstanceKey]:
        """Which of these names are taken."""
        return self._numbers.keys() & set(keys)

    async def row(self, key: InstanceKey) -> InstanceRow | None:
        """One instance's row."""
        instance = self._named(key)
        return instance and instance.row

    async def rows(self, query: InstanceQuery) -> list[InstanceRow]:
        """A page of a listing."""
        rows = sorted(self._matching(query), key=_age, reverse=not query.ascending)
        if query.after is not None:
            place = self._place(query.after)
            rows = [
                row for row in rows if (_age(row) > place if query.ascending else _age(row) < place)
            ]
        return rows[query.offset : query.offset + query.limit]

    async def count(self, query: InstanceQuery) -> int:
        """How many instances the query matches, whatever its page."""
        return sum(1 for _ in self._matching(query))

    async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
        """How many instances of the workflow there are, by status."""
        return dict(Counter(row.status for row in self._matching(InstanceQuery(workflow))))

    async def recoverable(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Instances that must be taken up at start, in order of number."""
        return self._found(after, limit, lambda row: row.status in _RECOVERABLE)

    async def restless(self, after: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """Waiting instances whose code has timers of its own, in order of number."""
        return self._found(
            after, limit, lambda row: row.status is InstanceStatus.WAITING and row.waking
        )

    def _found(
        self, after: int, limit: int, wanted: Callable[[InstanceRow], bool]
    ) -> list[tuple[InstanceKey, int]]:
        numbers = sorted(number for number in self._instances if number > after)
        rows = (self._instances[number].row for number in numbers)
        return [(row.creation.key, row.number) for row in rows if wanted(row)][:limit]

    async def unfinished(self, known: Collection[str]) -> dict[str, int]:
        """How many unfinished instances there are of each workflow that is not among the known ones."""
        rows = (instance.row for instance in self._instances.values())
        workflows = (row.creation.workflow for row in rows if row.status not in TERMINAL)
        return dict(Counter(each for each in workflows if each not in known))

    async def queued(self, workflow: str, limit: int, *, waking: bool) -> list[InstanceKey]:
        """The first of the workflow's queue, of those that wake or of the others."""
        query = InstanceQuery(workflow, InstanceStatus.QUEUED)
        rows = [row for row in self._matching(query) if row.waking is waking]
        rows.sort(key=lambda row: (row.modified_ms, row.number))
        return [row.creation.key for row in rows[:limit]]

    async def expired(self, until_ms: int, limit: int) -> list[tuple[InstanceKey, int]]:
        """The instances that expire first, each with its number."""
        expiries = [each for each in self._expiries() if each[0] <= until_ms]
        return [
            (self._instances[number].row.creation.key, number)
            for _, number in sorted(expiries)[:limit]
        ]

    async def next_expiry_ms(self) -> int | None:
        """When the next instance expires, or the retention of a token is over, or should have been."""
        ends_ms = [expires_ms for expires_ms, _ in self._expiries()]
        ends_ms += [
            hook.retain_until_ms
            for hook in self._hooks.values()
            if hook.stage is HookStage.RETAINED and hook.retain_until_ms is not None
        ]
        return min(ends_ms, default=None)

    async def shrink(self, _: int, /) -> bool:
        """Do nothing: there is no file."""
        return False

    async def due(
        self, until_ms: int, limit: int, after: TimerRow | None = None
    ) -> list[tuple[InstanceKey, TimerRow]]:
        """The earliest timers of waiting and running instances, in order of due time."""
        timers = [timer for timer in self._live_timers() if timer.due_ms <= until_ms]
        if after is not None:
            timers = [timer for timer in timers if _turn(timer) > _turn(after)]
        timers.sort(key=_turn)
        return [(self._instances[timer.number].row.creation.key, timer) for timer in timers[:limit]]

    async def next_due_ms(self, after_ms: int) -> int | None:
        """When the earliest timer of a waiting instance later than `after_ms` is due."""
        later = (timer.due_ms for timer in self._live_timers() if timer.due_ms > after_ms)
        return min(later, default=None)

    async def holders(self, tokens: Sequence[TokenKey]) -> dict[TokenKey, HookRecord]:
        """Who holds these tokens, or held them last."""
        return {token: self._hooks[token] for token in tokens if token in self._hooks}

    async def hooks(self, query: HookQuery) -> list[HookRecord]:
        """A page of the hooks that are there, oldest first."""
        found = [
            hook
            for hook in self._hooks.values()
            if query.workflow in (None, hook.workflow)
            and query.instance_id in (None, hook.instance_id)
            and (hook.created_ms, hook.hook_id) > query.after
        ]
        return sorted(found, key=attrgetter("created_ms", "hook_id"))[: query.limit]

    async def forget_tokens(self, until_ms: int) -> None:
        """Remove what is left of hooks whose retention is over at this time."""
        self._hooks = {
            key: hook
            for key, hook in self._hooks.items()
            if hook.stage is HookStage.LIVE or hook.holds_at(until_ms)
        }

    async def seed(self) -> str:
        """A text that is no secret: what is in memory is a test."""
        return "memory"

    async def last_ticks(self) -> dict[tuple[str, str], int]:
        """Until when each schedule is settled."""
        return dict(self._last_ticks)

    async def stream_states(
        self, streams: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StreamState]:
        """How each of these streams (instance, name) is."""
        empty = StreamState(0, is_closed=False)
        return {
            (number, stream): self._instances[number].state(stream)
            if number in self._instances
            else empty
            for number, stream in streams
        }

    async def streams(self, key: InstanceKey) -> dict[str, StreamState] | None:
        """The streams of an instance, those for users, by name, in order of name."""
        instance = self._named(key)
        if instance is None:
            return None
        names = sorted(instance.chunks.keys() | instance.closed.keys())
        return {name: instance.state(name) for name in names if not name.startswith(RESERVED)}

    async def chunks(
        self, key: InstanceKey, stream: str, first: int, limit: int, most_bytes: int
    ) -> StreamPage | None:
        """The next chunks of a stream from place `first` on, and how it is."""
        instance = self._named(key)
        if instance is None:
            return None
        page: list[ChunkRow] = []
        size_bytes = 0
        for chunk in instance.chunks.get(stream, [])[first : first + limit]:
            size_bytes += len(bytes(chunk.value))
            if page and size_bytes > most_bytes:
                break
            page.append(chunk)
        row = instance.row
        return StreamPage(row.number, row.status, row.started_ms, instance.state(stream), page)

    def _write(self, commit: StreamCommit) -> None:
        for number, stream in commit.cleared:
            self._instances[number].chunks.pop(stream, None)
        for chunk in commit.chunks:
            chunks = self._instances[chunk.number].chunks.setdefault(chunk.stream, [])
            assert chunk.place == len(chunks), "places are dense"
            chunks.append(chunk)
        for number, stream, step in commit.closed:
            self._instances[number].closed.setdefault(stream, step)

    def _settle(self, ticks: list[TickRow]) -> None:
        for workflow, cron, last_ms in ticks:
            known_ms = self._last_ticks.get((workflow, cron), last_ms)
            self._last_ticks[workflow, cron] = max(known_ms, last_ms)

    def _hold(self, hooks: Iterable[HookRecord]) -> None:
        """Note what these hooks are from now on."""
        for hook in hooks:
            former = self._hooks.get(hook.key)
            if hook.stage is not HookStage.RELEASED:
                self._hooks[hook.key] = hook
            elif former is not None and former.hook_id == hook.hook_id:
                del self._hooks[hook.key]

    def _named(self, key: InstanceKey) -> _Instance | None:
        number = self._numbers.get(key)
        return None if number is None else self._instances[number]

    def _cut(self, cut: Cut) -> None:
        if instance := self._instances.get(cut.number):
            entries = instance.entries.items()
            instance.entries = {seq: entry for seq, entry in entries if _survives(entry, cut.steps)}
            _cut_streams(instance, cut.steps)

    def _matching(self, query: InstanceQuery) -> Iterator[InstanceRow]:
        for instance in self._instances.values():
            made = instance.row.creation
            if (
                made.workflow == query.workflow
                and query.status in (None, instance.row.status)
                and (query.created_from_ms is None or made.created_ms >= query.created_from_ms)
                and (query.created_to_ms is None or made.created_ms <= query.created_to_ms)
                and all(each in instance.row.attributes.items() for each in query.attributes)
            ):
                yield instance.row

    def _place(self, after: int) -> tuple[int, int]:
        """Where in the order of age a listing had come; of a deleted row the one before it tells."""
        number = max((number for number in self._instances if number <= after), default=None)
        return (0 if number is None else self._instances[number].row.creation.created_ms), after

    def _expiries(self) -> Iterator[tuple[int, int]]:
        for number, instance in self._instances.items():
            if instance.row.expires_ms is not None:
                yield instance.row.expires_ms, number

    def _live_timers(self) -> Iterator[TimerRow]:
        for number, instance in self._instances.items():
            if instance.row.status in (InstanceStatus.WAITING, InstanceStatus.RUNNING):
                for step, due_ms in instance.timers.items():
                    yield TimerRow(number, step, due_ms)


def _turn(timer: TimerRow) -> tuple[int, int, str, str]:
    return timer.due_ms, timer.number, timer.step.kind, timer.step.label


def _age(row: InstanceRow) -> tuple[int, int]:
    return row.creation.created_ms, row.number


def _survives(entry: Entry, cut: frozenset[StepKey] | None) -> bool:
    if cut is None or entry.fact.event in ROLLBACK_EVENTS:
        return False
    if entry.step is None:
        return isinstance(entry.fact, WorkflowQueued | WorkflowStarted)
    return entry.step not in cut


def _cut_streams(instance: _Instance, cut: frozenset[StepKey] | None) -> None:
    if cut is None:
        instance.chunks.clear()
        instance.closed.clear()
        return
    labels = {step.label for step in cut if step.kind is StepKind.DO}
    for label in labels:
        instance.chunks.pop(RESERVED + label, None)
    instance.closed = {
        stream: step
        for stream, step in instance.closed.items()
        if step is not None and step not in labels
    }
