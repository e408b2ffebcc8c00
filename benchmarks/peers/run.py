"""Run a peer's script in a process group of its own, and kill the group."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.install import Installed

ROOT = Path(__file__).parents[2]


class FailedError(Exception):
    """Why a script gave no answer, in a line."""


class Answer(NamedTuple):
    """The object that a script printed, and the seconds from the start of its process to that."""

    said: Mapping[str, Any]
    seconds: float


class Asked(NamedTuple):
    """A script's arguments."""

    work: str
    folder: Path
    many: int
    patience_s: float


def run(installed: Installed, asked: Asked, *, limit_s: float, linger_s: float = 0) -> Answer:
    """Give a script its work, and kill its whole process group `linger_s` after the answer.

    Raises:
        FailedError: it ended without an answer, or had none after `limit_s`.
    """
    path = os.environ["PATH"]
    if installed.programs is not None:
        path = f"{installed.programs}{os.pathsep}{path}"
    log = asked.folder / "log"
    began = time.perf_counter()
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*installed.command, *map(str, asked)],
            cwd=ROOT,
            env=os.environ | {"PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], limit_s)
            line = process.stdout.readline() if ready else b""
            seconds = time.perf_counter() - began
            time.sleep(linger_s)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    if not ready:
        raise FailedError(f"no answer in {limit_s:.0f} s")
    if not line:
        told = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise FailedError(told[-1] if told else f"exit {process.returncode}")
    return Answer(json.loads(line), seconds)
