"""The code of docs/webhooks.md: the table is read as it stands, the app answers as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_testing_guide import DOCS, TOML
from wrangler_compat.config import load_config
from wrangler_compat.testing import open_project
from wrangler_compat.webhooks.table import read_webhooks

PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = (DOCS / "webhooks.md").read_text("utf-8")
WRANGLER = """{
  "name": "shop", "main": "entry.py",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }]
}"""
ORDERS = """
from workers import WorkflowEntrypoint

class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        return event.payload
"""


def write_project(folder: Path) -> None:
    [table] = TOML.findall(GUIDE)
    [app] = PYTHON.findall(GUIDE)
    (folder / "wrangler.jsonc").write_text(WRANGLER)
    (folder / "pyproject.toml").write_text(table)
    (folder / ".dev.vars").write_text("PAYMENT_SECRET=whsec_1\n")
    (folder / "entry.py").write_text(app + ORDERS)


def test_the_table_of_the_guide_has_no_mistake(tmp_path: Path) -> None:
    write_project(tmp_path)
    [webhook] = read_webhooks(load_config(tmp_path), {})
    assert (webhook.path, webhook.workflow) == ("/webhooks/payments", "orders")


async def test_the_app_of_the_guide_answers(tmp_path: Path) -> None:
    write_project(tmp_path)
    async with open_project(tmp_path) as project:
        answer = await project.request("GET", "/shelves/7")
        assert (answer.status, answer.json()) == (200, {"shelf": 7})
