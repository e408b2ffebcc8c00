"""What asks a process to stop in good order: Ctrl-C, whoever manages it, and a terminal that is closed; and its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

FLUSHING_PATIENCE_S: Final = 0.2
"""How long whoever reads what was printed may take for the rest of it."""

_HANG_UP = getattr(signal, "SIGHUP", None)  # which Windows lacks


def heed_signals(stop: Callable[[int, FrameType | None], None]) -> None:
    """Call `stop` when the process is to stop. With `nohup` it goes on when its terminal is closed."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, stop)
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:
        signal.signal(_HANG_UP, stop)


def leave(code: int) -> NoReturn:
    """End the process now, whatever its threads do, and whatever becomes of its output: it may be full, or stand still."""
    flushed = threading.Event()
    # Not `threading.Thread`: a signal handler may come here in the middle of the start of one, which has a lock.
    start_new_thread(_flush, (flushed,))
    flushed.wait(FLUSHING_PATIENCE_S)
    os._exit(code)


def _flush(flushed: threading.Event) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is broken, or was closed
            stream.flush()
    flushed.set()
