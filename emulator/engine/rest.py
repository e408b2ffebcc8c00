"""Whether user code has come to rest.

*Parked* is code that has done nothing for `PARK_AFTER_MS` but wait for sleeps, events and retries. It may have timers of
its own beside (`asyncio.timeout`), which the journal knows nothing of: it rests, and will move by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.engine.tasks import Made
from emulator.timing.alarm import Timers

PARK_AFTER_MS = 5
"""How long code must have done nothing to count as parked."""

PATIENCE_MS = 60_000
"""How long code that only has to find its rollback handlers may wait for timers of its own on the way to them."""

PATIENT_LOOK_MS = 1_000
"""How often one looks meanwhile whether they are over."""


class Rest:
    """Looks at one incarnation. `waits` says whether it does nothing but wait; `report` hears that it is parked."""

    def __init__(
        self, timers: Timers, made: Made, waits: Callable[[], bool], report: Callable[[], None]
    ) -> None:
        self._timers = timers
        self._made = made
        self._waits = waits
        self._report = report
        self._activity = 0
        self._is_watched = False
        self._reported = -1
        self._patient_until_ms = 0

    def be_patient(self) -> None:
        """Report nothing while the code has timers, for a while."""
        self._patient_until_ms = self._timers.now_ms() + PATIENCE_MS

    def stir(self) -> None:
        """Whatever was said about its rest no longer holds."""
        self._activity += 1

    def watch(self) -> None:
        """Look whether the code has come to rest; if it stays so, say once that it is parked."""
        if not self._is_watched and self._reported != self._activity and self._waits():
            self._look_in(PARK_AFTER_MS)

    def _look_in(self, delay_ms: int) -> None:
        self._is_watched = True
        self._timers.schedule_in(delay_ms, lambda seen=self._activity: self._look(seen))

    def _look(self, seen: int) -> None:
        self._is_watched = False
        if seen != self._activity or not self._waits():
            self.watch()
            return
        if self._timers.now_ms() < self._patient_until_ms and self._made.has_timers():
            self._look_in(PATIENT_LOOK_MS)
        else:
            self._reported = seen
            self._report()
