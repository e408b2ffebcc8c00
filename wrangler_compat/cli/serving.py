"""The process that serves a project, from its first socket to its last breath.

Theory of operation
===================
The sockets are bound before anything runs, so that a port that is taken costs nothing. Then the project is opened, and
requests are answered until somebody asks to stop or the engine stops by itself.

Stopping may not depend on user code: callbacks that block their threads, tasks that swallow cancellation, a callback
that holds the event loop. So the signal handler starts a watchdog, which ends the process when the orderly end takes too
long; and the orderly end leaves by `os._exit` too, since Python would wait for the threads. Nothing is lost: what is
not committed has not happened, and the next start recovers.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import click
import uvicorn

from emulator.errors import EngineStopped
from emulator.journal.lock import JournalLock
from emulator.timing.stall import watching
from wrangler_compat.cli.connection import PatientConnection
from wrangler_compat.cli.options import DevOptions
from wrangler_compat.cli.reporting import log_to_stderr
from wrangler_compat.cli.stopping import heed_signals, leave
from wrangler_compat.config import WorkerConfig, load_config
from wrangler_compat.inspector.urls import HOME as INSPECTOR
from wrangler_compat.project import (
    Project,
    foreign_workflows,
    journal_of,
    journal_path,
    open_project,
)
from wrangler_compat.rest.chunk_stream import BrokenOff
from wrangler_compat.server import Access

log = logging.getLogger("workflow_emulator")

GRACE_S: Final = 0.8
"""How long an orderly end may take."""

ANSWERING_GRACE_S: Final = 0.4
"""How long of that requests that are being answered have; streams have no end and are cut off."""

_LOOPBACKS: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


def serve(options: DevOptions) -> None:
    """Serve the project until a signal comes. Does not return: the process ends here, unless it cannot start.

    Raises:
        EmulatorError: it cannot start; the message says why.
    """
    config = load_config(options.directory, options.environment)
    log_to_stderr(access_log=options.access_log)
    logging.getLogger("uvicorn.error").addFilter(_is_unforeseen)
    with ExitStack() as opened:
        sockets = _listen(options, config, opened)
        try:
            asyncio.run(_Process(options, config, sockets).run())
        except SystemExit as error:
            # Of a task that code of the project has made; in a step or in `run()` itself it is a failure like others.
            log.critical("sys.exit() was called: the emulator ends", exc_info=error)
            raise


class _Process:
    """The life of the process."""

    def __init__(
        self, options: DevOptions, config: WorkerConfig, sockets: list[socket.socket]
    ) -> None:
        self._options = options
        self._config = config
        self._sockets = sockets

    async def run(self) -> None:
        stopped = asyncio.Event()
        self._heed_signals(asyncio.get_running_loop(), stopped)
        options = self._options
        port: int = self._sockets[0].getsockname()[1]
        url = _url(options.host or "localhost", port)
        journal = journal_of(
            self._config, options.journal_folder, full_durability=options.full_durability
        )
        opening = open_project(
            self._config,
            journal,
            max_live=options.max_live,
            keep_all=options.keep_all,
            fast_retries=options.fast_retries,
            schedules="catch up" if options.catch_up else "on",
            base_url=url,
        )
        async with opening as project:
            journal.publish_port(port)
            introduction = await _introduction(project, url)
            with watching(project.config.root):
                code = await self._answer_until(stopped, project, introduction)
            if code:
                leave(code)  # what is still open would wait for an engine that has stopped
        leave(0)

    async def _answer_until(
        self, stopped: asyncio.Event, project: Project, introduction: str
    ) -> int:
        """Answer requests; the exit code when that is over."""
        access = Access(self._options.api_token, only_loopback=not self._options.is_exposed)
        config = uvicorn.Config(
            project.app(access),
            http=PatientConnection,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=self._options.access_log,
            server_header=False,
        )
        server = _UvicornServer(config, introduction)
        serving = asyncio.create_task(server.serve(self._sockets))
        stopping = asyncio.create_task(stopped.wait())
        failing = asyncio.create_task(project.engine.closed())
        await asyncio.wait((serving, stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if failing.done() and isinstance(failing.exception(), EngineStopped):
            return 1  # the engine has said why
        server.should_exit = True
        await asyncio.wait((serving,), timeout=ANSWERING_GRACE_S)
        # Since Python 3.12 uvicorn waits for every connection, also when it is forced to exit.
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        return 0

    def _heed_signals(self, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
        watchdog = threading.Timer(GRACE_S, leave, (0,))
        watchdog.daemon = True

        def stop(_: int, __: FrameType | None) -> None:
            # Python calls this between two lines of whatever runs, so also while user code holds the loop.
            if not watchdog.is_alive() and not stopped.is_set():
                watchdog.start()
            loop.call_soon_threadsafe(stopped.set)

        heed_signals(stop)


class _UvicornServer(uvicorn.Server):
    """uvicorn without its own signal handlers, and with other words when it listens."""

    def __init__(self, config: uvicorn.Config, introduction: str) -> None:
        super().__init__(config)
        self._introduction = introduction

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        click.echo(self._introduction)

    def capture_signals(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()


def _is_unforeseen(record: logging.LogRecord) -> bool:
    """Whether uvicorn tells what nobody has told yet: an answer that is broken off fails on purpose."""
    return not (record.exc_info and isinstance(record.exc_info[1], BrokenOff))


def _listen(options: DevOptions, config: WorkerConfig, opened: ExitStack) -> list[socket.socket]:
    """Bind the sockets.

    Raises:
        JournalLocked: a port is taken, and so is the journal of this project: the same process will have both.
        ClickException: a port is taken, or the address is not this machine's, or none.
    """
    try:
        return bind(options, opened)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", "it is no name of a host")
        raise click.ClickException(
            f"There is no host {options.host}: {reason}. Choose another with --host."
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE and options.journal_folder != ":memory:":
            lock = JournalLock(journal_path(config, options.journal_folder))
            lock.acquire()
            lock.release()
        address = f"{options.host or 'localhost'}:{options.port}"
        option = "address with --host" if error.errno == errno.EADDRNOTAVAIL else "port with --port"
        raise click.ClickException(
            f"Cannot listen on {address}: {error.strerror}. Choose another {option}."
        ) from error


def bind(options: DevOptions, opened: ExitStack) -> list[socket.socket]:
    """Bind a socket on each address; they are closed with `opened`.

    Raises:
        OSError: a port is taken, or an address is not this machine's.
    """
    addresses = _LOOPBACKS
    if options.host is not None:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
        addresses = tuple((family, str(address[0])) for family, _, _, _, address in found[:1])
    sockets: list[socket.socket] = []
    port = options.port
    for family, address in addresses:
        try:
            # With the protocol named: only then does asyncio turn Nagle's algorithm off for what is accepted, without
            # which each answer waits 40 ms for the acknowledgement of its own head.
            bound = opened.enter_context(
                socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            )
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address, port))
        except OSError as error:
            if sockets and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                continue  # a machine without IPv6
            raise
        sockets.append(bound)
        port = bound.getsockname()[1]
    return sockets


async def _introduction(project: Project, url: str) -> str:
    """What was found, and where it is."""
    config = project.config
    lines = [f"{config.name} ({config.path.name})"]
    for name, definition in project.engine.definitions.items():
        file = _file_of(project.classes[definition.class_name], config.root)
        lines.append(f"  workflow {name}: class {definition.class_name} in {file}")
        lines += [f"    scheduled at {each.text} (UTC)" for each in definition.schedules]
    lines += [f"  cron trigger {each} (UTC)" for each in config.crons]
    absent = {**config.unsupplied, **dict(foreign_workflows(config.workflows))}
    for binding, kind in absent.items():
        if binding not in config.suppliers:
            lines.append(f"  env.{binding} is {kind}: not emulated")
    lines += [f"  {warning}" for warning in config.warnings]
    if unfinished := await project.unfinished():
        lines.append(f"  {unfinished} unfinished instance{'s'[: unfinished > 1]} will go on")
    lines.append(f"Inspector at {url}{INSPECTOR}")
    lines.append(f"Listening on {url}")
    return "\n".join(lines)


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _file_of(workflow: type, root: Path) -> str:
    return os.path.relpath(sys.modules[workflow.__module__].__file__ or "", root)
