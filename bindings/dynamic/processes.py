"""The processes of tenants, from outside: started when they are needed, watched, and replaced when they end.

Theory of operation
===================
A tenant has one process, which all its incarnations share. It is started with an empty environment and without any open
file but the channel, and sets its own limits before the tenant's code is there. It is asked again and again whether it
still answers; an endless loop does not, nor does one that speaks and never reads. When it ends, for whatever reason, all of its runs are lost (`ProgramLost`): the
engine begins them again, and the first of them starts a new process.

The limit on CPU time is one of the process's whole life. So that nobody meets it by living long, a process that has used
half of it takes no new runs: a new one does, and the old one ends when its last run is over.

What is long waits for its turn: the next is said when the process has read the last. So what it leaves unread fills no memory.

What a process says is only data, and is checked as if a stranger had said it; one that says nonsense is killed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import msgspec

import bindings
from bindings.dynamic import messages
from bindings.dynamic.messages import FromProcess
from emulator.engine.passes import OnePass
from emulator.engine.tasks import outside_runs
from emulator.errors import ProgramLost
from emulator.timing.clock import NO_CONTEXT

IDLE_S: Final = 30.0
"""How long a process without a run is kept."""

START_PATIENCE_S: Final = 60.0
"""How long a new process may take to answer for the first time."""

MOST_CARRIED_BYTES: Final = 64 * 2**20
"""How much of values a process may have said that are not dealt with."""

MOST_ANSWERS: Final = 16
"""How many questions about instances are answered at a time: each answer may be large."""

_BOOT: Final = (
    "import sys; sys.path[:0] = sys.argv[4:]; "
    "from bindings.dynamic.child import main; main(*map(int, sys.argv[1:4]))"
)


@dataclass(frozen=True)
class ProcessLimits:
    """What a tenant's process may use: address space, CPU time, and seconds without an answer."""

    memory_mib: int = 512
    cpu_s: int = 60
    patience_s: float = 10.0


class HostedRun(Protocol):
    """A run that a process has taken in."""

    def hear(self, message: FromProcess, size_bytes: int) -> None:
        """The process says something about it, in so many bytes."""
        ...

    def lose(self, lost: ProgramLost) -> None:
        """The process has ended."""
        ...


