"""A project whose engine dies at one of its commits, and an instance that has to come to its end all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from emulator.domain.values import JsDict
from emulator.errors import EngineStopped, InstanceAlreadyExists
from emulator.journal.port import Commit, Journal
from emulator.testing.faults import Fault, FaultKind, FaultyJournal
from tests.unit.bindings.project import Project, Run, in_virtual_time

MAIN = "main"
"""The id of the instance."""

Check = Callable[["Crashing", JsDict], Awaitable[None]]


class Crashing(Project):
    """Its first engine meets a fault."""

    def __init__(self, run: Run, fault: Fault, **settings: Any) -> None:
        super().__init__(run, **settings)
        self._faults = [fault]
        self.has_crashed = False

    def way_to_journal(self) -> Journal:
        """The journal, with the fault if that has not come yet."""
        fault = self._faults.pop() if self._faults else None
        return FaultyJournal(self.journal, (0,), fault, self._committed, _nothing, _nothing)

    async def _committed(self, commit: Commit) -> None:
        """See `FaultyJournal`."""

    async def outcome_of_main(self) -> JsDict:
        """The end of the one instance, whatever comes between."""
        for _ in range(3):
            try:
                await self.workflow.create(id=MAIN)
            except InstanceAlreadyExists:
                pass
            except EngineStopped:
                self.has_crashed = True
                await self.crash()
                continue
            try:
                return await self.ended(MAIN)
            except EngineStopped:
                self.has_crashed = True
                await self.crash()
        raise AssertionError("it crashes again and again")


def _nothing() -> None:
    pass


def at_every_commit(run: Run, check: Check) -> int:
    """Let the engine die before and after each of its commits in turn; says how many there are."""
    commit = 0
    while True:
        commit += 1
        if not [_dies(run, check, Fault(kind, commit, 1)) for kind in _KINDS].count(True):
            return commit - 1


_KINDS = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER)


def _dies(run: Run, check: Check, fault: Fault) -> bool:
    died: list[bool] = []

    @in_virtual_time
    async def live() -> None:
        async with Crashing(run, fault) as project:
            await check(project, await project.outcome_of_main())
            died.append(project.has_crashed)

    live()
    return died[0]
