"""166 scenarios, performed here and compared with what Cloudflare's own local engine did with them.

`scenarios/` has the programs, `golden/` the recorded traces, `worker/` an ordinary Python Worker that interprets the
programs, and `divergences.toml` the differences that are meant, which `docs/compatibility.md` shows.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.driver import Scenario, perform
from tests.conformance.traces import Json, differences

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
KINDS = ("language", "production", "local bug")


def read_folder(folder: str) -> dict[str, Any]:
    """The files of a folder as one dictionary, by `<file>/<scenario>`."""
    return {
        f"{path.stem}/{name}": content
        for path in sorted((HERE / folder).glob("*.json"))
        for name, content in json.loads(path.read_text("utf-8")).items()
    }


SCENARIOS: dict[str, Scenario] = read_folder("scenarios")
GOLDEN: dict[str, Json] = read_folder("golden")
DIVERGENCES: dict[str, dict[str, Any]] = tomllib.loads(
    (HERE / "divergences.toml").read_text("utf-8")
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_leaves_the_recorded_trace_but_for_what_is_listed(name: str) -> None:
    found = differences(GOLDEN[name], perform(SCENARIOS[name]))
    listed: dict[str, str] = DIVERGENCES[name]["here"] if name in DIVERGENCES else {}
    assert {path: difference.here for path, difference in found.items()} == listed, "\n".join(
        f"{path}: {difference.recorded} was recorded, {difference.here} is what came"
        for path, difference in found.items()
    )


def test_each_of_the_166_scenarios_has_a_recording() -> None:
    assert len(SCENARIOS) == 166
    assert SCENARIOS.keys() == GOLDEN.keys()


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_divergence_is_of_a_scenario_and_has_a_kind_and_a_reason(name: str) -> None:
    divergence = DIVERGENCES[name]
    assert name in SCENARIOS
    assert divergence.keys() == {"kind", "reason", "here"}
    assert divergence["kind"] in KINDS
    assert divergence["reason"]
    assert divergence["here"]


def test_the_documentation_shows_the_list_of_divergences() -> None:
    table = divergences_table()
    assert table in PAGE.read_text("utf-8"), f"docs/compatibility.md wants this table:\n\n{table}"


def divergences_table() -> str:
    """The list as a Markdown table, by kind."""
    rows = [
        f"| {name} | {kind} | {divergence['reason']} |"
        for kind in KINDS
        for name, divergence in DIVERGENCES.items()
        if divergence["kind"] == kind
    ]
    return "\n".join(("| scenario | kind | reason |", "|---|---|---|", *rows))
