"""docs/running.md: what unfinished instances make of changed code, how the journal is copied, that the commands are there."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.docs.test_testing_guide import DOCS
from tests.unit.cli.process import dev
from wrangler_compat.cli.main import main
from wrangler_compat.testing import open_project

GUIDE = (DOCS / "running.md").read_text("utf-8")
COMMANDS = re.compile(r"workflow-emulator ([^`#\n]+)")
WRANGLER = """{
  "name": "shop", "main": "src/entry.py",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }]
}"""
ENTRY = """
from workers import WorkflowEntrypoint

class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        async def do(name, result):
            @step.do(name)
            async def one():
                return result
            return await one()

"""
BEFORE = """
        results = [await do("pick", "old"), await do("pack", "old")]
        await step.sleep("rest", "1 day")
        return [*results, await do("ship", "old")]
"""
PICKED, PACKED = 'await do("pick", "old")', 'await do("pack", "old")'


def write_project(folder: Path, body: str) -> None:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "wrangler.jsonc").write_text(WRANGLER)
    (folder / "src" / "entry.py").write_text(ENTRY + body)


@pytest.mark.parametrize(
    ("after", "output", "warns"),
    [
        (BEFORE.replace('"old"', '"new"'), ["old", "old", "new"], False),
        (BEFORE.replace(PICKED, f'await do("look", "new"), {PICKED}'), ["new", "old", "old", "old"], False),
        (BEFORE.replace(PICKED, 'await do("choose", "new")'), ["new", "old", "old"], True),
        (BEFORE.replace(f"{PICKED}, {PACKED}", f"{PACKED}, {PICKED}"), ["old", "old", "old"], False),
        (BEFORE.replace(f"{PICKED}, ", ""), ["old", "old"], True),
    ],
    ids=["inside", "new", "renamed", "other order", "gone"],
)  # fmt: skip
async def test_an_unfinished_instance_goes_on_with_changed_code(
    after: str, output: list[str], warns: bool, tmp_path: Path
) -> None:
    write_project(tmp_path, BEFORE)
    async with open_project(tmp_path) as project:
        order = await project.env.ORDERS.create()
        await project.settle()
        write_project(tmp_path, after)
        await project.restart()
        await project.advance("23 hours")
        [tree] = project.trees()
        assert "new" not in tree, "it sleeps, and its code does not run before it wakes"
        await project.until(order, "complete")
        assert (await order.status())["output"] == output
        assert bool(project.divergences) == warns
        project.divergences.clear()


async def test_of_steps_that_share_a_name_the_first_call_gets_the_first_result(
    tmp_path: Path,
) -> None:
    shared = BEFORE.replace('"pack", "old"', '"pick", "second"')
    write_project(tmp_path, shared)
    async with open_project(tmp_path) as project:
        order = await project.env.ORDERS.create()
        await project.settle()
        swapped = '[await do("pick", "second"), await do("pick", "old")]'
        write_project(tmp_path, re.sub(r"\[await do.*\]", swapped, shared, count=1))
        await project.restart()
        await project.until(order, "complete")
        assert (await order.status())["output"] == ["old", "second", "old"]


def test_a_copy_that_is_made_while_it_runs_has_everything(tmp_path: Path) -> None:
    write_project(tmp_path, BEFORE)
    with dev(tmp_path) as server:
        asked(server.url, "workflows", "trigger", "orders", "--id", "1")
        journal = tmp_path / ".workflow-emulator" / "journal.sqlite"
        (tmp_path / "copy").mkdir()
        copy = sqlite3.connect(tmp_path / "copy" / "journal.sqlite")
        with closing(sqlite3.connect(journal)) as source, closing(copy):
            source.backup(copy)  # what the shell's `.backup` calls
    with dev(tmp_path, "--persist-to", str(tmp_path / "copy")) as server:
        assert "1 unfinished instance will go on" in server.said
        assert "complete" not in asked(
            server.url, "workflows", "instances", "describe", "orders", "1"
        )


def asked(url: str, *arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments, "--url", url])
    assert done.exit_code == 0, done.output
    return done.output


def commands() -> list[list[str]]:
    return [shlex.split(text) for text in COMMANDS.findall(GUIDE)]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_the_commands_of_the_guide_are_there(arguments: list[str]) -> None:
    done = CliRunner().invoke(main, [*arguments, "--help"])
    assert (done.exit_code, "Usage:" in done.output) == (0, True), done.output
