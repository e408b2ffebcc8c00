"""Who may run: the slots of each workflow and the queue before them.

Theory of operation
===================
Only instances that run hold a slot; sleeping, waiting, paused and finished ones do not. Instances that wake, are resumed
or recovered go before new ones; otherwise first come, first served (Cloudflare: limits, concurrency). A workflow without
a limit has slots for all.

The queue is in the journal: the rows of queued instances, by the time since when they are. Here is only the head of each
of its two lines, so that memory does not grow with those who wait. When a head is used up it is read again, between two
turns, when the journal and what is decided are the same. So nobody is forgotten, whatever has become of the former head,
and a restart of the emulator finds the queue as it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.port import Journal

HOLDS_A_SLOT = frozenset(
    {InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE, InstanceStatus.ROLLING_BACK}
)
"""The statuses in which an instance occupies a slot."""

HEAD_KEYS = 1_000
"""How many of a line are in memory at most."""


class _Line:
    """Those who wake, or those who are new. At first the journal may have some from a former life of the emulator."""

    def __init__(self, *, waking: bool) -> None:
        self.waking = waking
        self.head: OrderedDict[InstanceKey, None] = OrderedDict()
        self.has_more = True

    @property
    def is_empty(self) -> bool:
        return not self.head and not self.has_more

    def append(self, key: InstanceKey) -> None:
        if self.has_more or len(self.head) >= HEAD_KEYS:
            self.has_more = True
        else:
            self.head[key] = None


class Admission:
    """The slots of one workflow. `grant` is called with each instance that comes out of the queue."""

    def __init__(
        self, workflow: str, limit: int | None, grant: Callable[[InstanceKey], None]
    ) -> None:
        self._workflow = workflow
        self._limit = limit
        self._grant = grant
        self._holders: set[InstanceKey] = set()
        self._granted: set[InstanceKey] = set()
        self._waking = _Line(waking=True)
        self._new = _Line(waking=False)

    @property
    def is_short(self) -> bool:
        """Whether there is a slot for somebody of whom only the journal knows.

        Who has been granted a slot hears of it first: until then the journal has him in the queue.
        """
        line = self._next_line()
        return line is not None and not line.head and not self._granted and self._has_room()

    def holds(self, key: InstanceKey) -> bool:
        """Whether an instance has a slot."""
        return key in self._holders

    def claim(self, key: InstanceKey) -> None:
        """Give back the slot that an instance held when the emulator ended, if there still are as many."""
        if self._has_room():
            self._holders.add(key)

    def acquire(self, key: InstanceKey, *, waking: bool) -> bool:
        """Take a slot, or stand in the queue; says which."""
        if key in self._holders:
            return True
        self._leave(key)
        if self._has_room() and self._waking.is_empty and (waking or self._new.is_empty):
            self._holders.add(key)
            return True
        (self._waking if waking else self._new).append(key)
        return False

    def settle(self, key: InstanceKey, status: InstanceStatus | None) -> None:
        """Take note of an instance's status (None: it is gone)."""
        if status is InstanceStatus.QUEUED:
            return  # it stands in the queue, or comes out of it and is about to hear of that
        self._granted.discard(key)
        if status is InstanceStatus.RUNNING:
            return
        self._leave(key)
        if status not in HOLDS_A_SLOT and key in self._holders:
            self._holders.remove(key)
            self._admit()

    async def refill(self, journal: Journal) -> None:
        """Read the head that is used up again, and let the next ones in. To be called between turns."""
        line = self._next_line()
        assert line is not None, "somebody waits"
        found = await journal.queued(self._workflow, HEAD_KEYS, waking=line.waking)
        line.head.update(dict.fromkeys(found))
        line.has_more = len(found) == HEAD_KEYS
        self._admit()

    def _has_room(self) -> bool:
        return self._limit is None or len(self._holders) < self._limit

    def _next_line(self) -> _Line | None:
        """The line whose turn it is; None if nobody waits."""
        if not self._waking.is_empty:
            return self._waking
        return None if self._new.is_empty else self._new

    def _leave(self, key: InstanceKey) -> None:
        self._waking.head.pop(key, None)
        self._new.head.pop(key, None)

    def _admit(self) -> None:
        """Let the next ones in while slots are free."""
        while self._has_room() and (line := self._next_line()) is not None and line.head:
            key, _ = line.head.popitem(last=False)
            self._holders.add(key)
            self._granted.add(key)
            self._grant(key)


async def refill(admissions: Iterable[Admission], journal: Journal) -> None:
    """Let in whoever has a slot and is known to the journal alone. To be called between turns."""
    for admission in admissions:
        while admission.is_short:
            await admission.refill(journal)
