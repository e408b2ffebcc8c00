"""An engine behind a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from emulator.engine.engine import Engine
from wrangler_compat.rest.operations import Operations
from wrangler_compat.server import Access, Server


@asynccontextmanager
async def served(engine: Engine) -> AsyncGenerator[int]:
    """Serve an engine in this loop; the port."""
    app = Server(_no_worker, Operations(engine, 0), Access())
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def _no_worker(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(f"{scope['path']} is the Worker's")
