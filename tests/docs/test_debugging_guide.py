"""docs/debugging.md shows what is really printed, and the commands it names are there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_testing_guide import BLOCK

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "debugging.md").read_text("utf-8")
COMMAND = re.compile(
    r"`workflow-emulator (run \. orders '\{\".*?) --id 1`|`workflow-emulator (workflows .*?)`"
)
CONFIG = """
{
  "name": "party",
  "main": "src/entry.py",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }]
}
"""
UNDERLINE = re.compile(r"[~^ ]+")


def emulator(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wrangler_compat.cli.main", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def test_a_failed_step_is_told_as_shown(tmp_path: Path) -> None:
    [block] = BLOCK.finditer(GUIDE)
    (tmp_path / "src").mkdir()
    (tmp_path / block["file"]).write_text(f"# {block['file']}\n{block['code']}")
    (tmp_path / "wrangler.jsonc").write_text(CONFIG)
    [command] = [match[1] for match in COMMAND.finditer(GUIDE) if match[1]]
    ended = emulator(*shlex.split(command), "--id", "1", cwd=tmp_path)
    assert ended.returncode == 1
    shown = GUIDE.partition("```\nWARNING")[2].partition("```")[0]
    wanted = f"WARNING{shown}".replace("/home/ada/party", str(tmp_path)).splitlines()
    printed = ended.stderr.splitlines()
    # How a part of a line is underlined differs between versions of Python.
    missing = [line for line in wanted if not UNDERLINE.fullmatch(line) and line not in printed]
    assert missing == []


@pytest.mark.parametrize("command", [match[2] for match in COMMAND.finditer(GUIDE) if match[2]])
def test_the_commands_of_the_guide_are_understood(command: str, tmp_path: Path) -> None:
    ended = emulator(*shlex.split(command), "--url", "http://127.0.0.1:9", cwd=tmp_path)
    assert "No emulator answers" in ended.stderr


def test_the_editors_configuration_starts_the_command() -> None:
    [configuration] = json.loads(GUIDE.partition("```json\n")[2].partition("```")[0])[
        "configurations"
    ]
    ended = subprocess.run(
        [sys.executable, "-m", configuration["module"], configuration["args"][0], "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Run the project in DIRECTORY" in ended.stdout
