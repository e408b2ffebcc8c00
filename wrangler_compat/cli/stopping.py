"""What asks a process to stop in good order: Ctrl-C, whoever manages it, and a terminal that is closed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

_HANG_UP = getattr(signal, "SIGHUP", None)  # which Windows lacks


def heed_signals(stop: Callable[[int, FrameType | None], None]) -> None:
    """Call `stop` when the process is to stop. With `nohup` it goes on when its terminal is closed."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, stop)
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:
        signal.signal(_HANG_UP, stop)
