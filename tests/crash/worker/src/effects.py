"""The effects file: what callbacks have done, written so that a kill of the process does not take it back."""

import os
from collections.abc import Generator
from contextlib import contextmanager


class EffectLog:
    """Appends one line for the start and one for the end of each call: instance, step, attempt, what."""

    def __init__(self, path: str, instance: str) -> None:
        self._path = path
        self.instance = instance

    @contextmanager
    def call(self, step: str, attempt: int) -> Generator[None]:
        """A callback is being called; there is no end if it raises."""
        self._write(step, attempt, "start")
        yield
        self._write(step, attempt, "end")

    @contextmanager
    def undoing(self, step: str) -> Generator[None]:
        """A rollback handler is being called; which attempt it is, it is not told."""
        self._write(step, 0, "undo")
        yield
        self._write(step, 0, "undone")

    def _write(self, step: str, attempt: int, what: str) -> None:
        # One write to a file that is open for appending: lines neither mix nor break.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{self.instance}\t{step}\t{attempt}\t{what}\n".encode())
        finally:
            os.close(file)
