"""The command group: what it shows, and what it does not import to show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wrangler_compat.cli.main import main
from wrangler_compat.cli.reporting import user_traceback


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "dev" in result.output


@pytest.mark.parametrize("command", [["dev"], ["hooks", "list"]])
def test_help_says_where_else_a_token_can_stand(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert "WORKFLOW_EMULATOR_API_TOKEN" in result.output


GROUPS = [
    [],
    ["workflows"],
    ["workflows", "instances"],
    ["hooks"],
    ["schedules"],
    ["streams"],
    ["dynamic"],
]


@pytest.mark.parametrize("group", GROUPS)
def test_no_command_is_cut_short_in_a_narrow_terminal(group: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "60"}).invoke(main, [*group, "--help"])
    _, _, commands = result.output.partition("Commands:\n")
    assert commands
    assert "..." not in commands


@pytest.mark.parametrize(
    ("arguments", "near"), [(["wrokflows"], "workflows"), (["chekc"], "check"), (["nope"], None)]
)
def test_a_mistyped_command_is_told_the_nearest(arguments: list[str], near: str | None) -> None:
    said = CliRunner().invoke(main, arguments).stderr
    assert f"No such command {arguments[0]!r}." in said
    assert ("Did you mean" in said) == (near is not None)
    assert near is None or said.endswith(f"Did you mean {near!r}?\n")


def test_an_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(main, ["deploy"])
    assert result.exit_code == 2
    assert "deploy" in result.output


@pytest.mark.parametrize("command", [["workflows", "list"], ["hooks", "list"]])
def test_control_c_is_told_from_a_failure(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def page(_self: object, *_path: str, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wrangler_compat.cli.client.Client.page", page)
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.stderr) == (130, "\nAborted!\n")


def test_help_imports_no_server() -> None:
    script = "\n".join(
        [
            "import sys",
            "from wrangler_compat.cli.main import main",
            "main(['dev', '--help'], standalone_mode=False)",
            "heavy = {'starlette', 'uvicorn', 'watchfiles', 'httpx', 'pydantic'} & set(sys.modules)",
            "sys.exit(', '.join(sorted(heavy)) or 0)",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "option", ["--durability=never", "--max-live=-1", "--port=x", "--port=-1", "--port=65536"]
)
def test_an_option_that_is_not_valid_is_refused_before_anything_starts(
    tmp_path: Path, option: str
) -> None:
    result = CliRunner().invoke(main, ["dev", str(tmp_path), option])
    assert result.exit_code == 2
    assert option.partition("=")[0] in result.output


def test_a_token_that_no_request_can_have_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dev", str(tmp_path), "--api-token", "é"])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("Error: The API token can only have")


def test_an_error_with_no_frame_of_the_user_is_told_whole(tmp_path: Path) -> None:
    try:
        raise ValueError("ours")
    except ValueError as error:
        told = user_traceback(error, tmp_path)
    assert __file__ in told


def test_what_a_terminal_would_obey_in_a_traceback_is_shown(tmp_path: Path) -> None:
    told = user_traceback(ValueError("\x1b[31mred"), tmp_path)
    assert told == "ValueError: \\x1b[31mred\n"
