"""Chunks that were acknowledged before a kill are there after it, each once, with the attempt that wrote it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

from bindings import WorkflowInstance
from bindings.http import HttpWorkflow
from tests.crash.asking import create, output_of
from tests.crash.evidence import read_effects
from tests.crash.victim import PATIENCE_S, Site, victim

CHUNKS = 120
SOON_S = 0.1
"""A life this long cannot come to the end: the step alone takes longer."""


async def kill_soon(site: Site, chance: random.Random) -> None:
    """Start the process, and kill it after a moment, wherever it is."""
    async with victim(site) as process:
        await create(await process.url(), "scribe", "one", {"chunks": CHUNKS})
        await asyncio.sleep(SOON_S * chance.random())
        await process.kill()


async def kill_in_the_step(site: Site, chance: random.Random) -> None:
    """Start the process, and kill it when its step has written some more chunks, but not all."""
    goal = acknowledged(site).total() + chance.randint(1, CHUNKS // 2)
    async with victim(site) as process, asyncio.timeout(PATIENCE_S):
        await process.url()
        while True:
            if acknowledged(site).total() >= goal:
                break
            await asyncio.sleep(0.005)
        await process.kill()


def acknowledged(site: Site) -> Counter[tuple[int, int]]:
    """How often each attempt was told that a number is written."""
    if not site.effects.exists():
        return Counter()
    calls = read_effects(site.effects)["one"]
    return Counter((int(number), attempt) for number, attempt, what in calls if what == "start")


async def values_of(instance: WorkflowInstance, namespace: str) -> list[object]:
    return [chunk async for chunk in instance.readable(namespace=namespace)]


async def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    site, chance = Site(tmp_path), random.Random(31)
    for kill in (kill_soon, kill_soon, kill_in_the_step, kill_in_the_step, kill_soon, kill_soon):
        await kill(site, chance)
    async with victim(site) as process, asyncio.timeout(PATIENCE_S):
        url = await process.url()
        await output_of(url, "scribe", "one")
        async with HttpWorkflow(url, "scribe") as binding:
            instance = await binding.get("one")
            assert await values_of(instance, "of run") == list(range(CHUNKS))
            pages = [f"page {number}".encode() for number in range(CHUNKS)]
            assert await values_of(instance, "copied") == pages
            records = [each async for each in instance.readable().records()]
        await process.kill()
    assert [each.index for each in records] == list(range(len(records)))
    written = Counter((each.value, each.attempt) for each in records)
    assert set(written.values()) == {1}
    told = acknowledged(site)
    assert set(told.values()) == {1}
    assert told.keys() <= written.keys()
    last = max(each.attempt for each in records)
    assert last > 2, "two kills have come while the step wrote"
    for attempt in range(1, last + 1):
        numbers = [each.value for each in records if each.attempt == attempt]
        assert numbers == list(range(CHUNKS if attempt == last else len(numbers)))
    assert {each.step for each in records} == {"write-1"}
