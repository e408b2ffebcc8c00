"""Timers that go off: the timer wheel joined with a clock.

However many timers there are, the clock is asked for one call, at the start of the next occupied
slot of the wheel; without timers it is asked for nothing. A cancelled timer leaves that call alone,
so that the usual pair of schedule and cancel touches no more than the wheel: at most one call comes
in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeAlias

from emulator.errors import EngineStopped
from emulator.timing.wheel import Timer, TimerWheel

if TYPE_CHECKING:
    from emulator.timing.clock import Clock, ScheduledCall

Callback: TypeAlias = Callable[[], None]


class Timers:
    """Callbacks at instants of a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wheel: TimerWheel[Callback] = TimerWheel(clock.now_ms())
        self._ringing: set[Timer[Callback]] = set()
        self._call: ScheduledCall | None = None
        self._call_ms = 0
        self._closed = False
        # Callbacks must not see the context variables of whoever happened to schedule the nearest.
        self._context = copy_context()

    def __len__(self) -> int:
        """Count the callbacks that are still to come."""
        return len(self._wheel) + len(self._ringing)

    def now_ms(self) -> int:
        """Read the clock."""
        return self._clock.now_ms()

    def schedule(self, due_ms: int, callback: Callback) -> Timer[Callback]:
        """Have the running event loop call back at `due_ms` or soon after, never before.

        Callbacks go by due time, then in the order of scheduling. What one raises goes to the
        loop's exception handler and does not concern the others.

        Raises:
            EngineStopped: after `close`.
        """
        if self._closed:
            raise EngineStopped
        timer = self._wheel.schedule(due_ms, callback)
        if self._call is None or due_ms < self._call_ms:
            self._arm()
        return timer

    def schedule_in(self, delay_ms: int, callback: Callback) -> Timer[Callback]:
        """Have the running event loop call back in `delay_ms`; see `schedule`."""
        return self.schedule(self._clock.now_ms() + delay_ms, callback)

    def cancel(self, timer: Timer[Callback]) -> None:
        """See to it that the callback is not called any more; idempotent."""
        if not self._closed:
            self._wheel.cancel(timer)
            self._ringing.discard(timer)

    def close(self) -> None:
        """Cancel everything; idempotent."""
        self._closed = True
        self._wheel = TimerWheel(0)
        self._ringing.clear()
        self._disarm()

    def _arm(self) -> None:
        self._disarm()
        wake_ms = self._wheel.next_wake_ms()
        if wake_ms is not None:
            self._call = self._clock.call_at(wake_ms, self._wake)
            self._call_ms = wake_ms

    def _disarm(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _wake(self) -> None:
        """Let the loop make each call by itself: in order, and one's failure is not the others'."""
        self._call = None
        loop = asyncio.get_running_loop()
        for timer in self._wheel.advance(self._clock.now_ms()):
            self._ringing.add(timer)
            loop.call_soon(self._ring, timer, context=self._context)
        self._arm()

    def _ring(self, timer: Timer[Callback]) -> None:
        if timer in self._ringing:
            self._ringing.remove(timer)
            timer.item()
