"""Clients that keep asking until they are answered, and remember what they were told.

What was answered before a kill has to be true for ever. What was not answered is unknown: it is asked again, and events
then carry a new number, so that both of them can be told apart.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx

TERMINAL = frozenset({"complete", "errored", "terminated"})
CLIENTS = 8
API = "/cdn-cgi/explorer/api/workflows"


class Subject(NamedTuple):
    """An instance of the test: what it is asked to be."""

    id: str
    workflow: str
    kind: str
    place: int
    rounds: int

    @property
    def path(self) -> str:
        """Where the API has it."""
        return f"{API}/{self.workflow}/instances/{self.id}"


class Clients:
    """All that is asked of all instances, in order for each of them.

    What is asked is a word: `create`, `go` and `extra` (events), `pause`, `resume`, `terminate`.
    """

    def __init__(self, subjects: Iterable[Subject], chance: random.Random) -> None:
        self.subjects = {subject.id: subject for subject in subjects}
        self.owed: dict[str, deque[str]] = {each: deque(["create"]) for each in self.subjects}
        self.created: set[str] = set()
        self.sent: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.accepted_ms: dict[tuple[str, int], int] = {}
        self.held: dict[str, int] = {}  # paused, and by which pause
        self._answers = 0
        self._goal = 0
        self._reached: asyncio.Future[None] | None = None
        self.watch = StatusWatch()
        self._chance = chance
        self._serial = 0

    def owe(self, instance: str, *requests: str) -> None:
        """Ask this of an instance, after what is still to be asked."""
        self.owed[instance] += requests

    def after(self, answers: int) -> asyncio.Future[None]:
        """Done when so many more answers have come."""
        self._goal = self._answers + answers
        self._reached = asyncio.get_running_loop().create_future()
        return self._reached

    def _count(self) -> None:
        self._answers += 1
        if self._reached is not None and self._answers == self._goal:
            self._reached.set_result(None)

    async def ask_all(self, base: str) -> None:
        """Ask all that is owed; ends early if the process does."""
        waiting = [each for each, owed in self.owed.items() if owed]
        self._chance.shuffle(waiting)
        async with httpx.AsyncClient(base_url=base, timeout=60) as http:
            await asyncio.gather(*(self._serve(http, waiting) for _ in range(CLIENTS)))

    async def _serve(self, http: httpx.AsyncClient, waiting: list[str]) -> None:
        try:
            while waiting:
                instance = waiting.pop()
                while self.owed[instance]:
                    await self._ask(http, self.subjects[instance], self.owed[instance][0])
                    self.owed[instance].popleft()
                    self._count()
        except httpx.TransportError:
            waiting.clear()

    async def _ask(self, http: httpx.AsyncClient, subject: Subject, what: str) -> None:
        match what:
            case "create":
                await self._create(http, subject)
            case "go" | "extra":
                await self._send(http, subject, what)
            case _:
                await self._change(http, subject, what)

    async def _create(self, http: httpx.AsyncClient, subject: Subject) -> None:
        body = {"id": subject.id, "params": {"kind": subject.kind, "rounds": subject.rounds}}
        answer = await http.post(f"{API}/{subject.workflow}/instances", json=body)
        # Where the first answer was lost in a kill, the instance may be there.
        assert answer.status_code == 200 or "already exists" in answer.text, answer.text
        self.created.add(subject.id)

    async def _send(self, http: httpx.AsyncClient, subject: Subject, event_type: str) -> None:
        self._serial += 1
        serial = self._serial
        self.sent[subject.id, event_type].append(serial)
        answer = await http.post(f"{subject.path}/events/{event_type}", json=serial)
        assert answer.status_code == 200, answer.text
        self.accepted_ms[subject.id, serial] = time.time_ns() // 1_000_000

    async def _change(self, http: httpx.AsyncClient, subject: Subject, what: str) -> None:
        self.held.pop(subject.id, None)
        answer = await http.patch(f"{subject.path}/status", json=_CHANGES[what])
        if what == "terminate":
            assert answer.status_code == 200 or "terminate" in answer.text.lower(), answer.text
            return
        assert answer.status_code == 200, answer.text
        if what == "pause":
            self._serial += 1
            self.held[subject.id] = self._serial

    async def look(self, base: str) -> None:
        """Read the statuses again and again, as long as the process answers."""
        async with httpx.AsyncClient(base_url=base, timeout=60) as http:
            try:
                while True:
                    await self.look_once(http)
                    await asyncio.sleep(0.05)
            except httpx.TransportError:
                return

    async def look_once(self, http: httpx.AsyncClient) -> None:
        """Read the status of every instance, and hold it against what is known."""
        created, held = set(self.created), dict(self.held)
        seen: dict[str, str] = {}
        for workflow in sorted({each.workflow for each in self.subjects.values()}):
            page, rows = 1, None
            while rows is None or len(rows) == 100:
                query = {"per_page": 100, "page": page}
                answer = await http.get(f"{API}/{workflow}/instances", params=query)
                assert answer.status_code == 200, answer.text
                rows = answer.json()["result"]
                seen |= {row["id"]: row["status"] for row in rows}
                page += 1
        # Newest first: what is created between two pages moves rows on to the next, and hides none.
        assert created <= seen.keys(), f"created, and not there: {sorted(created - seen.keys())}"
        # Of those that were paused all the time that the reading took, and not resumed and paused again.
        for each in [each for each, pause in held.items() if self.held.get(each) == pause]:
            assert seen[each] in {"paused", "waitingForPause"} | TERMINAL, (each, seen[each])
        self.watch.see(seen)


class StatusWatch:
    """What was seen of each instance's status; it never goes backwards."""

    def __init__(self) -> None:
        self.last: dict[str, str] = {}

    def see(self, statuses: dict[str, str]) -> None:
        """Take note of what all instances are now."""
        for each, status in statuses.items():
            before = self.last.get(each)
            assert before not in TERMINAL or status == before, f"{each}: {status} after {before}"
            if before == "rollingBack":
                assert status in {before, "errored", "terminated"}, f"{each}: {status}"
        self.last |= statuses


_CHANGES: dict[str, dict[str, Any]] = {
    "pause": {"status": "pause"},
    "resume": {"status": "resume"},
    "terminate": {"status": "terminate", "rollback": True},
}
