"""What a command does where its streams are closed, full, broken, or of another encoding: as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wrangler_compat.cli.wording import pretty, printable

PATIENCE_S = 30
ODD = "é\x1b\x7f\x85\x9b\ud83d😀\\é"

WRANGLER = """{
  "name": "shop", "main": "entry.py", "compatibility_date": "2026-11-01",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
from workers import WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        return event["payload"]
"""

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no full device")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ENTRY)
    return tmp_path


def in_shell(
    redirection: str, *arguments: str, folder: Path | None = None, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a shell does that has opened or closed its streams."""
    module = [sys.executable, "-P", "-m", "wrangler_compat.cli.main", *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *module],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )


@needs_full
@pytest.mark.parametrize(
    "arguments", [("--version",), ("check", "--json"), ("run", "orders"), ("dev", "--port=0")]
)
def test_what_cannot_be_written_is_said_in_words(project: Path, arguments: tuple[str, ...]) -> None:
    done = in_shell("> /dev/full", *arguments, folder=project)
    last = done.stderr.decode().splitlines()[-1]
    assert last == "Error: The output cannot be written: No space left on device."
    assert b"Traceback" not in done.stderr
    assert done.returncode == 1


def test_a_broken_pipe_of_the_users_code_is_told_with_its_line(project: Path) -> None:
    (project / "entry.py").write_text("raise BrokenPipeError(32, 'a database')\n")
    for arguments in (("run", "orders"), ("dev", "--port=0"), ("replay",)):
        done = in_shell("", *arguments, folder=project)
        assert done.returncode == 1
        assert b"entry.py" in done.stderr
        assert b"a database" in done.stderr


def test_without_an_output_nothing_is_printed(project: Path) -> None:
    done = in_shell(">&-", "run", "orders", '{"secret": 1}', folder=project)
    assert (done.returncode, b"secret" in done.stderr) == (0, False)


def test_without_an_input_there_are_no_params(project: Path) -> None:
    done = in_shell("<&-", "run", "orders", "-", folder=project)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert done.stderr.startswith(b"Error: PARAMS is not JSON")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
def test_what_is_printed_is_json_in_every_encoding(project: Path, encoding: str) -> None:
    value = {"text": ODD.replace("\ud83d", "")}
    done = in_shell("", "run", "orders", json.dumps(value), folder=project, encoding=encoding)
    assert json.loads(done.stdout.decode(encoding)) == value


def test_what_a_terminal_would_obey_in_json_is_escaped_as_json_has_it() -> None:
    shown = pretty({"a": ODD})
    assert json.loads(shown) == {"a": ODD}
    assert not {"\x7f", "\x85", "\x9b", "\ud83d"} & set(shown)
    assert printable(shown) == shown


LEAVING = """
import os, sys
from wrangler_compat.cli.stopping import leave

sys.stdin.readline()
if sys.argv[1] == "full":
    os.set_blocking(1, False)
    try:
        while True:
            os.write(1, bytes(4096))
    except BlockingIOError:
        os.set_blocking(1, True)
sys.stdout.write("unsaid")
leave(7)
"""


@pytest.mark.parametrize("pipe", ["full", "broken"])
def test_a_process_leaves_though_nobody_reads_what_it_has_printed(pipe: str) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", LEAVING, pipe]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if pipe == "broken":
            process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == 7
