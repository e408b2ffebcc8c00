"""166 scenarios, performed here and compared with what Cloudflare's own local engine did with them.

`scenarios/` has the programs, `golden/` the recorded traces, `worker/` an ordinary Python Worker that interprets the
programs, and `divergences.toml` the differences that are meant.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from emulator.timing.clock import SystemClock
from tests.conformance.driver import Scenario, Worker, perform
from tests.conformance.traces import Json, differences
from tests.unit.cli.process import Dev, command

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
KINDS = ("language", "production", "local bug")
CONCURRENCY = 8
PATIENCE_S = 60


def read_scenarios(folder: str) -> dict[str, Any]:
    """The files of a folder as one dictionary, by `<file>/<scenario>`."""
    return {
        f"{path.stem}/{name}": content
        for path in sorted((HERE / folder).glob("*.json"))
        for name, content in json.loads(path.read_text("utf-8")).items()
    }


SCENARIOS: dict[str, Scenario] = read_scenarios("scenarios")
GOLDEN: dict[str, Json] = read_scenarios("golden")
DIVERGENCES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "divergences.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The worker, running as users run it."""
    folder = tmp_path_factory.mktemp("conformance")
    arguments = command(HERE / "worker", "--persist-to", str(folder / "state"), "--fast-retries")
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield Dev(process).url
        finally:
            process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def performances(
    url: str, request: pytest.FixtureRequest
) -> AsyncIterator[dict[str, asyncio.Task[Json]]]:
    """All scenarios under way, a few at a time; each test waits for its own."""
    turns = asyncio.Semaphore(CONCURRENCY)

    async def in_turn(worker: Worker, scenario: Scenario) -> Json:
        async with turns:
            return await perform(worker, scenario)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        worker = Worker(client, SystemClock())
        tasks = {
            name: asyncio.create_task(in_turn(worker, scenario))
            for name, scenario in SCENARIOS.items()
        }
        yield tasks
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_scenario_leaves_the_recorded_trace_but_for_what_is_listed(
    performances: dict[str, asyncio.Task[Json]], name: str
) -> None:
    found = differences(GOLDEN[name], await performances[name])
    listed = DIVERGENCES[name]["here"] if name in DIVERGENCES else {}
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
