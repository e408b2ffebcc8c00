"""Unmodified `wrangler workflows` drives the emulator, as Cloudflare's API and with `--local`.

A command takes more than a second to start, so those that do not need each other run at once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.cli.process import Dev
from tests.wire.wrangler import Mode, Wrangler, install

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None and "CI" not in os.environ,
    reason="wrangler needs npm, which is not here",
)

INSTANCE = "invoice-1"
DETAIL = f"/cdn-cgi/explorer/api/workflows/billing/instances/{INSTANCE}"


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Path:
    """Where wrangler is."""
    assert pytestconfig.cache is not None
    return install(pytestconfig.cache.mkdir("wire"))


@pytest.fixture(params=["remote", "local"])
def wrangler(
    request: pytest.FixtureRequest, server: Dev, programs: Path, tmp_path: Path
) -> Wrangler:
    """Wrangler in each of its modes."""
    mode: Mode = request.param
    return Wrangler(programs, tmp_path, server.port, mode)


async def becomes(server: Dev, status: str) -> dict[str, Any]:
    """Wait until the instance has a status; its detail."""
    async with httpx.AsyncClient(base_url=server.url) as client, asyncio.timeout(10):
        detail: dict[str, Any] = {}
        while detail.get("status") != status:
            detail = (await client.get(DETAIL)).json()["result"]
        return detail


async def test_wrangler_shows_what_there_is(server: Dev, wrangler: Wrangler) -> None:
    created = await wrangler.succeeds("trigger", "billing", '{"n": 1}', "--id", INSTANCE, "--json")
    assert created.json["id"] == INSTANCE
    await becomes(server, "waiting")
    (
        listed,
        table,
        described,
        text,
        instances,
        detail,
        latest,
        taken,
        *missing,
    ) = await asyncio.gather(
        wrangler.succeeds("list", "--json"),
        wrangler.succeeds("list"),
        wrangler.succeeds("describe", "billing", "--json"),
        wrangler.succeeds("describe", "billing"),
        wrangler.succeeds("instances", "list", "billing", "--json"),
        wrangler.succeeds("instances", "describe", "billing", INSTANCE, "--json"),
        wrangler.succeeds("instances", "describe", "billing", "latest"),
        wrangler.fails("trigger", "billing", "--id", INSTANCE, "--json"),
        wrangler.fails("describe", "no-such-workflow"),
        wrangler.fails("instances", "describe", "billing", "no-such-instance"),
    )
    assert {each["name"] for each in listed.json} == {"billing", "echo"}
    assert "Script name" in table.text
    assert described.json["class_name"] == "Billing"
    assert "Class Name:" in text.text
    assert [(each["id"], each["status"]) for each in instances.json] == [(INSTANCE, "waiting")]
    assert detail.json["params"] == {"n": 1}
    assert [each["name"] for each in detail.json["steps"]] == ["charge-1", "approve-1"]
    for line in ("Steps:", "charge-1", "Waiting for event"):
        assert line in latest.text
    assert "already_exists" in taken.text
    for said in missing:
        assert "not found" in said.text or "not_found" in said.text


async def test_wrangler_drives_an_instance(server: Dev, wrangler: Wrangler) -> None:
    own = ("billing", INSTANCE)
    await wrangler.succeeds("trigger", "billing", '{"n": 1}', "--id", INSTANCE)
    await becomes(server, "waiting")
    paused = await wrangler.succeeds("instances", "pause", *own, "--json")
    assert paused.json["status"] == "paused"
    await wrangler.succeeds("instances", "resume", *own)
    payload = ("--type", "approval", "--payload", '{"by": "me"}')
    await wrangler.succeeds("instances", "send-event", *own, *payload)
    assert (await becomes(server, "complete"))["output"] == {"by": "me"}
    refused = await wrangler.fails("instances", "terminate", *own)
    assert "cannot_terminate" in refused.text
    await wrangler.succeeds("instances", "restart", *own)
    await becomes(server, "waiting")
    ended = await wrangler.succeeds("instances", "terminate", *own, "--rollback", "--json")
    assert ended.json["status"] == "terminated"
    partly = await wrangler.fails("instances", "delete", *own, "no-such-instance", "--json")
    assert "instance.not_found" in partly.text
    assert server.get(DETAIL).status_code == 404
