"""The file's format: statements by name, migrations by `PRAGMA user_version`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import JournalCorrupt, JournalTooNew

if TYPE_CHECKING:
    import aiosqlite

APPLICATION_ID = 0x5746454D
"""What marks a SQLite file as a journal ("WFEM")."""

_FOLDER = Path(__file__).parent


def _named_statements(text: str) -> dict[str, str]:
    _, *parts = re.split(r"^-- (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


STATEMENTS = _named_statements((_FOLDER / "queries.sql").read_text())
"""The statements of `queries.sql`."""

MIGRATIONS = [file.read_text() for file in sorted((_FOLDER / "migrations").glob("*.sql"))]
"""What leads from each version to the next; the first makes an empty file a journal."""


async def inspect(connection: aiosqlite.Connection, where: str) -> int:
    """Find out which version of the format a file has (0: the file is new), writing nothing.

    Raises:
        JournalTooNew: a later version than this one knows.
        JournalCorrupt: a SQLite file that is not a journal.
    """
    [(application_id, version, tables)] = await connection.execute_fetchall(STATEMENTS["inspect"])
    if application_id != APPLICATION_ID and (tables or version):
        raise JournalCorrupt(
            f"{where} is a SQLite database, but not a journal of workflow-emulator; "
            "choose another folder with --persist-to."
        )
    if version > len(MIGRATIONS):
        raise JournalTooNew(
            f"{where} has version {version} of the format, written by a later workflow-emulator; this one "
            f"reads up to version {len(MIGRATIONS)}. Upgrade, or choose another folder with --persist-to."
        )
    return version


async def migrate(connection: aiosqlite.Connection, version: int) -> None:
    """Bring a file of `version` up to date, a transaction for each step."""
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        await connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;"
        )
