"""Facts, entries and instances as rows, and back.

Rows cross into SQLite and out of it as JSON texts of arrays (see `queries.sql`). What a user's value or an entry
says is a string inside them, so that its text is kept to the letter and its depth does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from emulator.domain.entries import FACTS, STEP_KINDS, Entry, EventReceived, Fact
from emulator.domain.hooks import HookRecord, HookStage
from emulator.domain.instance import Creation, InstanceKey, Schedule, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import JournalCorrupt
from emulator.journal.port import (
    ChunkRow,
    Commit,
    EntryRow,
    InstanceRow,
    StoredInstance,
    StreamCommit,
    StreamPage,
    StreamState,
    TimerRow,
)

_T = TypeVar("_T")

MOST_TEXT_CHARS = 64 * 2**20
"""How long a text for SQLite may be before it is cut: SQLite takes 1 GB, and one more row may come on top."""

StoredEntry = tuple[int, int, int, int, str | None, str]
"""number, seq, event, at_ms, step's label, body"""

StoredEvent = tuple[int, int, int, str, str | None, str | None]
"""number, seq, at_ms, event_type, payload, delivery_id"""

StoredRow = tuple[
    int,
    str,
    str,
    str,
    int,
    int,
    int | None,
    int | None,
    int,
    int | None,
    str,
    str | None,
    int | None,
    int | None,
    str,
    str | None,
    str | None,
    int,
    str | None,
]
"""The columns of `instance`, in their order."""

StoredHook = tuple[str, str, str, str, str, int, str, int | None, int, str | None, HookStage]
"""The columns of `hook`, in their order."""

StoredTimer = tuple[str, str, int, StepKind, str, int]
"""workflow, id, number, kind, step's label, due_ms"""

StoredChunk = tuple[int, str, int, str | None, int | None, str]
"""number, stream, place, step's label, attempt, value"""


def to_json(value: object) -> str:
    """Encode rows for SQLite."""
    return msgspec.json.encode(value).decode()


def from_json(text: str, rows: type[_T]) -> _T:
    """Decode what SQLite has answered.

    Raises:
        JournalCorrupt: a column does not hold what it should.
    """
    try:
        return msgspec.json.decode(text, type=rows)
    except (msgspec.DecodeError, RecursionError) as error:
        raise JournalCorrupt(f"A row of the journal cannot be read: {error}.") from error


def entry_to_row(row: EntryRow) -> tuple[int, int, int, int, str | None, Fact]:
    """Flatten an entry; a step's kind is not kept, for it follows from the event. SQLite stores the text of the fact."""
    entry, step = row.entry, row.entry.step
    return row.number, row.seq, entry.fact.event, entry.at_ms, step and step.label, entry.fact


def _fact(kind: type[Fact], body: str) -> Fact:
    if "payload" not in kind.__struct_fields__:
        return msgspec.json.decode(body, type=kind)
    # Apart, for msgspec reads `Raw | None` as None alone; and no payload is not the payload null.
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    payload = fields.pop("payload", None)
    fact = msgspec.json.decode(msgspec.json.encode(fields), type=kind)
    return msgspec.structs.replace(fact, payload=payload)


def entry_from_row(stored: StoredEntry, key: InstanceKey) -> Entry:
    """Read an entry of the instance `key`.

    Raises:
        JournalCorrupt: naming the workflow, the instance and the entry's place.
    """
    _, seq, event, at_ms, label, body = stored
    try:
        fact = _fact(FACTS[event], body)
        step = None if label is None else StepKey.from_label(STEP_KINDS[event], label)
    except (msgspec.DecodeError, RecursionError, KeyError, ValueError) as error:
        raise JournalCorrupt(
            f"Entry {seq} (event {event}) of instance {key.id!r} of workflow {key.workflow!r} "
            f"cannot be read: {type(error).__name__}: {error}."
        ) from error
    return Entry(at_ms, step, fact)


def event_to_row(row: EntryRow) -> StoredEvent:
    """Flatten an event for the mailbox."""
    fact = row.entry.fact
    assert isinstance(fact, EventReceived)
    payload = None if fact.payload is None else bytes(fact.payload).decode()
    return row.number, row.seq, row.entry.at_ms, fact.event_type, payload, fact.delivery_id


def event_from_row(stored: StoredEvent) -> tuple[int, Entry]:
    """Read an event of the mailbox, as the entry it is. Its payload is not looked into."""
    _, seq, at_ms, event_type, payload, delivery_id = stored
    raw = None if payload is None else msgspec.Raw(payload.encode())
    return seq, Entry(at_ms, None, EventReceived(event_type, raw, delivery_id))


