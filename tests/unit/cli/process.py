"""`workflow-emulator dev` as a process of its own, on a project written for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

PATIENCE_S = 30

WRANGLER = """{
  "name": "shop", "main": "src/entry.py", "compatibility_date": "2026-11-01",
  "kv_namespaces": [{ "binding": "CACHE", "id": "1" }],
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("nap", "1 hour")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response("first")
"""


def write_project(folder: Path, entry: str = ENTRY, wrangler: str = WRANGLER) -> Path:
    """Write a project and give its folder."""
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "entry.py").write_text(entry)
    (folder / "wrangler.jsonc").write_text(wrangler)
    return folder


def command(folder: Path, *arguments: str) -> list[str]:
    """The command line; the port is any that is free unless one is given."""
    port = () if "--port" in arguments else ("--port", "0")
    return [
        sys.executable,
        "-P",
        "-m",
        "wrangler_compat.cli.main",
        "dev",
        str(folder),
        *port,
        *arguments,
    ]


def fails(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run what cannot start: its exit code and what it says."""
    done = subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stderr


class Dev:
    """The process, which listens. `said` is what it printed until then."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""
        self.port = 0
        self.await_listening()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://localhost:{self.port}"

    def await_listening(self) -> None:
        """Read on until it says where it listens."""
        line = self.await_line("Listening on http://")
        self.port = int(line.rpartition(":")[2])

    def await_line(self, part: str) -> str:
        """Read on until it says something; the line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if part in line:
                return line
        raise AssertionError(f"it ended without saying {part!r}:\n{self.said}")

    def get(self, path: str) -> httpx.Response:
        """Ask it."""
        return httpx.get(self.url + path, timeout=PATIENCE_S)

    def post(self, path: str, body: object) -> httpx.Response:
        """Send it JSON."""
        return httpx.post(self.url + path, json=body, timeout=PATIENCE_S)

    def end(self, signal_number: int = signal.SIGINT, within_s: float = PATIENCE_S) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(within_s)

    def rest(self) -> str:
        """What it said after it had begun to listen, once it has ended."""
        return self.process.communicate(timeout=PATIENCE_S)[0]


@contextmanager
def dev(folder: Path, *arguments: str) -> Generator[Dev]:
    """Run it; kill it at the end, with the process that `--reload` has started."""
    with subprocess.Popen(
        command(folder, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Dev(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
