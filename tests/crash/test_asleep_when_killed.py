"""Sleepers wake at the next start without being asked, whatever else is wrong with the journal."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import httpx
import pytest

from tests.crash.asking import create, output_of, statuses_of
from tests.crash.clients import API
from tests.crash.evidence import judge_by_the_laws, judge_the_effects, read_all, read_effects
from tests.crash.victim import PATIENCE_S, Site, victim

CROWD = 20
OUTPUT = ["before is done", "after is done"]


async def kill_asleep(site: Site, nap_ms: int, names: list[str]) -> None:
    """Create sleepers, and kill the process when all of them sleep."""
    async with victim(site) as process:
        url = await process.url()
        made = (create(url, "sleeper", name, {"nap_ms": nap_ms}) for name in names)
        assert all(await asyncio.gather(*made))
        # One asks for all: a crowd that asks would keep the machine busy for longer than the nap is.
        async with asyncio.timeout(PATIENCE_S):
            while (statuses := await statuses_of(url, "sleeper")) != dict.fromkeys(
                names, "waiting"
            ):
                assert "complete" not in statuses.values(), (
                    "the machine is too slow for so short a nap"
                )
                await asyncio.sleep(0.05)
        await process.kill()


def effects_of(site: Site, name: str) -> list[str]:
    """What an instance has done, so far."""
    return [f"{step} {what}" for step, _, what in read_effects(site.effects)[name]]


@pytest.mark.parametrize("nap_ms", [1_500, 4_000], ids=["wake time past", "wake time ahead"])
async def test_a_sleeper_wakes_without_being_asked(tmp_path: Path, nap_ms: int) -> None:
    site = Site(tmp_path)
    began_s = time.monotonic()
    await kill_asleep(site, nap_ms, ["alone"])
    assert effects_of(site, "alone") == ["before start", "before end"]
    if nap_ms == 1_500:
        await asyncio.sleep(max(0, began_s + 5 - time.monotonic()))
    async with victim(site) as process, asyncio.timeout(PATIENCE_S):
        while True:
            if len(effects_of(site, "alone")) == 4:
                break
            await asyncio.sleep(0.05)
        assert await output_of(await process.url(), "sleeper", "alone") == OUTPUT
        await process.kill()
    [stored] = await read_all(site.journal, ["sleeper"])
    judge_by_the_laws([stored])
    judge_the_effects(stored, read_effects(site.effects)["alone"])


async def test_another_program_holds_the_write_lock_at_the_start(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = [f"sleeper-{number}" for number in range(CROWD)]
    await kill_asleep(site, 6_000, names)
    other = sqlite3.connect(site.journal, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        async with victim(site) as process:
            await asyncio.sleep(3)
            other.execute("ROLLBACK")
            url = await process.url()
            for name in names:
                assert await output_of(url, "sleeper", name) == OUTPUT
            assert process.complaints() == []
    finally:
        other.close()


async def test_an_instance_that_is_damaged_does_not_hold_up_the_others(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = [f"sleeper-{number}" for number in range(CROWD)]
    await kill_asleep(site, 6_000, names)
    database = sqlite3.connect(site.journal)
    with database:
        damage = "UPDATE entry SET body = '{' WHERE seq = 4 AND number = (SELECT number FROM instance WHERE id = ?)"
        assert database.execute(damage, (names[0],)).rowcount == 1
    database.close()
    async with victim(site) as process:
        url = await process.url()
        for name in names[1:]:
            assert await output_of(url, "sleeper", name) == OUTPUT
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
            answer = await http.get(f"{API}/sleeper/instances/{names[0]}")
        assert answer.status_code == 500
        assert f"instance '{names[0]}' of workflow 'sleeper' cannot be read" in answer.text
        await process.kill()
    assert f"instance '{names[0]}' of workflow 'sleeper' cannot be read" in process.said
