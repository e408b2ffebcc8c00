"""The connections to the journal's file, and what SQLite's errors mean to a user.

Theory of operation
===================
A statement usually travels to the thread of aiosqlite and back. On a machine with nothing else to do that costs several
times what a small commit does (two threads are woken), and an instance whose steps follow one another pays it twice a
step. With `synchronous = NORMAL` a commit does not wait for the disk: it is a copy into the memory of the operating
system. So `InlineWriter` makes small commits on the loop's own thread, over a connection of its own, and leaves to the
other thread whatever could hold up the loop: long statements, locks that somebody else holds, checkpoints, which do wait
for the disk, and the commit after each, which may begin the file of the log anew and waits as well. A checkpoint is the
only thing that writes the file itself, so the time of that tells.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiosqlite

from emulator.errors import JournalCorrupt, JournalUnavailable, StorageError
from emulator.journal.schema import STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_BUSY_TIMEOUT_S = 30.0
"""How long another process, such as the sqlite3 shell, may hold the write lock."""

_CACHED_STATEMENTS = 16
"""How many of its statements a connection keeps. Each keeps what it was given last, up to all that a turn writes, and each
number of rows is a statement of its own."""

_INLINE_CHARS = 8_192
"""How long a statement may be with all it carries: a longer one is better made beside the loop."""

_INLINE_COMMITS = 100
"""How many of them in a row: the next goes to the other thread, where SQLite makes the checkpoint that may be due."""

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full. Make room and start again",
    sqlite3.SQLITE_READONLY: "it cannot be written. Allow it, or choose another folder with --persist-to",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. Allow it, or choose another folder with --persist-to",
    sqlite3.SQLITE_IOERR: "the disk fails. Check it, or choose another folder with --persist-to",
    sqlite3.SQLITE_BUSY: "another program holds its write lock. Close that program and start again",
}


def reach(where: str) -> None:
    """Make sure that the file can be opened, or made.

    A connection that fails to open ends its thread without waiting for it; where the loop ends first, that thread
    dies with a traceback. So it is found out before.

    Raises:
        JournalUnavailable: it cannot.
    """
    try:
        Path(where).open("ab").close()
    except OSError as error:
        raise JournalUnavailable(
            f"The journal {where} cannot be opened: {error.strerror}. "
            "Allow it, or choose another folder with --persist-to."
        ) from error


def connect(where: str) -> aiosqlite.Connection:
    """A connection whose thread does not keep a program alive that has ended without closing it.

    Threads inherit that from the thread that makes them, and aiosqlite has no option for it.
    """
    made: list[aiosqlite.Connection] = []

    def make() -> None:
        made.append(
            aiosqlite.connect(
                where,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,
                cached_statements=_CACHED_STATEMENTS,
            )
        )

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    maker.join()
    return made[0]


@contextmanager
def clear_errors(where: str) -> Generator[None, None, None]:
    """Say in our words what SQLite reports of the file.

    Raises:
        JournalUnavailable: it cannot be opened or written now: a full disk, a lock, a right that is missing.
        JournalCorrupt: it is damaged.
        StorageError: any other error of SQLite.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _storage_error(error, where) from error


def _storage_error(error: sqlite3.Error, where: str) -> StorageError:
    code = _code(error)
    if code in _ADVICE:
        return JournalUnavailable(f"The journal {where}: {_ADVICE[code]} (SQLite: {error}).")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalCorrupt(
            f"The journal {where} is damaged, or is not a SQLite file (SQLite: {error}). "
            "Restore it, or choose another folder with --persist-to."
        )
    return StorageError(f"The journal {where} refused a statement (SQLite: {error}).")


def _code(error: sqlite3.Error) -> int:
    # Errors of the Python module itself, such as a text that is too long, carry no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


class InlineWriter:
    """Makes small commits at once, on the thread of its caller; of a file that is open, and with NORMAL durability."""

    def __init__(self, where: str, written_ns: int) -> None:
        self._where = where
        self._written_ns = written_ns
        self._in_a_row = 0
        with clear_errors(where), ExitStack() as opened:
            self._connection = sqlite3.connect(where, timeout=0, isolation_level=None)
            opened.callback(self._connection.close)
            # Nothing that takes the lock of the file: another program may have it.
            for name in ("prepare_writer", "prepare_inline", "whole_commit"):
                self._connection.executescript(STATEMENTS[name])
            opened.pop_all()

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()

    def writes(self, sql: str, parameters: Sequence[object], written_ns: int) -> bool:
        """Make this commit, if it is a small one and nothing is in its way; whether it has.

        `written_ns` says when the file itself was last written.

        Raises:
            StorageError: SQLite refuses it. Nothing is written.
        """
        is_first = written_ns != self._written_ns
        self._written_ns = written_ns
        if is_first or self._in_a_row == _INLINE_COMMITS or _is_long(sql, parameters):
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        try:
            self._connection.execute(sql, parameters)
        except sqlite3.Error as error:
            if _code(error) == sqlite3.SQLITE_BUSY:
                return False
            raise _storage_error(error, self._where) from error
        return True


def _is_long(sql: str, parameters: Sequence[object]) -> bool:
    chars = len(sql)
    if chars <= _INLINE_CHARS:
        chars += sum(len(each) for each in parameters if type(each) is str)
    return chars > _INLINE_CHARS
