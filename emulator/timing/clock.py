"""What time it is, and being called when it is later.

`Clock` is a port. `SystemClock` is the only place of the project that reads the machine's time, and
no other module waits. Instants are integers: milliseconds of the wall clock since the Unix epoch.
They are written down as deadlines and must mean the same after a restart.

A clock never runs backwards inside a process, whatever happens to the machine's: times in the
journal are in the order of the journal. When the machine's clock is set back, `now_ms` stands still
until that clock has caught up. A deadline may be late by the step then, but is never early.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from time import time_ns
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RECHECK_MS = 30_000
"""The longest wait without a look at the wall clock.

A laptop that sleeps, or a clock that is set forward, moves the wall clock but not the event loop's.
"""


NO_CONTEXT = Context()
"""In which calls are made, so that they see no context variables of whoever asked for them."""


class ScheduledCall(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Call it off; nothing happens when it was made or called off before."""
        ...


class Clock(Protocol):
    """Wall-clock time."""

    def now_ms(self) -> int:
        """Read the time, in milliseconds since the Unix epoch; never less than at the last read."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Have the running event loop make a call as soon as `now_ms()` is `at_ms` or more.

        Never from within `call_at`. An exception of the callback goes to the loop's handler.
        """
        ...


class SystemClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self._last_ms = 0

    def now_ms(self) -> int:
        """Read the machine's clock, or the latest reading when it was set back since."""
        self._last_ms = max(self._last_ms, time_ns() // 1_000_000)
        return self._last_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Make a call at `at_ms`, looking at the wall clock every 30 s until then."""
        return _WallClockCall(self, at_ms, callback)


class _WallClockCall:
    """A call that waits in pieces of at most `RECHECK_MS`."""

    def __init__(self, clock: Clock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._at_ms = at_ms
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._wait(at_ms - clock.now_ms())

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self, rest_ms: int) -> None:
        delay_ms = min(max(rest_ms, 0), RECHECK_MS)
        self._handle = self._loop.call_later(delay_ms / 1000, self._check, context=NO_CONTEXT)

    def _check(self) -> None:
        rest_ms = self._at_ms - self._clock.now_ms()
        if rest_ms > 0:
            self._wait(rest_ms)
        else:
            self._callback()
