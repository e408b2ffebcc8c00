"""Two hundred instances in every state, killed at thirty random moments; and in the end as if nothing had happened.

The moments come from a seed, which is printed; `CRASH_SEED=4711` draws the same ones again. What a kill meets at its
moment is up to the machine.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import msgspec
import pytest

from emulator.domain import entries as facts
from emulator.journal.port import StoredInstance
from tests.crash.clients import TERMINAL, Clients, Subject
from tests.crash.evidence import (
    Snapshot,
    judge_by_the_laws,
    judge_the_effects,
    read_all,
    read_effects,
    snapshot,
)
from tests.crash.victim import Site, Victim, victim

KINDS = (
    "busy",
    "flaky",
    "asleep",
    "buffering",
    "interrupted",
    "fanned out",
    "queued",
    "undone",
    "doomed",
    "terminated",
)
EARLY_ENDS = ("undone", "doomed", "terminated")
OF_A_KIND = 20
KILLS = 30
ROUNDS = 6
CREATING = 3
"""In so many of the first lives the instances are created."""

PATIENCE_S = 120


def subjects() -> Iterator[Subject]:
    for kind in KINDS:
        for place in range(OF_A_KIND):
            workflow = "narrow" if kind == "queued" else "lives"
            rounds = 1 + place % 4 if kind in EARLY_ENDS else ROUNDS
            yield Subject(f"{kind.replace(' ', '-')}-{place}", workflow, kind, place, rounds)


class Killings:
    """The lives of the process, one after the other, and what was found after each."""

    def __init__(self, site: Site, scratch: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clients = Clients(subjects(), self.chance)
        self.site = site
        self.met: Counter[str] = Counter()
        self.last: Snapshot | None = None
        self._scratch = scratch
        self._start_s = 1.0
        delays = ["acknowledged"] * 12 + ["listening"] * 12 + ["starting"] * 6
        self.chance.shuffle(delays)
        self._moments = delays

    async def live(self, life: int) -> None:
        """One life: it starts, clients ask, it is killed, and what is left is looked at."""
        self._plan(life)
        began_s = asyncio.get_running_loop().time()
        async with victim(self.site) as process:
            if life >= CREATING and self._moments[life] == "starting":
                await asyncio.sleep(self.chance.uniform(0.2, 1.1) * self._start_s)
                await process.kill()
            else:
                url = await process.url()
                self._start_s = asyncio.get_running_loop().time() - began_s
                await self._be_asked(process, url, life)
        assert process.complaints() == []
        if self.site.journal.exists():
            self._examine()

    async def _be_asked(self, process: Victim, url: str, life: int) -> None:
        clients = self.clients
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(clients.ask_all(url))
            tasks.create_task(clients.look(url))
            if life < CREATING or self._moments[life] == "acknowledged":
                enough = clients.after(self.chance.randint(1, 80))
                await asyncio.wait((asking, enough), return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(self.chance.uniform(0.02, 1.0))
            await process.kill()

    def _plan(self, life: int) -> None:
        """What clients want in this life: in every fifth one an event for each instance, pauses, and some ends."""
        clients = self.clients
        for each in clients.subjects.values():
            if (life + each.place) % 5 == 0 and life // 5 < each.rounds:
                clients.owe(each.id, *(("go", "extra") if each.kind == "buffering" else ("go",)))
            if each.kind == "interrupted":
                turn = (life + each.place) % 4
                clients.owe(each.id, *{0: ("pause",), 2: ("resume",)}.get(turn, ()))
            if each.kind == "terminated" and life == 8 + each.place:
                clients.owe(each.id, "terminate")

    def _examine(self) -> None:
        found = snapshot(self.site.journal, self._scratch)
        assert self.clients.created <= found.statuses.keys()
        self.clients.watch.see(found.statuses)
        if self.last is not None:
            gone = self.last.lines - found.lines
            assert not gone, f"the journal has forgotten {sorted(gone)[:5]}"
        self.last = found
        self.met += Counter({name: 1 for name, many in found.states.items() if many})

    async def finish(self) -> None:
        """The last life, in which everything comes to its end."""
        clients = self.clients
        for each in clients.subjects.values():
            if each.kind == "interrupted":
                clients.owe(each.id, "resume")
        async with victim(self.site) as process:
            url = await process.url()
            async with asyncio.timeout(PATIENCE_S):
                await clients.ask_all(url)
                async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                    while not all(status in TERMINAL for status in clients.watch.last.values()):
                        await clients.look_once(http)
                        await asyncio.sleep(0.1)
            process.interrupt()
            assert await process.ended() == 0
        assert process.complaints() == []


async def test_thirty_kills_leave_no_trace(tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED") or secrets.randbelow(1_000_000))
    print(f"seed {seed}")
    site = Site(tmp_path)
    killings = Killings(site, tmp_path / "scratch", seed)
    for life in range(KILLS):
        await killings.live(life)
    assert killings.last is not None
    print(f"met {dict(killings.met)}; {killings.last.unfinished} unfinished at the last kill")
    await killings.finish()

    clients = killings.clients
    stored = await read_all(site.journal, ("lives", "narrow"))
    assert {each.row.creation.id for each in stored} == clients.subjects.keys()
    judge_by_the_laws(stored)
    effects = read_effects(site.effects)
    assert effects.keys() <= clients.subjects.keys()
    for each in stored:
        judge_the_effects(each, effects[each.row.creation.id])
        judge_the_events(each, clients)
        judge_the_result(each, clients.subjects[each.row.creation.id])
    assert killings.last.unfinished
    assert killings.met.keys() == killings.last.states.keys()


def judge_the_events(stored: StoredInstance, clients: Clients) -> None:
    """Every event that was accepted is there once, and in the order of sending; none that was not sent."""
    instance, ended_ms = stored.row.creation.id, stored.row.ended_ms
    received: dict[str, list[int]] = {"go": [], "extra": []}
    for _, entry in stored.entries:
        fact = entry.fact
        if isinstance(fact, facts.EventReceived) and fact.payload is not None:
            received[fact.event_type].append(msgspec.json.decode(fact.payload))
    assert ended_ms is not None
    for event_type, serials in received.items():
        sent = clients.sent[instance, event_type]
        assert serials == sorted(set(serials)), f"{instance}: {event_type} {serials}"
        assert set(serials) <= set(sent)
        for serial in set(sent) - set(serials):
            accepted_ms = clients.accepted_ms.get((instance, serial))
            assert accepted_ms is None or accepted_ms >= ended_ms, f"{instance} has lost {serial}"


def judge_the_result(stored: StoredInstance, subject: Subject) -> None:
    """It ends as its kind has to, with what its steps and its events give."""
    last = stored.entries[-1][1].fact
    match subject.kind, last:
        case "terminated", facts.WorkflowTerminated():
            compensated = [fact.completed_steps for fact in found(stored, facts.RollbackCompleted)]
            undoable = len(found(stored, facts.StepStarted))
            # Who is terminated before its first step has nothing to undo, and nothing is said of it.
            assert compensated == ([undoable] if undoable else []), stored.entries
        case "undone", facts.WorkflowFailed(error=error):
            assert error.message == "undo it all"
            [rollback] = found(stored, facts.RollbackCompleted)
            assert rollback.completed_steps == 2 * subject.rounds
        case "doomed", facts.WorkflowFailed(error=error):
            attempts = [fact.error for fact in found(stored, facts.AttemptFailed)][-5:]
            assert [fact.attempt for fact in found(stored, facts.AttemptFailed)][-5:] == [
                *range(1, 6)
            ]
            assert error == attempts[-1]
        case _, facts.WorkflowSucceeded(result=result):
            assert subject.kind not in EARLY_ENDS
            output = msgspec.json.decode(result)
            taken = [fact.payload or b"" for fact in found(stored, facts.WaitCompleted)]
            assert output["taken"] == [msgspec.json.decode(payload) for payload in taken]
            assert output["done"] == [expected(subject.kind, at) for at in range(subject.rounds)]
        case _:
            pytest.fail(f"{subject.id} has ended with {last}")


F = TypeVar("F", bound=facts.Fact)


def found(stored: StoredInstance, kind: type[F]) -> list[F]:
    """The facts of a kind, in order."""
    return [entry.fact for _, entry in stored.entries if isinstance(entry.fact, kind)]


def expected(kind: str, number: int) -> list[str]:
    """What a round of a kind gives."""
    names = {
        "busy": ("loop {}", "thread {}"),
        "queued": ("loop {}", "thread {}"),
        "flaky": ("flaky {}",),
        "asleep": ("awake {}",),
        "buffering": ("quick {}",),
        "interrupted": ("before {}", "after {}"),
        "fanned out": ("branch {}.0", "branch {}.1", "branch {}.2"),
    }
    return [f"{name.format(number)} is done" for name in names[kind]]