class TenantProcess:
    """One process of a tenant."""

    def __init__(
        self, tenant: str, limits: ProcessLimits, ended: Callable[[TenantProcess], None]
    ) -> None:
        self.tenant = tenant
        self.cpu_s = 0.0
        self._ended = ended
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._lost: ProgramLost | None = None
        self._why = ""
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.answering = asyncio.Semaphore(MOST_ANSWERS)
        self._turn = asyncio.Lock()
        self._ping: int | None = None
        self._patience_ends_s = 0.0
        self._watch_due_s = 0.0
        self._last_number = 0
        self._carried_bytes = 0
        self._runs: weakref.WeakValueDictionary[int, HostedRun] = weakref.WeakValueDictionary()
        self._calls: dict[int, asyncio.Future[messages.Returned | messages.Raised]] = {}

    @property
    def takes_runs(self) -> bool:
        """Whether it lives, and has enough CPU time left."""
        return self._lost is None and not self._why and self.cpu_s < self._limits.cpu_s / 2

    def carry(self, size_bytes: int) -> None:
        """What it says is in the emulator's memory until it is dealt with, or no more (negative)."""
        self._carried_bytes += size_bytes
        if self._carried_bytes > MOST_CARRIED_BYTES:
            mib = MOST_CARRIED_BYTES // 2**20
            self.kill(f"has said more than {mib} MiB that nobody has dealt with and was killed")

    @property
    def pid(self) -> int | None:
        """Its number; None before it has started."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it. It need not have answered yet."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await _spawn(theirs.fileno(), self._limits)
            reader, self._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()  # a process that is there already ends with it
            raise
        self._watch_due_s = self._loop.time()
        self._patience_ends_s = self._watch_due_s + START_PATIENCE_S
        # All runs of the tenant share it, whichever has started it.
        self._listening = asyncio.create_task(self._listen(reader), context=outside_runs())
        self._watch()
        self._rest()

    # what is said to it

    def say(self, message: messages.Message) -> None:
        """Say something; nobody hears it any more when the process has ended."""
        if self._lost is None and not self._why and self._writer is not None:
            self._writer.write(messages.frame(message))

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait until something long can be said."""
        assert self._writer is not None
        async with self._turn:
            with suppress(OSError):  # it has ended, and hears nothing
                await self._writer.drain()
            yield

    def take(self, run: HostedRun) -> int:
        """Take a run in; gives its number."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._last_number += 1
        number = self._last_number
        self._runs[number] = run
        # The engine forgets a run by letting go of its callbacks: of handlers only when no rollback can need them.
        weakref.finalize(run, self._let_go, number).atexit = False
        return number

    async def call(self, make: messages.Call) -> messages.Returned | messages.Raised:
        """Let it call a callback.

        Raises:
            ProgramLost: the process has ended.
        """
        if self._lost is not None:
            raise self._lost
        self._last_number += 1
        number = self._last_number
        future = self._calls[number] = self._loop.create_future()
        try:
            async with self.turn():
                self.say(msgspec.structs.replace(make, call=number))
            return await future
        except asyncio.CancelledError:
            self.say(messages.Cancel(number))
            raise
        finally:
            self._calls.pop(number, None)

    def kill(self, why: str) -> None:
        """End it, and what it has started; what is heard of it then gives the reason."""
        if self._process is None or self._lost is not None:
            return
        if self._process.returncode is None:
            self._why = self._why or why
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._writer is not None:
            # It may have handed the channel to a process that lives on; and what nobody has read goes.
            self._writer.transport.abort()

    async def close(self) -> None:
        """End it and wait for that."""
        self.kill("was stopped")
        if self._listening is not None:
            await self._listening

    # what it says

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        decoder = msgspec.json.Decoder(FromProcess)
        try:
            # Of one that is being ended nothing is heard any more, however much it has said.
            while not self._why and (body := await messages.read_frame(reader)) is not None:
                message = decoder.decode(body)
                if not isinstance(message, messages.Abandon):
                    self._hear(message, len(body))
                    continue
                # As where the code runs here: what was asked before has begun, and what is asked then finds it unwound.
                await OnePass()
                self._hear(message, len(body))
                await OnePass()
        except Exception as error:
            # Whatever goes wrong with what it says is its own loss, and nobody else's.
            self.kill(f"said what is no message ({error}) and was killed")
        await self._bury()

    def _hear(self, message: FromProcess, size_bytes: int) -> None:
        match message:
            case messages.Pong():
                self.cpu_s = message.cpu_s
                if message.ping is not None and message.ping == self._ping:
                    self._ping = None
                    self._patience_ends_s = self._loop.time() + self._limits.patience_s
            case messages.Returned() | messages.Raised():
                future = self._calls.get(message.call)
                if future is not None and not future.done():
                    future.set_result(message)
            case _:
                run = self._runs.get(message.run)
                if run is not None:
                    run.hear(message, size_bytes)

    async def _bury(self) -> None:
        """The channel is closed: the process has ended, or is ended now."""
        assert self._process is not None
        assert self._writer is not None
        # Whoever has closed the channel and lives on is of no use.
        if self._process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self._limits.patience_s)
        self.kill("closed its channel and was killed")
        how = _how_it_ended(await self._process.wait(), self._limits)
        limits = f"It may use {self._limits.memory_mib} MiB of memory and {self._limits.cpu_s} s of CPU time."
        self._lost = ProgramLost(
            f'The process of tenant "{self.tenant}" {self._why or how}. {limits}'
        )
        for timer in (self._timer, self._idle):
            if timer is not None:
                timer.cancel()
        self._writer.close()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(self._lost)
        for run in list(self._runs.values()):
            run.lose(self._lost)
        self._ended(self)

    # its life

    def _watch(self) -> None:
        now_s = self._loop.time()
        # Time in which the emulator stood still is none of the process's: its answer may lie there unread.
        self._patience_ends_s += now_s - self._watch_due_s
        if now_s > self._patience_ends_s:
            self.kill(
                f"has not answered for {self._limits.patience_s:g} s (an endless loop?) and was killed"
            )
            return
        if self._ping is None:
            self._ping = secrets.randbits(53)
            self.say(messages.Ping(self._ping))
        self._watch_due_s = now_s + self._limits.patience_s / 4
        self._timer = self._loop.call_at(self._watch_due_s, self._watch, context=NO_CONTEXT)

    def _let_go(self, number: int) -> None:
        # The last reference may go in any thread.
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._forget, number)

    def _forget(self, number: int) -> None:
        self.say(messages.Forget(number))
        if not self._runs and self._lost is None and self._idle is None:
            self._rest()

    def _rest(self) -> None:
        """There is no run: it ends, if that stays so."""
        after_s = IDLE_S if self.takes_runs else 0
        self._idle = self._loop.call_later(
            after_s, self.kill, "was not needed any more", context=NO_CONTEXT
        )


class TenantProcesses:
    """The process of each tenant that has one."""

    def __init__(self, limits: ProcessLimits) -> None:
        self._limits = limits
        self._current: dict[str, asyncio.Task[TenantProcess]] = {}
        self._all: weakref.WeakSet[TenantProcess] = weakref.WeakSet()

    async def of(self, tenant: str) -> TenantProcess:
        """The process of a tenant that takes runs; it is started if there is none.

        Raises:
            ProgramLost: it could not be started.
        """
        starting = self._current.get(tenant)
        if starting is None or (starting.done() and not _is_of_use(starting)):
            starting = asyncio.create_task(self._start(tenant), context=outside_runs())
            self._current[tenant] = starting
        # Others wait for the same start: one that is cancelled must not end it.
        return await asyncio.shield(starting)

    async def close(self) -> None:
        """End them all."""
        starting, self._current = list(self._current.values()), {}
        await asyncio.gather(*starting, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in list(self._all)))

    async def _start(self, tenant: str) -> TenantProcess:
        process = TenantProcess(tenant, self._limits, self._ended)
        try:
            await process.start()
        except OSError as error:
            raise ProgramLost(
                f'The process of tenant "{tenant}" cannot be started: {error}.'
            ) from error
        self._all.add(process)
        return process

    def _ended(self, process: TenantProcess) -> None:
        current = self._current.get(process.tenant)
        if current is not None and current.done() and not _is_of_use(current):
            del self._current[process.tenant]


async def _spawn(channel_fd: int, limits: ProcessLimits) -> asyncio.subprocess.Process:
    numbers = (channel_fd, limits.memory_mib, limits.cpu_s)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        _BOOT,
        *map(str, numbers),
        *_import_paths(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(channel_fd,),
        env={},
        cwd="/",
        start_new_session=True,
    )


def _is_of_use(starting: asyncio.Task[TenantProcess]) -> bool:
    return (
        not starting.cancelled() and starting.exception() is None and starting.result().takes_runs
    )


def _how_it_ended(code: int, limits: ProcessLimits) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    if -code == signal.SIGXCPU:
        return f"was killed: it has used its {limits.cpu_s} s of CPU time"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else "?"
    return f"was killed by signal {-code} ({name})"


def _import_paths() -> list[str]:
    """Where the process finds this package, and `workers`. Not the project's own folders: they are none of its business."""
    paths = [str(Path(bindings.__file__).parents[1])]
    workers = find_spec("workers")
    if workers is not None and workers.origin is not None:
        paths.append(str(Path(workers.origin).parents[1]))
    return paths
