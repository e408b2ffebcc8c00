"""A token has one owner and a payload is taken once, in order, however often the process is killed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from bindings import HookConflictError, HookNotFoundError
from bindings.http import HttpWorkflow
from emulator.errors import EngineStopped
from tests.crash.asking import output_of
from tests.crash.victim import PATIENCE_S, Site, victim

TOKENS = [f"note:{number}" for number in range(8)]
PAYLOADS = 60
KILLS = 6


class Client:
    """Starts a run for its token, and sends it numbered payloads, whatever happens to the process meanwhile."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.owners: set[str] = set()
        self.sent = 0

    async def go_on(self, binding: HttpWorkflow) -> None:
        """Do what is left to do, as long as somebody answers."""
        if not self.owners:
            await self._start(binding)
        while self.sent < PAYLOADS:
            # A call whose answer was lost is made again: under the same id it is the same payload.
            is_last = self.sent == PAYLOADS - 1
            payload = {"note": self.sent, "last": is_last}
            resume_id = f"{self.token} {self.sent}"
            try:
                hook = await binding.resume_hook(self.token, payload, resume_id=resume_id)
                self.owners.add(hook.run_id)
            except HookNotFoundError:
                assert is_last, "the run has ended, so it has taken the last one already"
            self.sent += 1

    async def _start(self, binding: HttpWorkflow) -> None:
        try:
            instance = await binding.create(params={"token": self.token}, hook=self.token)
        except HookConflictError as conflict:  # the answer to a former call was lost
            self.owners.add(conflict.conflicting_run_id)
        else:
            self.owners.add(instance.id)


async def live(site: Site, clients: list[Client], span_s: float) -> None:
    """Start the process, let the clients do what they can, and kill it after a while."""
    async with victim(site) as process:
        url = await process.url()
        async with HttpWorkflow(url, "notes") as binding:
            working = [asyncio.create_task(client.go_on(binding)) for client in clients]
            await asyncio.sleep(span_s)
            await process.kill()
            for outcome in await asyncio.gather(*working, return_exceptions=True):
                assert outcome is None or isinstance(outcome, EngineStopped), outcome


async def test_a_start_and_its_payloads_survive_every_kill(tmp_path: Path) -> None:
    site, chance = Site(tmp_path), random.Random(7)
    clients = [Client(token) for token in TOKENS]
    for _ in range(KILLS):
        await live(site, clients, 0.02 + 0.1 * chance.random())
    async with victim(site) as process, asyncio.timeout(PATIENCE_S):
        url = await process.url()
        async with HttpWorkflow(url, "notes") as binding:
            for client in clients:
                await client.go_on(binding)
        for client in clients:
            [owner] = client.owners
            assert await output_of(url, "notes", owner) == list(range(PAYLOADS))
        assert process.complaints() == []
        await process.kill()
