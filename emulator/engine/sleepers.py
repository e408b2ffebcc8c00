"""Waking the instances that are not in memory.

The journal has the timers of all instances; this holds those of the near future in memory. Whenever the horizon draws
near, the next stretch is loaded; as long as no stored timer is due, nothing happens at all. So a sleeping instance
costs a row, however long it sleeps. A stretch begins where the former one ended: what was loaded is not loaded again, even
if it stays in the journal because its instance cannot be woken.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.core.inputs import TimerFired
from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.journal.port import Journal, TimerRow
from emulator.timing.alarm import Timers
from emulator.timing.wheel import Timer

HORIZON_MS = 60_000
"""How far ahead timers are in memory."""

ROWS_PER_LOAD = 5_000
"""How many rows one look into the journal takes at most; the horizon ends where they end."""


class Sleepers:
    """The timers of instances that are not loaded. `load` is called when the journal has to be looked at."""

    def __init__(
        self,
        journal: Journal,
        timers: Timers,
        fire: Callable[[InstanceKey, TimerFired], None],
        load: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._timers = timers
        self._fire = fire
        self._load = load
        self._watched: dict[tuple[InstanceKey, StepKey], Timer[Callable[[], None]]] = {}
        self._horizon_ms = 0
        self._last: TimerRow | None = None
        self._is_crowded = False
        self._next_load_ms: int | None = None
        self._next_load: Timer[Callable[[], None]] | None = None

    async def look_ahead(self) -> None:
        """Load the timers up to the new horizon, and arrange for the next look."""
        self._next_load_ms = self._next_load = None
        horizon_ms = self._timers.now_ms() + HORIZON_MS
        rows = await self._journal.due(horizon_ms, ROWS_PER_LOAD, self._last)
        for key, timer in rows:
            self._schedule(key, timer.step, timer.due_ms)
            self._last = timer
        self._is_crowded = len(rows) == ROWS_PER_LOAD
        if self._is_crowded:
            # There are more, perhaps at the very instant of the last: look again when it has come.
            self._horizon_ms = rows[-1][1].due_ms
            self._look_at(self._horizon_ms)
            return
        # What is not behind the last one will not be loaded: it is watched, even if the clock was set back since.
        self._horizon_ms = max(horizon_ms, self._last.due_ms if self._last else 0)
        next_ms = await self._journal.next_due_ms(self._horizon_ms)
        if next_ms is not None:
            self._look_at(next_ms - HORIZON_MS)

    def take(self, state: InstanceState, armed: frozenset[StepKey], decided_ms: int) -> None:
        """An instance leaves memory; `armed` are the steps whose timers have not gone off."""
        if state.status not in (InstanceStatus.RUNNING, InstanceStatus.WAITING):
            return
        for step in state.open.values():
            if step.abandoned and step.key not in armed:
                continue  # nobody waits for it
            # One that had gone off before the decision is of a step that the code does not ask for any more.
            if step.due_ms is not None and (step.due_ms >= decided_ms or step.key in armed):
                self.watch(state.creation.key, step.key, step.due_ms)

    def watch(self, key: InstanceKey, step: StepKey, due_ms: int) -> None:
        """An instance leaves memory with a timer that is stored."""
        if due_ms <= self._horizon_ms:
            self._schedule(key, step, due_ms)
        elif not self._is_crowded:
            self._look_at(due_ms - HORIZON_MS)

    def _schedule(self, key: InstanceKey, step: StepKey, due_ms: int) -> None:
        # A timer that has been moved or met by then is stale, and does nothing.
        former = self._watched.pop((key, step), None)
        if former is not None:
            self._timers.cancel(former)

        def fire() -> None:
            del self._watched[key, step]
            self._fire(key, TimerFired(step, due_ms))

        self._watched[key, step] = self._timers.schedule(due_ms, fire)

    def _look_at(self, load_ms: int) -> None:
        if self._next_load_ms is not None and self._next_load_ms <= load_ms:
            return
        if self._next_load is not None:
            self._timers.cancel(self._next_load)
        self._next_load_ms = load_ms
        self._next_load = self._timers.schedule(load_ms, self._load)
