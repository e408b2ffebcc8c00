"""A thousand instances in flight when the process is killed: all are under way again, and all complete."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import msgspec

from emulator.domain import entries as facts
from tests.crash.evidence import (
    judge_by_the_laws,
    judge_the_effects,
    read_all,
    read_effects,
    snapshot,
)
from tests.crash.victim import PATIENCE_S, Site, victim

INSTANCES = 1_000
BATCH = 100


async def create_all(url: str) -> None:
    """Create the instances, all at the same time; every batch is acknowledged."""
    path = "/client/v4/accounts/any/workflows/steady/instances/batch"
    ids = [f"s-{at}" for at in range(INSTANCES)]
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
        batches = [
            [{"instance_id": each} for each in ids[first : first + BATCH]]
            for first in range(0, INSTANCES, BATCH)
        ]
        answers = await asyncio.gather(*(http.post(path, json=batch) for batch in batches))
    assert [answer.status_code for answer in answers] == [200] * len(batches)


def callers(effects: Path, since: int) -> set[str]:
    """The instances that have called something after the first lines of the effects file."""
    return {line.partition("\t")[0] for line in effects.read_text().splitlines()[since:]}


async def under_way(effects: Path, since: int, unfinished: int) -> None:
    """Wait until so many instances have called something again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if len(callers(effects, since)) >= unfinished:
                return
            await asyncio.sleep(0.05)


async def all_complete(url: str) -> None:
    """Wait until no instance is unfinished."""
    async with (
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http,
        asyncio.timeout(2 * PATIENCE_S),
    ):
        while True:
            answer = await http.get("/cdn-cgi/explorer/api/workflows/steady")
            if answer.json()["result"]["instances"]["complete"] == INSTANCES:
                return
            await asyncio.sleep(0.1)


async def test_a_thousand_instances_go_on_after_a_kill(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with victim(site) as process:
        await create_all(await process.url())
        await process.kill()
    left = snapshot(site.journal, tmp_path / "scratch")
    assert len(left.statuses) == INSTANCES
    assert left.unfinished
    called = len(site.effects.read_text().splitlines())

    began_s = time.monotonic()
    async with victim(site) as process:
        url = await process.url()
        listening_s = time.monotonic() - began_s
        await under_way(site.effects, called, left.unfinished)
        under_way_s = time.monotonic() - began_s
        await all_complete(url)
        complete_s = time.monotonic() - began_s
        process.interrupt()
        assert await process.ended() == 0
    assert process.complaints() == []
    print(
        f"{left.unfinished} unfinished; after the start: listening {listening_s:.1f} s, "
        f"all under way {under_way_s:.1f} s, all complete {complete_s:.1f} s"
    )

    stored = await read_all(site.journal, ["steady"])
    judge_by_the_laws(stored)
    effects = read_effects(site.effects)
    for each in stored:
        judge_the_effects(each, effects[each.row.creation.id])
        last = each.entries[-1][1].fact
        assert isinstance(last, facts.WorkflowSucceeded)
        assert msgspec.json.decode(last.result) == [f"steady {at} is done" for at in range(5)]
