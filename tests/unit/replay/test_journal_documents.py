"""A journal as a document: written, read again, refused when it is none."""

from __future__ import annotations

import json

import msgspec
import pytest

from emulator.domain import entries as facts
from emulator.domain import values
from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.domain.entries import Entry
from emulator.domain.instance import Creation, Schedule, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import JournalCorrupt, JournalTooNew
from emulator.journal.archive import VERSION, from_document, to_document
from emulator.journal.port import InstanceRow, StoredInstance

STEP = StepKey(StepKind.DO, "pay-2", 1)
WAIT = StepKey(StepKind.WAIT, "paid", 3)


def stored() -> StoredInstance:
    params = values.encode({"when": {1, 2}, "note": "ä"}, "params")
    creation = Creation(
        "orders", "order-1", params, 5, TriggerSource.CRON, Schedule("* * * * *", 4), 7, None
    )
    entries: list[tuple[int, Entry]] = [
        (1, Entry(5, None, facts.WorkflowQueued())),
        (3, Entry(6, STEP, facts.StepStarted(PRODUCTION_DEFAULTS))),
        (4, Entry(6, STEP, facts.StepSucceeded(values.encode(b"bytes", "a result")))),
        (5, Entry(7, WAIT, facts.WaitStarted("paid", 10, 17))),
        (6, Entry(8, None, facts.EventReceived("paid", msgspec.Raw(b"null"), "delivery"))),
        (7, Entry(9, None, facts.EventReceived("paid"))),
    ]
    return StoredInstance(
        InstanceRow(1, creation, InstanceStatus.WAITING, 9, started_ms=6), entries
    )


def test_a_document_reads_as_what_was_written() -> None:
    assert from_document(to_document(stored()), "it") == stored()


def test_a_document_is_json_that_a_person_can_read() -> None:
    document = json.loads(to_document(stored()))
    assert document["version"] == VERSION
    assert document["entries"][2]["kind"] == "StepSucceeded"
    assert document["entries"][2]["step"] == "pay-2-1"


def test_a_document_of_a_later_version_is_refused_by_its_number() -> None:
    text = to_document(stored()).replace(f'"version": {VERSION}', f'"version": {VERSION + 1}')
    with pytest.raises(JournalTooNew, match="later workflow-emulator"):
        from_document(text, "it")


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', "not JSON", "null"])
def test_what_is_no_document_is_refused_by_name(text: str) -> None:
    with pytest.raises(JournalCorrupt, match=r"^the file is no journal"):
        from_document(text, "the file")


def test_an_entry_that_does_not_decode_is_named() -> None:
    text = to_document(stored()).replace('"event": 14', '"event": 77')
    with pytest.raises(JournalCorrupt, match="Entry 5"):
        from_document(text, "it")
