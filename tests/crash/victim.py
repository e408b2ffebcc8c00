"""`workflow-emulator dev` in a process group of its own, which is killed as a whole and started again on its folder."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE_S = 60
WORKER = Path(__file__).with_name("worker")


class Site:
    """A copy of the worker, with the places of its journal and of its effects file."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.journal = folder / "journal" / "journal.sqlite"
        self.effects = folder / "effects.tsv"
        shutil.copytree(WORKER, self.project, ignore=shutil.ignore_patterns("__pycache__"))
        (self.project / ".dev.vars").write_text(f"EFFECTS={self.effects}\n")

    def command(self) -> list[str]:
        """The command line that serves it."""
        program = [sys.executable, "-P", "-m", "wrangler_compat.cli.main"]
        options = ["--port", "0", "--persist-to", str(self.journal.parent), "--fast-retries"]
        return [*program, "dev", str(self.project), *options]


class Victim:
    """The process. `said` is what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.said = ""
        self._process = process
        self._address: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """Its process id, and that of its group."""
        return self._process.pid

    async def port(self) -> int:
        """Wait until it listens; its port."""
        return await asyncio.wait_for(asyncio.shield(self._address), PATIENCE_S)

    async def url(self) -> str:
        """Wait until it listens; its address."""
        return f"http://127.0.0.1:{await self.port()}"

    async def kill(self) -> None:
        """Kill the group with SIGKILL."""
        os.killpg(self.pid, signal.SIGKILL)
        await self.ended()

    def interrupt(self) -> None:
        """What Ctrl-C does: SIGINT to the group."""
        os.killpg(self.pid, signal.SIGINT)

    async def ended(self) -> int:
        """Wait for its end and its last words; the exit code."""
        code = await asyncio.wait_for(self._process.wait(), PATIENCE_S)
        await self._reading
        if not self._address.done():
            self._address.cancel()
        return code

    def complaints(self) -> list[str]:
        """The warnings and errors that it has logged, but for what workflows have raised on purpose."""
        levels = ("WARNING: ", "ERROR: ", "CRITICAL: ")
        theirs = ("WARNING: workflow ", "ERROR: workflow ")
        lines = self.said.splitlines()
        return [line for line in lines if line.startswith(levels) and not line.startswith(theirs)]

    def limit_files(self, size_bytes: int) -> None:
        """From now on no file of the process grows beyond this, as on a disk that is full."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            text = line.decode()
            self.said += text
            if text.startswith("Listening on ") and not self._address.done():
                self._address.set_result(int(text.rpartition(":")[2]))
        if not self._address.done():
            self._address.set_exception(AssertionError(f"it ended early:\n{self.said}"))
            self._address.exception()


@asynccontextmanager
async def victim(site: Site, *, through: tuple[str, ...] = ()) -> AsyncGenerator[Victim]:
    """Start the process, `through` a program that becomes it; if it still lives at the end, it is killed."""
    process = await asyncio.create_subprocess_exec(
        *through,
        *site.command(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    started = Victim(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            await started.kill()
