"""Load on the REST API: connections that create instances and read them, beside the same load on a bare Starlette route."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import WORKER

CONNECTIONS = 50
PORT = 8921
INSTANCES = "/client/v4/accounts/benchmark/workflows/steps/instances"

BARE = f"""
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def answer(request):
    await request.body()
    return JSONResponse({{"success": True, "result": {{"id": "none"}}}})

app = Starlette(routes=[Route("/{{path:path}}", answer, methods=["GET", "POST"])])
uvicorn.run(app, host="127.0.0.1", port={PORT}, log_level="error")
"""


class Load:
    """What came back: requests a second, and how many answers of each HTTP status."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.seconds = 0.0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.statuses.total() / self.seconds

    @property
    def errors(self) -> int:
        """Answers that are not 200."""
        return self.statuses.total() - self.statuses[200]


def emulator(folder: Path, seconds: float) -> Load:
    """The load on `dev`."""
    command = ["-m", "wrangler_compat.cli.main", "dev", str(WORKER), "--port", str(PORT)]
    with _server([*command, "--persist-to", str(folder)]):
        return asyncio.run(_load(seconds))


def bare_route(seconds: float) -> Load:
    """The same load on a route that does nothing."""
    with _server(["-c", BARE]):
        return asyncio.run(_load(seconds))


@contextmanager
def _server(arguments: list[str]) -> Generator[None]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def _load(seconds: float) -> Load:
    await _listening()
    load = Load()
    began = time.perf_counter()
    await asyncio.gather(*(_connection(load, began + seconds) for _ in range(CONNECTIONS)))
    load.seconds = time.perf_counter() - began
    return load


async def _listening() -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


async def _connection(load: Load, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    try:
        while time.perf_counter() < until:
            status, body = await _request(
                reader, writer, "POST", INSTANCES, b'{"params": {"steps": 1}}'
            )
            load.statuses[status] += 1
            instance_id = json.loads(body)["result"]["id"]
            status, _ = await _request(reader, writer, "GET", f"{INSTANCES}/{instance_id}", b"")
            load.statuses[status] += 1
    finally:
        writer.close()


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes
) -> tuple[int, bytes]:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(answer.split("content-length: ")[1].split("\r\n")[0])
    return int(answer.split(" ")[1]), await reader.readexactly(length)
