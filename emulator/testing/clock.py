"""Clocks for tests, one a test: nothing here is shared.

`LoopClock` goes with the time of the event loop and is made for `VirtualLoop`, where that time
jumps. `VirtualClock` stands still, on any loop, until a test moves it.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from operator import attrgetter
from typing import TYPE_CHECKING

from emulator.errors import InvalidInput
from emulator.timing.clock import NO_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from emulator.timing.clock import ScheduledCall

EPOCH_MS = 1_767_225_600_000
"""Where the clocks of tests begin: 2026-01-01T00:00:00Z."""

_TURNS = 20  # of the loop, at each stop of a virtual clock


class LoopClock:
    """The running event loop's time on an epoch, with steps of the wall clock on demand."""

    def __init__(self, epoch_ms: int = EPOCH_MS) -> None:
        self._epoch_ms = epoch_ms
        self._last_ms = epoch_ms
        self._calls: dict[_LoopCall, None] = {}

    def now_ms(self) -> int:
        """Read the clock; after it was set back, the latest reading until it has caught up."""
        loop_us = round(asyncio.get_running_loop().time() * 1_000_000)
        self._last_ms = max(self._last_ms, self._epoch_ms + loop_us // 1000)
        return self._last_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Make a call at `at_ms`, however the clock is set until then."""
        call = _LoopCall(self._calls, at_ms, callback)
        self._calls[call] = None
        self._arm(call)
        return call

    def skew(self, step_ms: int) -> None:
        """Set the clock forward, or back when negative, as an operator or a time server does."""
        self.now_ms()  # the clock must not run backwards, even if nobody had read it
        self._epoch_ms += step_ms
        for call in sorted(self._calls, key=attrgetter("at_ms")):
            call.handle.cancel()
            self._arm(call)

    def _arm(self, call: _LoopCall) -> None:
        loop = asyncio.get_running_loop()
        if call.at_ms <= self.now_ms():
            call.handle = loop.call_soon(call.make, context=NO_CONTEXT)
        else:
            at_s = (call.at_ms - self._epoch_ms) / 1000
            call.handle = loop.call_at(at_s, call.make, context=NO_CONTEXT)


class _LoopCall:
    """One of the calls that are to come, and what the loop has of it."""

    handle: asyncio.Handle

    def __init__(
        self, calls: dict[_LoopCall, None], at_ms: int, callback: Callable[[], None]
    ) -> None:
        self.at_ms = at_ms
        self._calls = calls
        self._callback = callback

    def make(self) -> None:
        del self._calls[self]
        self._callback()

    def cancel(self) -> None:
        self._calls.pop(self, None)
        self.handle.cancel()


class VirtualClock:
    """A clock that moves when it is told to.

    Args:
        now_ms: where it stands.
        settle: waits until all that follows from the calls of one instant has happened. Without it
            the loop gets some turns, which is enough where no thread is at work.
    """

    def __init__(
        self, now_ms: int = EPOCH_MS, *, settle: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._now_ms = now_ms
        self._settle = settle
        self._calls: list[_StandingCall] = []

    def now_ms(self) -> int:
        """Tell where the clock stands."""
        return self._now_ms

    def next_at_ms(self) -> int | None:
        """Tell the instant of the next call; None: nobody waits for this clock."""
        return self._calls[0].at_ms if self._calls else None

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Make a call when the clock has been moved to `at_ms`; soon if it stands there."""
        if at_ms <= self._now_ms:
            return asyncio.get_running_loop().call_soon(callback)
        call = _StandingCall(self._calls, at_ms, callback)
        insort(self._calls, call, key=attrgetter("at_ms"))
        return call

    async def advance(self, delay_ms: int) -> None:
        """Move the clock by `delay_ms`, as `advance_to` does.

        Raises:
            InvalidInput: the delay is negative.
        """
        await self.advance_to(self._now_ms + delay_ms)

    async def advance_to(self, at_ms: int) -> None:
        """Move the clock to `at_ms`, stopping at each instant of a call until all has settled.

        So whatever a call leads to, calls at further instants too, happens at its own time.

        Raises:
            InvalidInput: the clock is past that instant.
        """
        if at_ms < self._now_ms:
            raise InvalidInput(
                f"A clock does not run backwards: it stands at {self._now_ms} ms, "
                f"and was asked to move to {at_ms} ms."
            )
        await self._let_settle()
        while (next_ms := self.next_at_ms()) is not None and next_ms <= at_ms:
            await self._stop_at(next_ms)
        await self._stop_at(at_ms)

    async def _stop_at(self, at_ms: int) -> None:
        # Two tasks may be moving the clock, and the other one may have been faster.
        self._now_ms = max(self._now_ms, at_ms)
        loop = asyncio.get_running_loop()
        while self._calls and self._calls[0].at_ms <= self._now_ms:
            self._calls[0].hand_over(loop)
        await self._let_settle()

    async def _let_settle(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_TURNS):
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned
        if self._settle is not None:
            await self._settle()


class _StandingCall:
    """A call that waits for the clock to be moved, and is then the loop's."""

    def __init__(
        self, calls: list[_StandingCall], at_ms: int, callback: Callable[[], None]
    ) -> None:
        self.at_ms = at_ms
        self._calls = calls
        self._callback = callback
        self._handle: asyncio.Handle | None = None

    def hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._calls.remove(self)
        self._handle = loop.call_soon(self._callback)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        elif self in self._calls:
            self._calls.remove(self)
