"""`simulate` finds each planted bug, and nothing in its twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from bindings.testing import Report, simulate

PLANTED = Path(__file__).parents[2] / "planted"
PARAMS = {"order": "1001", "amount_cents": 2400, "items": ["mug", "poster", "lamp"]}
SEEDS = 14

BUGS = {
    "charge_without_key": "runs-twice",
    "clock_branch": "depends-on-clock",
    "forgotten_await": "not-awaited",
    "mutated_result": "state-outside-steps",
    "number_as_seconds": "looks-like-seconds",
    "outside_list": "state-outside-steps",
    "random_step_name": "depends-on-chance",
    "set_iteration": "depends-on-set-order",
    "swallowed_cancellation": "swallows-cancellation",
    "unstepped_create": "outside-step",
}

Load = Callable[[Path], ModuleType]


class Payments:
    async def charge(self, *, amount_cents: int, idempotency_key: str | None = None) -> str:
        return f"receipt for {amount_cents}"


class Child(NamedTuple):
    id: str


class Children:
    def __init__(self) -> None:
        self._ids: set[str] = set()

    async def create(self, *, id: str | None = None, params: Any = None) -> Child:  # noqa: A002
        made = f"child-{len(self._ids)}" if id is None else id
        if made in self._ids:
            raise RuntimeError("(instance.already_exists) the id is taken")
        self._ids.add(made)
        return Child(made)


def fakes() -> dict[str, object]:
    return {"PAYMENTS": Payments(), "CHILDREN": Children()}


def simulated(load: Load, name: str) -> Report:
    module = load(PLANTED / f"{name}.py")
    return simulate(module.Planted, params=PARAMS, env=fakes, seeds=SEEDS)


def test_every_planted_bug_is_known_here() -> None:
    files = {file.stem.removesuffix("_bug") for file in PLANTED.glob("*_bug.py")}
    assert files == set(BUGS)


@pytest.mark.parametrize(("name", "code"), BUGS.items(), ids=list(BUGS))
def test_a_planted_bug_is_found(load: Load, name: str, code: str) -> None:
    report = simulated(load, f"{name}_bug")
    assert code in {finding.code for finding in report.findings}, str(report)


@pytest.mark.parametrize("name", BUGS)
def test_its_twin_gives_no_finding(load: Load, name: str) -> None:
    report = simulated(load, f"{name}_fixed")
    assert report.findings == [], str(report)
    assert report.runs == SEEDS
