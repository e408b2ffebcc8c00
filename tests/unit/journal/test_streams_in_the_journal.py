"""What a restart leaves of output streams, the same in both journals: see `Cut`."""

from __future__ import annotations

import msgspec
import pytest

from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.names import RESERVED
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import (
    ChunkRow,
    ClosedRow,
    Commit,
    Cut,
    InstanceRow,
    Journal,
    StreamCommit,
    StreamState,
)
from emulator.journal.sqlite import SqliteJournal

KEY = InstanceKey("reports", "1")
ROW = InstanceRow(1, Creation("reports", "1", msgspec.Raw(b"null"), 5), InstanceStatus.COMPLETE, 5)
FIRST, SECOND = StepKey(StepKind.DO, "first", 1), StepKey(StepKind.DO, "second", 1)
RETURNED = [RESERVED + step.label for step in (FIRST, SECOND)]


def chunk(stream: str, step: StepKey | None) -> ChunkRow:
    label = step and step.label
    return ChunkRow(1, stream, 0, label, 1 if step else None, msgspec.Raw(b'"x"'))


WRITTEN = StreamCommit(
    chunks=[
        *(chunk(RESERVED + step.label, step) for step in (FIRST, SECOND)),
        *(chunk(f"by {step.name}", step) for step in (FIRST, SECOND)),
        chunk("by run", None),
    ],
    closed=[
        ClosedRow(1, "by first", FIRST.label),
        ClosedRow(1, "by second", SECOND.label),
        ClosedRow(1, "by run", None),
    ],
)


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest) -> Journal:
    journal = MemoryJournal() if request.param == "memory" else SqliteJournal(":memory:")
    await journal.open()
    await journal.commit(Commit(created=[ROW], streams=WRITTEN))
    return journal


async def test_a_restart_from_a_step_keeps_what_is_written_and_opens_what_that_step_closed(
    journal: Journal,
) -> None:
    await journal.commit(Commit(cuts=[Cut(1, frozenset({SECOND}))]))
    assert await journal.streams(KEY) == {
        "by first": StreamState(1, is_closed=True),
        "by second": StreamState(1, is_closed=False),
        "by run": StreamState(1, is_closed=False),
    }
    returned = [await journal.chunks(KEY, stream, 0, 10, 1_000) for stream in RETURNED]
    assert [len(page.chunks) for page in returned if page] == [1, 0]
    await journal.close()


async def test_a_restart_of_the_whole_leaves_no_stream(journal: Journal) -> None:
    await journal.commit(Commit(cuts=[Cut(1, None)]))
    assert await journal.streams(KEY) == {}
    returned = [await journal.chunks(KEY, stream, 0, 10, 1_000) for stream in RETURNED]
    assert [len(page.chunks) for page in returned if page] == [0, 0]
    await journal.close()
