"""What the commands that run user code say of it on stderr: the log, and the exception that ends them."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path


def log_to_stderr(*, access_log: bool = False) -> None:
    """Let the log be seen: warnings of everybody, and all that the emulator says."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    logging.getLogger("workflow_emulator").setLevel(logging.INFO)
    if access_log:
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)


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
    return "".join(told.format())
