"""The test harness lets a test follow an instance as a Worker does."""

from __future__ import annotations

from pathlib import Path

from wrangler_compat.testing import open_project

WRANGLER = """{
  "name": "shop", "main": "entry.py", "compatibility_date": "2026-11-01",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
from workers import WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("nap", "1 hour")
"""


async def test_a_test_follows_an_instance(tmp_path: Path) -> None:
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ENTRY)
    async with open_project(tmp_path) as project:
        instance = await project.env.ORDERS.create()
        async with await instance.subscribe(filter=["sleep_started", "sleep_completed"]) as events:
            assert (await events.next()).value.type == "sleep_started"
            await project.advance("2 hours")
            assert [event.stepName async for event in events] == ["nap-1"]
