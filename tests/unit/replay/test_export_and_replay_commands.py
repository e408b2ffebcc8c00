"""`export` and `replay` on the order example: from a journal that is in use, before and after a change of the code."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from emulator.domain import values
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from wrangler_compat.cli.main import main
from wrangler_compat.config import load_config
from wrangler_compat.project import journal_of, open_project

ORDERS = Path(__file__).parents[3] / "examples" / "orders"
ORDER = {"id": "1", "sku": "mug", "quantity": 2, "amount_cents": 2400, "address": "1 Main Street"}


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


async def an_order_that_waits(project: Path) -> str:
    """Start an order; its journal, exported while the emulator holds it."""
    config = load_config(project)
    async with open_project(config, journal_of(config)) as opened:
        key = InstanceKey("orders", "order-1")
        creation = Creation(*key, values.encode(ORDER, "params"), opened.engine.now_ms())
        await opened.engine.create([creation], may_be_taken=True)
        await opened.engine.until(key, lambda state: state.status is InstanceStatus.WAITING or None)
        exported = await asyncio.to_thread(command, "export", "order-1", project)
    assert exported.exit_code == 0, exported.output
    return exported.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A project with a waiting order, and a folder with the order's exported journal."""
    project = tmp_path_factory.mktemp("shop") / "orders"
    shutil.copytree(ORDERS, project, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    exported = asyncio.run(an_order_that_waits(project))
    folder = tmp_path_factory.mktemp("journals")
    (folder / "order-1.json").write_text(exported)
    return project, folder


def test_the_project_is_that_of_the_current_folder_if_none_is_named(
    recorded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = recorded
    monkeypatch.chdir(project)
    result = command("replay")
    assert (result.exit_code, result.stdout) == (0, "✓ orders / order-1: goes on\n")


def changed(project: Path, tmp_path: Path, before: str, after: str) -> tuple[Path, int]:
    """The project with a changed line of code, and the line's number."""
    copy = tmp_path / "orders"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    entry = copy / "src" / "entry.py"
    text = entry.read_text()
    assert text.count(before) == 1
    entry.write_text(text.replace(before, after))
    return copy, text[: text.index(before)].count("\n") + 1


def verdicts(result: Result) -> list[dict[str, Any]]:
    return json.loads(result.stdout)


def test_an_exported_journal_names_its_workflow_and_its_format(recorded: tuple[Path, Path]) -> None:
    document = json.loads((recorded[1] / "order-1.json").read_text())
    assert (document["version"], document["workflow"], document["id"]) == (1, "orders", "order-1")
    assert document["params"] == ORDER


def test_the_latest_instance_is_exported_by_that_name(recorded: tuple[Path, Path]) -> None:
    project, folder = recorded
    for chosen in ([], ["--workflow", "orders"]):
        exported = command("export", "latest", project, *chosen)
        assert exported.stdout == (folder / "order-1.json").read_text()
    none = command("export", "latest", project, "--workflow", "nope")
    assert none.exit_code == 1
    assert 'has no instance of "nope", and the project no such workflow' in none.stderr


def test_unchanged_code_goes_on_from_the_projects_own_journal(recorded: tuple[Path, Path]) -> None:
    result = command("replay", recorded[0])
    assert (result.exit_code, result.stdout) == (0, "✓ orders / order-1: goes on\n")


def test_unchanged_code_goes_on_from_a_folder_of_journals(recorded: tuple[Path, Path]) -> None:
    project, folder = recorded
    result = command("replay", project, "--from", folder, "--json")
    assert result.exit_code == 0
    [verdict] = verdicts(result)
    assert verdict["continues"]


def test_a_removed_step_is_named_with_the_line(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    project, folder = recorded
    copy, line = changed(project, tmp_path, "        await reserve()\n", "")
    result = command("replay", copy, "--from", folder / "order-1.json")
    assert result.exit_code == 1
    # The line of the removed `await` is now that of `try:`, and the wait is on the next.
    assert result.stdout == (
        '✗ orders / order-1: diverges: the journal has the step "reserve stock"; '
        f'the code asks for "payment" (waitForEvent) at src/entry.py:{line + 1}\n'
    )


def test_a_renamed_step_is_an_answer_in_json(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    project, folder = recorded
    copy, _ = changed(project, tmp_path, '"reserve stock"', '"put aside"')
    result: Sequence[Any] = verdicts(command("replay", copy, "--from", folder, "--json"))
    [verdict] = result
    assert not verdict["continues"]
    assert verdict["expected"] == {"type": "do", "name": "reserve stock", "count": 1}
    assert verdict["asked"] == {"type": "do", "name": "put aside", "count": 1}


def test_a_workflow_that_is_gone_does_not_go_on(
    recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    project, folder = recorded
    text = (folder / "order-1.json").read_text().replace('"workflow": "orders"', '"workflow": "x"')
    (tmp_path / "x.json").write_text(text)
    result = command("replay", project, "--from", tmp_path / "x.json")
    assert result.exit_code == 1
    assert "the project has no workflow of this name" in result.stdout


def test_nothing_to_replay_is_an_error(recorded: tuple[Path, Path]) -> None:
    project, folder = recorded
    result = command("replay", project, "--from", folder, "--id", "order-2")
    assert result.exit_code == 1
    assert "nothing has been replayed" in result.output
    result = command("replay", project, "--from", folder, "--id", "order-2", "--json")
    assert (result.exit_code, verdicts(result)) == (1, [])


def test_an_unknown_instance_cannot_be_exported(recorded: tuple[Path, Path]) -> None:
    result = command("export", "order-2", recorded[0])
    assert result.exit_code == 1
    assert result.output.endswith('has no instance "order-2".\n')


def test_an_unknown_workflow_is_told_with_those_there_are(recorded: tuple[Path, Path]) -> None:
    result = command("export", "order-1", recorded[0], "--workflow", "nope")
    assert result.exit_code == 1
    told = 'has no instance "order-1" of "nope", and the project no such workflow; it has: orders.'
    assert told in result.output


def test_a_project_where_nothing_has_run_has_no_journal(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders", ignore=shutil.ignore_patterns(".*"))
    result = command("export", "order-1", tmp_path / "orders")
    assert result.exit_code == 1
    assert "nothing has run here yet" in result.output
    result = command("replay", tmp_path / "orders", "--json")
    assert (result.exit_code, verdicts(result)) == (1, [])
    assert "nothing has been replayed" in result.stderr


def test_an_instance_that_is_pinned_to_its_code_goes_on_whatever_the_project_has(
    recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    project, folder = recorded
    copy, _ = changed(project, tmp_path, '"reserve stock"', '"put aside"')
    document = json.loads((folder / "order-1.json").read_text())
    pinned = tmp_path / "pinned.json"
    pinned.write_text(json.dumps({**document, "id": "acme:order-1", "code": "41ef"}))
    result = command("replay", copy, "--from", pinned)
    assert (result.exit_code, result.stdout) == (0, "✓ orders / acme:order-1: goes on\n")


SCHEDULED = """
from pathlib import Path
from workers import WorkerEntrypoint, WorkflowEntrypoint

CALLED = Path(__file__).parent / "called"

class Waits(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("note")
        async def note():
            CALLED.touch()
        await note()
        await step.wait_for_event("go", "go", timeout="300 days")

class Default(WorkerEntrypoint):
    async def scheduled(self, controller):
        CALLED.touch()
"""


def test_a_replay_fires_no_schedule(tmp_path: Path) -> None:
    (tmp_path / "entry.py").write_text(SCHEDULED)
    (tmp_path / "wrangler.jsonc").write_text(
        '{ "main": "entry.py", "triggers": { "crons": ["*/30 * * * *"] }, "workflows": [\n'
        '  { "name": "waits", "binding": "W", "class_name": "Waits", "schedules": "*/30 * * * *" } ] }'
    )

    async def waits() -> None:
        config = load_config(tmp_path)
        async with open_project(config, journal_of(config), schedules="off") as opened:
            key = InstanceKey("waits", "w-1")
            await opened.engine.create(
                [Creation(*key, values.encode(None, "params"), opened.engine.now_ms())],
                may_be_taken=True,
            )
            await opened.engine.until(
                key, lambda state: state.status is InstanceStatus.WAITING or None
            )

    asyncio.run(waits())
    (tmp_path / "called").unlink()
    result = command("replay", tmp_path, "--json")
    assert [each["continues"] for each in verdicts(result)] == [True]
    assert not (tmp_path / "called").exists()