def instance_to_row(row: InstanceRow) -> StoredRow:
    """Flatten an instance's row."""
    made = row.creation
    return (
        row.number,
        made.workflow,
        made.id,
        row.status,
        made.created_ms,
        row.modified_ms,
        row.started_ms,
        row.ended_ms,
        int(row.waking),
        row.expires_ms,
        made.source,
        to_json(made.schedule) if made.schedule else None,
        made.success_retention_ms,
        made.error_retention_ms,
        bytes(made.params).decode(),
        made.parent,
        made.code,
        made.logic,
        _attributes_text(row),
    )


def _attributes_text(row: InstanceRow) -> str | None:
    return to_json(row.attributes) if row.attributes else None


def instance_from_row(stored: StoredRow) -> InstanceRow:
    """Read an instance's row. Its params are not looked into: whoever needs them will.

    Raises:
        JournalCorrupt: naming the workflow and the instance.
    """
    number, workflow, id_, status, created_ms, modified_ms, started_ms, ended_ms = stored[:8]
    waking, expires_ms, source, schedule, success_retention_ms, error_retention_ms = stored[8:14]
    params, parent, code, logic, attributes = stored[14:]
    try:
        creation = Creation(
            workflow,
            id_,
            msgspec.Raw(params.encode()),
            created_ms,
            TriggerSource(source),
            msgspec.json.decode(schedule, type=Schedule) if schedule else None,
            success_retention_ms,
            error_retention_ms,
            parent,
            code,
            logic,
        )
        shown = InstanceStatus(status)
        found = from_json(attributes, dict[str, str]) if attributes else {}
    except (msgspec.DecodeError, ValueError) as error:
        raise JournalCorrupt(
            f"The row of instance {id_!r} of workflow {workflow!r} cannot be read: {error}."
        ) from error
    times = modified_ms, started_ms, ended_ms
    return InstanceRow(number, creation, shown, *times, bool(waking), expires_ms, found)


def hook_to_row(hook: HookRecord) -> StoredHook:
    """Flatten a hook."""
    scope, token = hook.key
    return (
        hook.hook_id,
        scope,
        token,
        hook.workflow,
        hook.instance_id,
        hook.created_ms,
        bytes(hook.metadata).decode(),
        hook.retain_until_ms,
        int(hook.is_webhook),
        hook.schema,
        hook.stage,
    )


def hooks_from_json(text: str) -> list[HookRecord]:
    """Read hooks."""
    return [
        HookRecord(
            hook_id, workflow, instance_id, token, created_ms, msgspec.Raw(metadata.encode()), retain_until_ms,
            bool(is_webhook), schema, stage,
        )
        for hook_id, _, token, workflow, instance_id, created_ms, metadata, retain_until_ms, is_webhook, schema, stage
        in from_json(text, list[StoredHook])
    ]  # fmt: skip


def keys_from_json(text: str) -> list[InstanceKey]:
    """Read names of instances."""
    return from_json(text, list[InstanceKey])


def numbered_keys_from_json(text: str) -> list[tuple[InstanceKey, int]]:
    """Read names of instances, each with its number."""
    return from_json(text, list[tuple[InstanceKey, int]])


def instances_from_json(text: str) -> list[InstanceRow]:
    """Read the instances of a listing."""
    return [instance_from_row(stored) for stored in from_json(text, list[StoredRow])]


def stored_from_json(
    rows: str, entries: str, events: str
) -> dict[InstanceKey, StoredInstance | JournalCorrupt]:
    """Put instances, their entries and their mailboxes together; for an instance that does not decode, the error."""
    journals: dict[int, list[StoredEntry]] = {}
    for entry in from_json(entries, list[StoredEntry]):
        journals.setdefault(entry[0], []).append(entry)
    mailboxes: dict[int, list[StoredEvent]] = {}
    for event in from_json(events, list[StoredEvent]):
        mailboxes.setdefault(event[0], []).append(event)
    return {
        InstanceKey(row[1], row[2]): _stored_instance(
            row, journals.get(row[0], []), mailboxes.get(row[0], [])
        )
        for row in from_json(rows, list[StoredRow])
    }


def _stored_instance(
    row: StoredRow, entries: list[StoredEntry], events: list[StoredEvent]
) -> StoredInstance | JournalCorrupt:
    try:
        journal = _journal(InstanceKey(row[1], row[2]), entries, events)
        return StoredInstance(instance_from_row(row), journal)
    except JournalCorrupt as error:
        return error


def journal_from_json(key: InstanceKey, entries: str, events: str) -> list[tuple[int, Entry]]:
    """Read a piece of an instance's journal, in order: entries, and what is in the mailbox.

    Raises:
        JournalCorrupt: naming the workflow, the instance and the entry's place.
    """
    return _journal(
        key, from_json(entries, list[StoredEntry]), from_json(events, list[StoredEvent])
    )


def _journal(
    key: InstanceKey, entries: list[StoredEntry], events: list[StoredEvent]
) -> list[tuple[int, Entry]]:
    journal = [(entry[1], entry_from_row(entry, key)) for entry in entries]
    journal += [event_from_row(event) for event in events]
    journal.sort(key=itemgetter(0))
    return journal


