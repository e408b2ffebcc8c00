"""Who may run: the slots of each workflow and the queue before them.

Only instances that run hold a slot; sleeping, waiting, paused and finished ones do not. Instances that wake, are resumed
or recovered go before new ones; otherwise first come, first served (Cloudflare: limits, concurrency). A workflow without
a limit has slots for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus

HOLDS_A_SLOT = frozenset(
    {InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE, InstanceStatus.ROLLING_BACK}
)
"""The statuses in which an instance occupies a slot."""


class Admission:
    """The slots of one workflow. `grant` is called with each instance that comes out of the queue."""

    def __init__(self, limit: int | None, grant: Callable[[InstanceKey], None]) -> None:
        self._limit = limit
        self._grant = grant
        self._holders: set[InstanceKey] = set()
        self._waking: deque[InstanceKey] = deque()
        self._new: deque[InstanceKey] = deque()

    def acquire(self, key: InstanceKey, *, waking: bool) -> bool:
        """Take a slot, or stand in the queue; says which."""
        if key in self._holders:
            return True
        if self._limit is None or len(self._holders) < self._limit:
            self._holders.add(key)
            return True
        (self._waking if waking else self._new).append(key)
        return False

    def enqueue(self, key: InstanceKey, *, waking: bool) -> None:
        """Stand in the queue even if a slot is free, until the next call of `admit`."""
        (self._waking if waking else self._new).append(key)

    def settle(self, key: InstanceKey, status: InstanceStatus | None) -> None:
        """Take note of an instance's status (None: it is gone)."""
        if status not in HOLDS_A_SLOT and key in self._holders:
            self._holders.remove(key)
            self.admit()

    def admit(self) -> None:
        """Let the next ones in while slots are free."""
        while (self._waking or self._new) and (
            self._limit is None or len(self._holders) < self._limit
        ):
            queue = self._waking or self._new
            admitted = queue.popleft()
            # Whoever left the queue by another way than this is refused by its own rules, and settled again.
            if admitted not in self._holders:
                self._holders.add(admitted)
                self._grant(admitted)
