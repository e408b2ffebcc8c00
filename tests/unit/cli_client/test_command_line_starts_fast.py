"""Asking for help imports nothing that takes long."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("asyncio", "httpx", "msgspec", "rich", "starlette", "uvicorn")
PROBE = """
import sys
from wrangler_compat.cli.main import main
try:
    main(sys.argv[1:], prog_name="workflow-emulator")
except SystemExit:
    print("imported:", *sorted(sys.modules))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["run", "--help"],
        ["workflows", "instances", "--help"],
        ["workflows", "trigger"],
        ["schedules", "next", "--help"],
        ["hooks", "list", "--help"],
        ["streams", "read", "--help"],
        ["dynamic", "publish", "--help"],
    ],
)
def test_help_and_usage_need_no_slow_module(command: list[str]) -> None:
    probe = [sys.executable, "-c", PROBE, *command]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=True)
    _, _, imported = done.stdout.partition("imported: ")
    assert "click" in imported.split()
    assert not set(SLOW) & set(imported.split())
