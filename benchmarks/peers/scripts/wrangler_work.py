"""`wrangler dev` and a Worker in JavaScript, which this asks over HTTP to do the work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from benchmarks.peers.scripts import protocol

WORKER = Path(__file__).with_name("wrangler_worker")
BATCH = 100  # Cloudflare's limit


class Engine:
    def __init__(self, url: str) -> None:
        self.url = url
        self.binding = "STEPS"  # of the workflow whose instances there are
        self.created = False  # in this process
        self.known: set[str] = set()  # those that have finished

    async def ask(self, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode()

        def call() -> Any:
            with urllib.request.urlopen(self.url + path, data) as answer:
                return json.load(answer)

        return await asyncio.to_thread(call)

    async def create(self, ids: list[str], steps: int, seconds: float) -> None:
        self.created = True
        for begin in range(0, len(ids), BATCH):
            params = {"steps": steps, "seconds": seconds}
            await self.ask("/create", ids=ids[begin : begin + BATCH], params=params)

    async def park(self, identity: str) -> None:
        self.created, self.binding = True, "WAITER"
        await self.ask("/park", id=identity)

    async def send(self, identity: str) -> None:
        await self.ask("/send", id=identity)

    async def finished(self, ids: list[str]) -> int:
        left = [each for each in ids if each not in self.known]
        asked = {"binding": self.binding, "ids": left, "restarted": not self.created}
        self.known.update(await self.ask("/finished", **asked))
        return len(self.known)


def serve(folder: Path) -> str:
    """Start `wrangler dev` on the Worker and wait until it answers: its URL. It ends with this process group."""
    project = shutil.copytree(WORKER, folder / "worker", dirs_exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = ("--ip", "127.0.0.1", "--port", str(port))
    own = {"HOME": str(folder), "CI": "1", "WRANGLER_SEND_METRICS": "false"}
    server = subprocess.Popen(
        ["wrangler", "dev", *address, "--persist-to", str(folder / "state")],
        cwd=project,
        env={"PATH": os.environ["PATH"], **own},
        stdin=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    while server.poll() is None:
        try:
            urllib.request.urlopen(url).close()
        except urllib.error.URLError:
            time.sleep(0.02)
        else:
            return url
    raise RuntimeError(f"wrangler ended with {server.returncode}")


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Engine]:
    yield Engine(await asyncio.to_thread(serve, folder))


if __name__ == "__main__":
    protocol.main(opened)
