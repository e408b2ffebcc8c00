"""Looking into a journal's file without owning it: read-only, also while another process writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from emulator.domain.instance import InstanceKey
from emulator.errors import JournalCorrupt, JournalUnavailable
from emulator.journal.loading import Asking, Loading
from emulator.journal.port import ChunkRow, StoredInstance
from emulator.journal.rows import to_json
from emulator.journal.schema import APPLICATION_ID, MIGRATIONS, STATEMENTS

_T = TypeVar("_T")


def look(
    path: Path,
    workflow: str | None = None,
    id: str | None = None,  # noqa: A002 - a name of the domain
) -> list[StoredInstance]:
    """The instances in the journal `path`, in order of creation: of one workflow, or with one id, or all.

    Raises:
        JournalUnavailable: there is no such file, it cannot be read, or another version of the emulator wrote it.
        JournalCorrupt: it is no journal, or an instance does not decode.
    """
    return _look(path, "named", {"workflow": workflow, "id": id})


def look_at_newest(path: Path, workflow: str | None = None) -> list[StoredInstance]:
    """The newest instance in the journal `path`, of one workflow or of all; none if there is none. Else as `look`."""
    return _look(path, "newest", {"workflow": workflow})


def _look(path: Path, which: str, wanted: Mapping[str, str | None]) -> list[StoredInstance]:
    if not path.is_file():
        raise JournalUnavailable(f"There is no journal {path}: nothing has run here yet.")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            _check(connection, path)
            keys = [InstanceKey(*row) for row in connection.execute(STATEMENTS[which], wanted)]
            found = _asked(connection, Loading().all(keys))
            rows = connection.execute(STATEMENTS["outputs"], {"keys": to_json(keys)})
            outputs: dict[int, list[ChunkRow]] = {}
            for number, stream, place, step, attempt, value in rows:
                raw = msgspec.Raw(value.encode())
                piece = ChunkRow(number, stream, place, step, attempt, raw)
                outputs.setdefault(number, []).append(piece)
    except sqlite3.DatabaseError as error:
        raise JournalUnavailable(f"The journal {path} cannot be read (SQLite: {error}).") from error
    whole = [_whole(found[key]) for key in keys if key in found]
    return [each._replace(outputs=tuple(outputs.get(each.row.number, ()))) for each in whole]


def _asked(connection: sqlite3.Connection, asking: Asking[_T]) -> _T:
    rows: Any = None
    try:
        while True:
            statement, parameters = asking.send(rows)
            rows = connection.execute(STATEMENTS[statement], parameters).fetchall()
    except StopIteration as end:
        return end.value


def _check(connection: sqlite3.Connection, path: Path) -> None:
    [(application_id, version, _)] = connection.execute(STATEMENTS["inspect"]).fetchall()
    if application_id != APPLICATION_ID:
        raise JournalCorrupt(f"{path} is not a journal of workflow-emulator.")
    if version != len(MIGRATIONS):
        raise JournalUnavailable(
            f"{path} has version {version} of the format, and this workflow-emulator reads version {len(MIGRATIONS)}: "
            "start the project with it once, or use the version that wrote it."
        )


def _whole(found: StoredInstance | JournalCorrupt) -> StoredInstance:
    if isinstance(found, JournalCorrupt):
        raise found
    return found
