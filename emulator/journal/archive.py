"""A journal as a file of its own: one instance in a JSON document, to be kept and compared.

The format, version 1: an object with `version`; what the instance was created with (`workflow`, `id`, `params`,
`created_ms`, `source`, `schedule`, `success_retention_ms`, `error_retention_ms`, and since lately `code` and `logic`); how it is (`status`, `modified_ms`,
`started_ms`, `ended_ms`); and `entries`, in order: `seq`, `at_ms`, `event` (Cloudflare's number, `domain.entries`), `kind`
(its name, for people), `step` (the step's label, or null), `fact`. Events that nobody has taken are entries too. What steps
have returned as streams is in `outputs`, if there is any: `stream` (with the step's label), `place`, `step`, `attempt`, `value`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.domain.instance import Creation, InstanceKey, Schedule, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.errors import JournalCorrupt, JournalTooNew
from emulator.journal.port import ChunkRow, InstanceRow, StoredInstance
from emulator.journal.rows import entry_from_row

VERSION: Final = 1


class _Line(msgspec.Struct):
    seq: int
    at_ms: int
    event: int
    kind: str
    step: str | None
    fact: msgspec.Raw


class _Piece(msgspec.Struct):
    stream: str
    place: int
    step: str | None
    attempt: int | None
    value: msgspec.Raw


class _Version(msgspec.Struct):
    version: int


class _Document(msgspec.Struct, omit_defaults=True):
    version: int
    workflow: str
    id: str
    status: InstanceStatus
    created_ms: int
    modified_ms: int
    started_ms: int | None
    ended_ms: int | None
    source: TriggerSource
    schedule: Schedule | None
    success_retention_ms: int | None
    error_retention_ms: int | None
    params: msgspec.Raw
    entries: list[_Line]
    outputs: list[_Piece] = []
    code: str | None = None
    logic: int = 1


def to_document(stored: StoredInstance) -> str:
    """Write an instance and its journal as a document."""
    row, made = stored.row, stored.row.creation
    document = _Document(
        VERSION, made.workflow, made.id, row.status, made.created_ms, row.modified_ms, row.started_ms, row.ended_ms,
        made.source, made.schedule, made.success_retention_ms, made.error_retention_ms, made.params,
        [
            _Line(
                seq, entry.at_ms, entry.fact.event, type(entry.fact).__name__, entry.step and entry.step.label,
                msgspec.Raw(msgspec.json.encode(entry.fact)),
            )
            for seq, entry in stored.entries
        ],
        [_Piece(*each[1:]) for each in stored.outputs],
        made.code, made.logic,
    )  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def from_document(text: str | bytes, where: str) -> StoredInstance:
    """Read a document; `where` names it in errors.

    Raises:
        JournalCorrupt: it is no such document.
        JournalTooNew: a later version wrote it.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version > VERSION:
            raise JournalTooNew(
                f"{where} has version {version} of the format, written by a later workflow-emulator; this one reads "
                f"up to version {VERSION}."
            )
        # Values are compared by their text, which has no spaces.
        compact = msgspec.json.format(text, indent=-1)
        document = msgspec.json.decode(compact, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise JournalCorrupt(
            f"{where} is no journal that `workflow-emulator export` wrote: {error}."
        ) from error
    key = InstanceKey(document.workflow, document.id)
    creation = Creation(
        *key, document.params, document.created_ms, document.source, document.schedule,
        document.success_retention_ms, document.error_retention_ms, code=document.code, logic=document.logic,
    )  # fmt: skip
    row = InstanceRow(
        1, creation, document.status, document.modified_ms, document.started_ms, document.ended_ms
    )
    entries = [
        (each.seq, entry_from_row((1, each.seq, each.event, each.at_ms, each.step, bytes(each.fact).decode()), key))
        for each in document.entries
    ]  # fmt: skip
    outputs = tuple(ChunkRow(1, *msgspec.structs.astuple(each)) for each in document.outputs)
    return StoredInstance(row, entries, outputs)
