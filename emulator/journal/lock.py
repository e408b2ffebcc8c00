"""Who owns a journal: a file beside it, locked by the kernel for as long as its process lives.

The lock is `flock`'s, so SIGKILL releases it and no stale file has to be judged. It belongs to the open file, which forked
children inherit, such as those of a `multiprocessing.Pool` in a callback: they close it, or it would be locked for as long
as they live. What the file says, the owner's pid
and port, is only for the message that the next one gets. The file stays when the lock goes: to unlink it would let
two processes lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Final

import msgspec

from emulator.errors import JournalLocked, JournalUnavailable

if TYPE_CHECKING:
    from pathlib import Path


class Owner(msgspec.Struct, frozen=True):
    """The process that has a journal open, and where it answers, if it does."""

    pid: int
    port: int | None = None


_held: Final[set[JournalLock]] = set()


def _forget_in_child() -> None:
    for lock in _held.copy():
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)


class JournalLock:
    """The lock of the journal at `path`."""

    def __init__(self, path: Path) -> None:
        self._journal = path
        file = path.resolve()  # of a link the file: two names of one journal have one lock
        self._path = file.with_name(f"{file.name}.lock")
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock, making the journal's folder where there is none.

        Raises:
            JournalLocked: naming the process that has it.
            JournalUnavailable: the folder cannot be written.
        """
        try:
            _make_folder(self._path.parent)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise JournalUnavailable(
                f"The journal's folder {self._path.parent} cannot be written: {error.strerror}. "
                "Allow it, or choose another folder with --persist-to."
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = self._in_use(os.pread(file, 1024, 0))
            os.close(file)
            raise JournalLocked(message) from error
        except OSError as error:
            os.close(file)
            raise JournalUnavailable(
                f"{self._path} cannot be locked: {error.strerror}. "
                "Choose a folder on a local disk with --persist-to."
            ) from error
        self._file = file
        _held.add(self)
        self._write(Owner(os.getpid()))

    def publish_port(self, port: int) -> None:
        """Let the message that a second process gets say where this one answers."""
        self._write(Owner(os.getpid(), port))

    def release(self) -> None:
        """Let the next one have it. Idempotent."""
        if self._file is not None:
            _held.discard(self)
            file, self._file = self._file, None
            os.close(file)

    def _write(self, owner: Owner) -> None:
        assert self._file is not None, "the lock is held"
        try:
            # The new text first: a reader never finds the file empty.
            os.ftruncate(self._file, os.pwrite(self._file, msgspec.json.encode(owner) + b"\n", 0))
        except OSError as error:
            raise JournalUnavailable(
                f"{self._path} cannot be written: {error.strerror}. "
                "Make room, or choose another folder with --persist-to."
            ) from error

    def _in_use(self, content: bytes) -> str:
        try:
            owner = msgspec.json.decode(content, type=Owner)
        except msgspec.DecodeError:
            who = "another process"
        else:
            address = f" (http://127.0.0.1:{owner.port})" if owner.port else ""
            who = f"process {owner.pid}{address}"
        return f"{self._journal} is in use by {who}; stop it or choose another folder with --persist-to."


def file_state(path: Path) -> tuple[tuple[int, int] | None, int]:
    """Which file has that name, and when it was last written; None and 0 if there is none, as for a journal in memory."""
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    return (stat.st_dev, stat.st_ino), stat.st_mtime_ns


def file_bytes(path: Path) -> int:
    """How long a file is; 0 if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _make_folder(folder: Path) -> None:
    """Make a folder that git leaves alone; one that exists stays as it is."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(".gitignore").write_text("*\n", "utf-8")
