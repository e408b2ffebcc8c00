"""A server on a port, in a thread of its own, with a clock that a test moves; and the command line that asks it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import uvicorn
from click.testing import CliRunner, Result

from emulator.core.state import InstanceState
from emulator.domain.cron import parse_cron
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.engine.engine import Engine
from emulator.engine.rest import PARK_AFTER_MS
from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import EPOCH_MS, VirtualClock
from tests.unit.rest.emulated import RUNS, Run, workflow
from wrangler_compat.cli.main import main
from wrangler_compat.rest.operations import Operations
from wrangler_compat.server import Access, Server

PATIENCE_S = 10

T = TypeVar("T")


def invoke(*arguments: str, url: str, stdin: str | None = None) -> Result:
    """Run the command line in this process."""
    environment = {"WORKFLOW_EMULATOR_URL": url, "WORKFLOW_EMULATOR_API_TOKEN": None}
    return CliRunner(env=environment).invoke(
        main, arguments, input=stdin, catch_exceptions=False, prog_name="workflow-emulator"
    )


class Served:
    """The server, seen from a test."""

    def __init__(
        self, port: int, engine: Engine, clock: VirtualClock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.engine = engine
        self._clock = clock
        self._loop = loop

    def ask(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run `workflow-emulator workflows …`."""
        return invoke("workflows", *arguments, url=self.url, stdin=stdin)

    def says(self, *arguments: str) -> str:
        """Run what must succeed; what it prints to stdout."""
        done = self.ask(*arguments)
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout

    def refuses(self, *arguments: str, stdin: str | None = None) -> str:
        """Run what must fail with one line on stderr; that line."""
        done = self.ask(*arguments, stdin=stdin)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.strip()

    def advance(self, delay_ms: int) -> None:
        """Move the clock."""
        self._do(self._clock.advance(delay_ms))

    def comes_to_wait(self, workflow: str, instance_id: str) -> None:
        """Let an instance come to rest at a sleep or a wait."""
        self.advance(PARK_AFTER_MS)
        self.becomes(workflow, instance_id, InstanceStatus.WAITING)

    def comes_to_a_timer(self, workflow: str, instance_id: str) -> None:
        """Wait until something of an instance is due some time: a retry, a sleep, a wait."""

        def reached(state: InstanceState) -> bool | None:
            return any(step.due_ms is not None for step in state.open.values()) or None

        self._do(self.engine.until(InstanceKey(workflow, instance_id), reached))

    def comes_to(self, workflow: str, instance_id: str, label: str) -> None:
        """Wait until an instance is at a step."""

        def reached(state: InstanceState) -> bool | None:
            return any(step.key.label == label for step in state.open.values()) or None

        self._do(self.engine.until(InstanceKey(workflow, instance_id), reached))

    def becomes(self, workflow: str, instance_id: str, status: InstanceStatus) -> None:
        """Wait until an instance has a status."""

        def reached(state: InstanceState) -> bool | None:
            return state.status is status or None

        self._do(self.engine.until(InstanceKey(workflow, instance_id), reached))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


@contextmanager
def served(
    access: Access | None = None,
    schedules: Mapping[str, Sequence[str]] | None = None,
    runs: Mapping[str, Run] = RUNS,
) -> Generator[Served]:
    """Serve the workflows of `tests.unit.rest.emulated`, or others, those that are named with schedules."""
    loop = asyncio.new_event_loop()
    clock = VirtualClock()
    scheduled = {name: tuple(map(parse_cron, crons)) for name, crons in (schedules or {}).items()}
    definitions = [
        replace(workflow(name, run), schedules=scheduled.get(name, ()))
        for name, run in runs.items()
    ]
    engine = Engine(MemoryJournal(), clock, definitions)
    app = Server(_no_worker, Operations(engine, EPOCH_MS), access or Access())
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        loop.run_until_complete(engine.start())
        thread = threading.Thread(target=_serve, args=(loop, server, engine, listening))
        thread.start()
        try:
            yield Served(listening.getsockname()[1], engine, clock, loop)
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def _serve(
    loop: asyncio.AbstractEventLoop,
    server: uvicorn.Server,
    engine: Engine,
    listening: socket.socket,
) -> None:
    loop.run_until_complete(server.serve([listening]))
    loop.run_until_complete(engine.close())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _no_worker(scope: Any, receive: Any, send: Any) -> None:
    """A Worker that answers what is no API of ours."""
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"<html>"})
