"""Ends other than SIGKILL: Ctrl-C, a folder that cannot be written, a disk that is full, a second process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx

from tests.crash.asking import create, output_of
from tests.crash.evidence import judge_by_the_laws, judge_the_effects, read_all, read_effects
from tests.crash.victim import PATIENCE_S, Site, Victim, victim

ENDS_WITHIN_S = 3
"""Ctrl-C is answered in less than one second; the rest is for a machine that is busy."""

AS_OTHERS_DO = (
    sys.executable,
    "-c",
    # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE: from the next program on, modes of files hold for root as well.
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])",
)


def on_a_disk_of(size_bytes: int) -> tuple[str, ...]:
    """What starts a program whose files do not grow beyond this."""
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size_bytes}, {size_bytes}))"
    return (
        sys.executable,
        "-c",
        f"import os, resource, sys; {limit}; os.execv(sys.argv[1], sys.argv[1:])",
    )


async def says_why_it_cannot_start(process: Victim) -> str:
    """Wait for the end of a process that cannot start; what it says."""
    assert await process.ended() == 1
    assert "Traceback" not in process.said
    return process.said


async def test_a_second_process_is_refused_and_a_third_follows_the_first(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with victim(site) as first:
        port = await first.port()
        async with victim(site) as second:
            said = await says_why_it_cannot_start(second)
        assert f"in use by process {first.pid} (http://127.0.0.1:{port})" in said
        assert await create(await first.url(), "steady", "goes-on")
        await first.kill()
    async with victim(site) as third:
        url = await third.url()
        assert await output_of(url, "steady", "goes-on") == [
            f"steady {at} is done" for at in range(5)
        ]


async def test_ctrl_c_ends_it_at_once_and_the_next_start_goes_on(tmp_path: Path) -> None:
    """A callback blocks its thread, code swallows its cancellation, connections are open, a request has no answer."""
    site = Site(tmp_path)
    async with victim(site) as process:
        url = await process.url()
        assert await create(url, "stubborn", "mule")
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
            while True:
                if (await http.get("/")).text == "True":
                    break
                await asyncio.sleep(0.02)
            _, idle = await asyncio.open_connection("127.0.0.1", await process.port())
            _, asking = await asyncio.open_connection("127.0.0.1", await process.port())
            asking.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            await asking.drain()
            process.interrupt()
            async with asyncio.timeout(ENDS_WITHIN_S):
                assert await process.ended() == 0
            for connection in (idle, asking):
                connection.close()
    async with victim(site) as process:
        assert await output_of(await process.url(), "stubborn", "mule") == 1
    calls = [(attempt, what) for _, attempt, what in read_effects(site.effects)["mule"]]
    assert calls == [(1, "start"), (1, "start"), (1, "end")], "an orderly end is no failed attempt"


async def test_a_folder_that_cannot_be_written_is_told_and_harms_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    folder = site.journal.parent
    folder.mkdir(mode=0o555)
    async with victim(site, through=AS_OTHERS_DO) as process:
        said = await says_why_it_cannot_start(process)
    assert f"folder {folder} cannot be written: Permission denied" in said
    assert not list(folder.iterdir())

    folder.chmod(0o755)
    async with victim(site, through=AS_OTHERS_DO) as process:
        assert await create(await process.url(), "steady", "goes-on")
        await process.kill()
    for mode in (0o444, 0o644):
        site.journal.chmod(mode)
        async with victim(site, through=AS_OTHERS_DO) as process:
            if mode == 0o444:
                said = await says_why_it_cannot_start(process)
                assert f"{site.journal} cannot be opened: Permission denied" in said
            else:
                assert await output_of(await process.url(), "steady", "goes-on")


async def test_a_full_disk_stops_it_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    site = Site(tmp_path)
    acknowledged: list[str] = []
    async with victim(site) as process:
        url = await process.url()
        for number in range(1_000):
            if number == 20:
                wal = site.journal.with_name(f"{site.journal.name}-wal")
                process.limit_files(wal.stat().st_size + 50_000)
            if not await create(url, "steady", f"steady-{number}"):
                break
            acknowledged.append(f"steady-{number}")
        assert await process.ended() == 1
        assert "CRITICAL: The engine has stopped: The journal" in process.said
        assert "Traceback" not in process.said
    assert len(acknowledged) >= 20
    for size_bytes, part in (
        (0, "journal.sqlite.lock cannot be written"),
        (40_000, "the disk fails"),
    ):
        async with victim(site, through=on_a_disk_of(size_bytes)) as process:
            assert part in await says_why_it_cannot_start(process)
    async with victim(site) as process:
        url = await process.url()
        for instance in acknowledged:
            assert len(await _list_of(url, instance)) == 5
        process.interrupt()
        assert await process.ended() == 0
    stored = await read_all(site.journal, ["steady"])
    judge_by_the_laws(stored)
    effects = read_effects(site.effects)
    for each in stored:
        judge_the_effects(each, effects[each.row.creation.id])


async def _list_of(url: str, instance: str) -> list[object]:
    output = await output_of(url, "steady", instance)
    assert isinstance(output, list)
    return [*output]
