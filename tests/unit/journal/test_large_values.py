"""SQLite refuses a text of more than 1 GB, which many values of 1 MiB make together: here of more than 1 MB, of 100 kB."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.port import Commit, InstanceRow
from emulator.journal.sqlite import SqliteJournal

MOST_BYTES = 1_000_000
LARGE = msgspec.Raw(b'"' + b"x" * 100_000 + b'"')


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite refuse texts much sooner."""
    connect: Any = sqlite3.connect

    @functools.wraps(connect)
    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)


@pytest.fixture
async def journal(connections: None, tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    await opened.open()
    yield opened
    await opened.close()


def made(number: int, params: msgspec.Raw = LARGE) -> InstanceRow:
    creation = Creation("orders", str(number), params, 1)
    return InstanceRow(number, creation, InstanceStatus.RUNNING, 1)


def key(number: int) -> InstanceKey:
    return InstanceKey("orders", str(number))


async def test_a_start_finds_instances_whatever_the_size_of_their_params(
    journal: SqliteJournal,
) -> None:
    for number in range(1, 21):
        await journal.commit(Commit(created=[made(number)]))
    found = await journal.recoverable(0, 5_000)
    assert found == [(key(number), number) for number in range(1, 21)]
