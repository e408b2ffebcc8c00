"""Noticing that code holds the event loop, from a thread beside it: the one place from which that can be seen."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

log = logging.getLogger("workflow_emulator")

LOOK_S: Final = 2.0
"""How often a look is taken."""

PATIENCE_S: Final = 1.0
"""How long the loop may take to answer."""

_DEBUGGERS: Final = ("bdb", "pydevd")
"""The modules of debuggers: at a breakpoint it is no mistake that nothing goes on."""


@contextmanager
def watching(
    root: Path, *, look_s: float = LOOK_S, patience_s: float = PATIENCE_S
) -> Generator[None]:
    """Say in the log, once for each line, where code below `root` holds the event loop that runs here."""
    stopped = threading.Event()
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    said: set[tuple[Path, int]] = set()

    def watch() -> None:
        while not stopped.wait(look_s):
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # it is closed
            if answered.wait(patience_s) or stopped.is_set():
                continue
            frames = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented for this
            found = _line_below(root, frames.get(thread))
            is_debugged = any(name in sys.modules for name in _DEBUGGERS)
            if found is not None and not is_debugged and found[:2] not in said:
                path, line, function = found
                said.add((path, line))
                log.warning(
                    "%s:%d, in %s: this has held the event loop for over a second, and nothing else goes on meanwhile. A "
                    "step that is a plain function (def) has a thread of its own; in one that is async, await what takes long.",
                    *(path.relative_to(root), line, function),
                )

    watcher = threading.Thread(target=watch, name="workflow-stall-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()


def _line_below(root: Path, frame: FrameType | None) -> tuple[Path, int, str] | None:
    """The innermost line of the project's code on a stack; what is installed is not the project's."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(root) and "site-packages" not in path.parts:
            return path, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back
    return None
