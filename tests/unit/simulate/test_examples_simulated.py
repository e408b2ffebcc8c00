"""The workflows of the examples survive every simulated crash: no false alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bindings.testing import simulate
from wrangler_compat.config import load_config
from wrangler_compat.worker.loader import load_worker, project_imports

EXAMPLES = Path(__file__).parents[3] / "examples"
PURCHASE = {"id": "desk-7", "what": "a desk"}


def order(order_id: str, address: str = "1 Main Street") -> dict[str, Any]:
    return {"id": order_id, "sku": "mug", "quantity": 2, "amount_cents": 2400, "address": address}


CASES: dict[str, tuple[str, Any, list[tuple[str, Any]]]] = {
    "a paid order": ("orders", order("1"), [("payment", {"amount_cents": 2400})]),
    "an unpaid order": ("orders", order("2"), []),
    "an order without address": ("orders", order("3", " "), [("payment", {"amount_cents": 2400})]),
    "two approvals": (
        "approval",
        PURCHASE,
        [("director", {"approved": True}), ("manager", {"approved": True})],
    ),
    "a refusal": ("approval", PURCHASE, [("manager", {"approved": False})]),
    "the diamond": ("dag", {"products": ["mug", "poster"]}, []),
    "hello": ("hello", {"name": "Ada"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_an_example_gives_no_finding(case: str) -> None:
    example, params, events = CASES[case]
    config = load_config(EXAMPLES / example)
    with project_imports(config):
        for workflow in load_worker(config).workflows.values():
            report = simulate(workflow, params=params, events=events, seeds=16)
            assert report.findings == [], str(report)
