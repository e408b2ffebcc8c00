"""The shelf of codes: nothing on it changes, and both journals have the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.journal.codes import PublishedVersion
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Journal
from emulator.journal.sqlite import SqliteJournal

FIRST = PublishedVersion("acme", "billing", "v1", "a1", 10)
SECOND = PublishedVersion("acme", "billing", "v2", "b2", 10)
OTHERS = PublishedVersion("zenith", "billing", "v1", "b2", 20)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest) -> Journal:
    return MemoryJournal() if request.param == "memory" else SqliteJournal(":memory:")


async def test_a_hash_and_a_version_keep_what_they_were_given_first(journal: Journal) -> None:
    await journal.open()
    codes = journal.codes
    await codes.add_code("a1", "one", 10)
    await codes.add_code("a1", "another", 20)
    await codes.add_code("b2", "two", 10)
    assert await codes.manifest("a1") == "one"
    assert await codes.manifest("c3") is None
    for published in (FIRST, SECOND, OTHERS, FIRST._replace(hash="b2")):
        await codes.add_version(published)
    assert await codes.version("acme", "billing", "v1") == FIRST
    assert await codes.version("acme", "billing", None) == SECOND
    assert await codes.version("acme", "billing", "v3") is None
    assert await codes.version("acme", "shipping", None) is None
    assert await codes.versions() == [FIRST, SECOND, OTHERS]
    assert await codes.versions("acme") == [FIRST, SECOND]
    assert await codes.versions("zenith", "billing") == [OTHERS]
    await journal.close()


async def test_what_is_published_is_in_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        journal = SqliteJournal(tmp_path / "journal.sqlite")
        await journal.open()
        await journal.codes.add_code("a1", "one", 10)
        await journal.codes.add_version(FIRST)
        assert await journal.codes.versions() == [FIRST]
        await journal.close()