def timers_from_json(text: str) -> list[tuple[InstanceKey, TimerRow]]:
    """Read timers and whose they are."""
    return [
        (InstanceKey(workflow, id_), TimerRow(number, StepKey.from_label(kind, label), due_ms))
        for workflow, id_, number, kind, label, due_ms in from_json(text, list[StoredTimer])
    ]


def entries_to_columns(entries: list[EntryRow]) -> list[object]:
    """The columns of entries of the log, one entry after the other."""
    columns: list[object] = []
    last_step, label = None, None
    encode = msgspec.json.encode
    for row in entries:
        entry = row.entry
        step, fact = entry.step, entry.fact
        if step is not last_step:
            last_step, label = step, step and step.label
        columns += (row.number, row.seq, fact.event, entry.at_ms, label, encode(fact).decode())
    return columns


_CommitRows = dict[str, list[Any] | None]
"""The rows that a commit writes, by the columns of `whole_commit`, in their order; None: nothing at all."""


def commit_to_columns(commit: Commit) -> list[str | None]:
    """Encode a commit for SQLite: the columns of a row of `whole_commit`, or of several.

    There are several where a text would be too long for SQLite: then each row has a part of one column.
    """
    rows = _commit_rows(commit)
    texts = [None if each is None else to_json(each) for each in rows.values()]
    if all(text is None or len(text) <= MOST_TEXT_CHARS for text in texts):
        return texts
    columns: list[str | None] = []
    for place, each in enumerate(rows.values()):
        for part in _parts(each or []):
            columns += [part if index == place else None for index in range(len(rows))]
    return columns


def _parts(rows: list[Any]) -> Iterator[str]:
    """Encode rows as several texts, none much longer than is allowed."""
    part: list[str] = []
    chars = 0
    for row in rows:
        part.append(to_json(row))
        chars += len(part[-1])
        if chars > MOST_TEXT_CHARS:
            yield f"[{','.join(part)}]"
            part, chars = [], 0
    if part:
        yield f"[{','.join(part)}]"


def _commit_rows(commit: Commit) -> _CommitRows:
    entries = commit.entries
    logged = [entry_to_row(row) for row in entries if row.entry.fact.event != EventReceived.event]
    has_events = len(logged) < len(entries)
    return {
        "deleted": commit.deleted,
        "cuts": [
            (number, None if steps is None else [(step.kind, step.label) for step in steps])
            for number, steps in commit.cuts
        ],
        "created": [instance_to_row(row) for row in commit.created],
        "updated": [
            (
                row.number,
                row.status,
                row.modified_ms,
                row.started_ms,
                row.ended_ms,
                int(row.waking),
                row.expires_ms,
                _attributes_text(row),
            )
            for row in commit.updated.values()
        ],
        "entries": logged,
        "received": (
            [event_to_row(row) for row in entries if isinstance(row.entry.fact, EventReceived)]
            if has_events
            else None
        ),
        "taken": commit.taken,
        "disarmed": [
            (number, step and step.kind, step and step.label) for number, step in commit.disarmed
        ],
        "armed": [(number, step.kind, step.label, due_ms) for number, step, due_ms in commit.armed],
        "ticks": commit.ticks,
        "hooks": [hook_to_row(hook) for hook in commit.hooks.values()],
        **_stream_rows(commit.streams),
    }


def _stream_rows(commit: StreamCommit | None) -> _CommitRows:
    if commit is None:
        return {"cleared": None, "chunks": None, "closed": None}
    chunks = [
        (number, stream, place, step, attempt, len(text := bytes(value)), text.decode())
        for number, stream, place, step, attempt, value in commit.chunks
    ]
    return {"cleared": commit.cleared, "chunks": chunks, "closed": commit.closed}


def streams_to_columns(commit: StreamCommit) -> list[str]:
    """The columns of `stream_commit`, of a commit to streams and nothing else: it is never too long for a text."""
    return [to_json(rows) for rows in _stream_rows(commit).values()]


def states_from_json(text: str) -> dict[tuple[int, str], StreamState]:
    """Read how streams are, by instance and name."""
    return {
        (number, stream): StreamState(length, bool(closed))
        for number, stream, length, closed in from_json(text, list[tuple[int, str, int, int]])
    }


def page_from_row(stored: tuple[int, str, int | None, int, int, str]) -> StreamPage:
    """Read a page of a stream. The values are not looked into."""
    number, status, started_ms, length, closed, chunks = stored
    return StreamPage(
        number,
        InstanceStatus(status),
        started_ms,
        StreamState(length, bool(closed)),
        chunks_from_json(chunks),
    )


def chunks_from_json(text: str) -> list[ChunkRow]:
    """Read chunks of streams. The values are not looked into."""
    return [
        ChunkRow(number, stream, place, step, attempt, msgspec.Raw(value.encode()))
        for number, stream, place, step, attempt, value in from_json(text, list[StoredChunk])
    ]
