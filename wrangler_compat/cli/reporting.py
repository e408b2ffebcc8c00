"""What the commands that run user code say of it on stderr: the log, and the exception that ends them.

Messages of exceptions come from anywhere; what a terminal would obey in them is shown.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from wrangler_compat.cli.wording import printable

_OURS = logging.getLogger("workflow_emulator")


def log_to_stderr(*, access_log: bool = False) -> None:
    """Let the log be seen: warnings of everybody, and all that the emulator says."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    _OURS.setLevel(logging.INFO)
    if access_log:
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _on_a_terminal(super().format(record))


class HeldLog(logging.Handler):
    """What the emulator logs, to be told when its place among other lines has come.

    `wake` is called for each record, on any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake: Callable[[], object] = lambda: None
        self._held: deque[logging.LogRecord] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        """Hold a record."""
        self._held.append(record)
        self.wake()

    def take(self) -> list[logging.LogRecord]:
        """What is held, which is then held no more."""
        return [self._held.popleft() for _ in range(len(self._held))]

    def tell(self, records: Iterable[logging.LogRecord]) -> None:
        """Log records that were held."""
        for record in records:
            logging.getLogger().handle(record)

    def flush(self) -> None:
        """Tell whatever is held."""
        self.tell(self.take())


@contextmanager
def held_log() -> Generator[HeldLog]:
    """Hold what the emulator logs as long as the context lasts; what is left is told at its end."""
    held = HeldLog()
    _OURS.addHandler(held)
    _OURS.propagate = False
    try:
        yield held
    finally:
        _OURS.propagate = True
        _OURS.removeHandler(held)
        held.flush()


def user_traceback(error: BaseException, directory: Path) -> str:
    """Python's own traceback, from the first frame on that is in the project's folder; all of it if none is."""
    told = traceback.TracebackException.from_exception(error)
    root = directory.resolve()
    for at, frame in enumerate(told.stack):
        if Path(frame.filename).is_relative_to(root):
            told.stack = traceback.StackSummary.from_list(told.stack[at:])
            break
    else:
        if isinstance(error, SyntaxError):  # says itself where it is
            told.stack = traceback.StackSummary()
    return _on_a_terminal("".join(told.format()))


def _on_a_terminal(text: str) -> str:
    """A text of several lines, which may be indented with tabs."""
    return "\t".join(map(printable, text.split("\t")))
