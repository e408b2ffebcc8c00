"""A tenant's instance that slept when the process was killed goes on with its old code; the tenant's process is gone, too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from tests.crash.victim import PATIENCE_S, Site, victim

CONFIG = """{
  "name": "tenants", "main": "entry.py", "compatibility_date": "2026-11-01",
  "workflows": [{ "name": "tenants", "binding": "TENANTS", "class_name": "TenantWorkflow" }]
}"""
ENTRY = """
from bindings.dynamic import create_dynamic_workflow_entrypoint, wrap_workflow_binding
from workers import Response, WorkerEntrypoint

TenantWorkflow = create_dynamic_workflow_entrypoint(isolation="{isolation}")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        tenant, id_ = request.url.split("/")[-2:]
        binding = wrap_workflow_binding({{"tenant": tenant}}, binding=self.env.TENANTS, name="work")
        if request.method == "POST":
            return Response.json({{"id": (await binding.create(id=id_)).id}})
        return Response.json(await (await binding.get(id_)).status())
"""
CODE = """
import os
from workers import WorkflowEntrypoint


class Work(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("where")
        async def where():
            return os.getpid()

        pid = await where()
        await step.sleep("nap", {nap_ms})

        @step.do("word")
        async def word():
            return [{word!r}, pid, os.getpid()]

        return await word()
"""


class TenantsSite(Site):
    """A project of its own."""

    def __init__(self, folder: Path, isolation: str) -> None:
        self.project = folder / "project"
        self.journal = folder / "journal" / "journal.sqlite"
        self.project.mkdir()
        (self.project / "wrangler.jsonc").write_text(CONFIG)
        (self.project / "entry.py").write_text(ENTRY.format(isolation=isolation))


async def publish(http: httpx.AsyncClient, version: str, nap_ms: int) -> None:
    path = f"/cdn-cgi/workflow-emulator/dynamic/acme/work/versions/{version}"
    answer = await http.put(path, content=CODE.format(nap_ms=nap_ms, word=version))
    assert answer.status_code == 201, answer.text


async def becomes(http: httpx.AsyncClient, id_: str, status: str) -> Any:
    """Wait until an instance has a status; its output."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = (await http.get(f"/acme/{id_}")).json()
            if told["status"] == status:
                return told["output"]
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_sleeper_wakes_under_the_version_that_it_was_created_with(
    tmp_path: Path, isolation: Literal["none", "process"]
) -> None:
    site = TenantsSite(tmp_path, isolation)
    async with victim(site) as process:
        async with httpx.AsyncClient(base_url=await process.url()) as http:
            await publish(http, "v1", 4_000)
            assert (await http.post("/acme/old")).json() == {"id": "old"}
            await becomes(http, "old", "waiting")
            await publish(http, "v2", 10)
        await process.kill()
    async with (
        victim(site) as process,
        httpx.AsyncClient(base_url=await process.url()) as http,
    ):
        await http.post("/acme/new")
        new = await becomes(http, "new", "complete")
        word, first_pid, last_pid = await becomes(http, "old", "complete")
        assert (new[0], word) == ("v2", "v1")
        assert first_pid != last_pid
        await process.kill()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if all(map(has_ended, {first_pid, last_pid, new[1]})):
                break
            await asyncio.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Whether a process is no more, or a zombie: nobody has asked how it ended, for its parent was killed."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
