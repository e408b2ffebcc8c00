"""Taking up the unfinished instances at start.

All that ran are found first, so that they keep their slots; then they are taken up some at a time, so that a start with
many instances does not hold up the rest. Those that queued are found by the queue itself (see `admission`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping

from emulator.core.inputs import Input, Recovered
from emulator.domain.instance import InstanceKey
from emulator.domain.logic import CURRENT_LOGIC
from emulator.engine.admission import Admission
from emulator.errors import InstanceTooNew, JournalCorrupt, StorageError
from emulator.journal.port import Journal, StoredInstance

log = logging.getLogger("workflow_emulator")

ROWS_PER_LOOK = 5_000
"""How many rows the search reads at a time."""

TAKEN_UP_PER_TURN = 500
"""How many instances go on in one turn of the engine."""


def readable(stored: StoredInstance | JournalCorrupt) -> StoredInstance | StorageError:
    """An instance, or why it cannot go on: it does not decode, or runs by rules that only a later version knows."""
    if isinstance(stored, JournalCorrupt) or stored.row.creation.logic <= CURRENT_LOGIC:
        return stored
    made = stored.row.creation
    return InstanceTooNew(
        f'Instance "{made.id}" of workflow "{made.workflow}" runs by the rules of logic {made.logic}; this '
        f"workflow-emulator knows them up to {CURRENT_LOGIC}. Upgrade: nothing of the instance is lost."
    )


class Recovery:
    """The instances that the former process left unfinished."""

    def __init__(
        self,
        journal: Journal,
        admissions: Mapping[str, Admission],
        post: Callable[[InstanceKey, Input], None],
    ) -> None:
        self._journal = journal
        self._admissions = admissions
        self._post = post
        self._found: deque[InstanceKey] = deque()

    async def find_unfinished(self) -> None:
        """Look through the journal."""
        number = 0
        while found := await self._journal.recoverable(number, ROWS_PER_LOOK):
            number = found[-1][1]
            for key, _ in found:
                if key.workflow in self._admissions:
                    self._admissions[key.workflow].claim(key)
                    self._found.append(key)
        # These gave up their slots, and so have none to get back.
        number = 0
        while found := await self._journal.restless(number, ROWS_PER_LOOK):
            number = found[-1][1]
            self._found.extend(key for key, _ in found if key.workflow in self._admissions)
        held = await self._journal.unfinished(self._admissions)
        if held:
            log.warning(
                "the project has these workflows no longer, and their unfinished instances are held until it has: %s",
                ", ".join(f"{workflow} ({many:,})" for workflow, many in sorted(held.items())),
            )

    def take_up_some(self) -> None:
        """Post the next ones to the engine."""
        for _ in range(min(TAKEN_UP_PER_TURN, len(self._found))):
            self._post(self._found.popleft(), Recovered())
