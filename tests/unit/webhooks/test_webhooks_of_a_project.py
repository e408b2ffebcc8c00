"""A project with a webhook: from a signed request to the user's workflow, through the application that is served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.errors import ConfigError
from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import VirtualClock
from tests.unit.webhooks.senders import stripe
from wrangler_compat.config import load_config
from wrangler_compat.project import open_project

WRANGLER = """{
  "name": "shop", "main": "src/entry.py",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        paid = await step.wait_for_event("paid", "payment")
        return [event["payload"]["amount"], paid["payload"]["amount"]]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response(f"{request.method} {request.url}")
"""
WEBHOOK = """
[tool.workflow-emulator.webhooks."/webhooks/payments"]
workflow = "orders"
instance = "order-{data.object.order}"
event = "payment"
payload = "data.object"
create = true
verify = "stripe"
secret = "PAYMENT_SECRET"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "entry.py").write_text(ENTRY)
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "pyproject.toml").write_text(WEBHOOK)
    return tmp_path


async def test_a_signed_request_starts_a_workflow_and_is_its_event(folder: Path) -> None:
    (folder / ".dev.vars").write_text("PAYMENT_SECRET=s3cret\n")
    body = json.dumps({"id": "evt_1", "data": {"object": {"order": 7, "amount": 12}}}).encode()
    async with open_project(load_config(folder), MemoryJournal(), VirtualClock()) as project:
        transport = httpx.ASGITransport(project.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            url = "/webhooks/payments"
            unsigned = await client.post(url, content=body)
            assert unsigned.status_code == 401
            headers = stripe(body, project.engine.now_ms() // 1000, "evt_1")
            answer = await client.post(url, content=body, headers=headers)
            assert answer.status_code == 202
            assert (await client.get(url)).text == "GET http://localhost/webhooks/payments"

        def output(state: InstanceState) -> bytes | None:
            return None if state.output is None else bytes(state.output)

        async with asyncio.timeout(10):
            key = InstanceKey("orders", "order-7")
            assert await project.engine.until(key, output) == b"[12,12]"


async def test_without_its_secret_a_webhook_is_not_served(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAYMENT_SECRET", raising=False)
    async with open_project(load_config(folder), MemoryJournal(), VirtualClock()) as project:
        with pytest.raises(ConfigError, match='got "PAYMENT_SECRET"; it is not set'):
            project.app()
        monkeypatch.setenv("PAYMENT_SECRET", "s3cret")
        project.app()
