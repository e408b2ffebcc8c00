"""Output streams: appending chunks so that what is acknowledged is there for good.

Theory of operation
===================
Whoever writes puts a chunk into the buffer and waits. A turn of the engine takes the whole buffer into its commit, so
the chunks of many writers cost one transaction, and what a step has written is never committed after its result: it
was in the buffer before. A chunk gets its place in the stream when it is taken, so there are no gaps.

The buffer is bounded in number and bytes. Writers that find it full wait, and are let in as they came; only the first of
them has made of its value what is stored, so that those who wait take no memory but their own.

What an incarnation has written is worth no more than the incarnation: when it ends, what is still in the buffer goes.
Nobody has been told that it was written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextvars import ContextVar
from enum import Enum, auto
from typing import Final

import msgspec

from emulator.domain import values
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_PENDING_CHUNK_BYTES, MAX_PENDING_CHUNKS
from emulator.domain.names import RESERVED
from emulator.domain.steps import StepKey
from emulator.engine.feed import Feed
from emulator.engine.step_code import AttemptContext, StepCode
from emulator.engine.tasks import check_loop
from emulator.errors import StreamError
from emulator.journal.port import ChunkRow, ClosedRow, Commit, Journal, StreamCommit, StreamState


class Asked(Enum):
    """What can be asked of a stream beside taking a chunk."""

    CLOSE = auto()
    """Take no more chunks."""
    CLEAR = auto()
    """Begin again from nothing."""
    LOOK = auto()
    """Say whether it is open."""


class Writer:
    """Who writes: an attempt of a step or, without a label, somebody else in the same incarnation.

    One that has ended takes nothing new. Of one that is void, what is not committed goes.
    """

    __slots__ = ("_when_idle", "attempt", "has_ended", "is_void", "life", "step", "waiting")

    def __init__(self, life: Writing, step: str | None, attempt: int | None) -> None:
        self.life = life
        self.step = step
        self.attempt = attempt
        self.has_ended = False
        self.is_void = False
        self.waiting = 0
        self._when_idle: Callable[[], None] | None = None

    async def write(self, stream: str, chunk: object, where: str) -> None:
        """Write a value, and wait until it is committed. `where` names it in errors.

        Raises:
            StreamError: the stream is closed, or the writer has ended.
            SerializationError: the value cannot be stored.
            PayloadTooLarge: it is over 1 MiB.
            EngineStopped: it was not committed.
        """
        await (await self.life.streams.put(self, stream, chunk, where))

    async def close(self, stream: str) -> None:
        """Let a stream take no more chunks, and wait until that is committed; raises as `write` does."""
        await self.ask(stream, Asked.CLOSE)

    async def ask(self, stream: str, what: Asked) -> None:
        """Have something done, and wait until it is committed; raises as `write` does."""
        await (await self.life.streams.put(self, stream, what))

    def end(self, when_idle: Callable[[], None]) -> None:
        """Take nothing new; `when_idle` is called once nothing waits for the buffer any more."""
        self.has_ended = True
        self._when_idle = when_idle
        self._look()

    def void(self) -> None:
        """Give up what is not committed."""
        self.has_ended = self.is_void = True

    def waits(self, change: int) -> None:
        """One more waits for the buffer (1), or one fewer (-1)."""
        self.waiting += change
        self._look()

    def _look(self) -> None:
        if not self.waiting and self._when_idle is not None:
            when_idle, self._when_idle = self._when_idle, None
            when_idle()


_current: Final[ContextVar[Writer | None]] = ContextVar("writer", default=None)
"""The writer whose callback runs, and the tasks that the callback has made."""


class Writing:
    """What one incarnation writes. `is_used` says that its code has asked for a stream; until then nothing is done."""

    def __init__(self, streams: Streams, key: InstanceKey, number: int) -> None:
        self.streams = streams
        self.key = key
        self.number = number
        self.loop = asyncio.get_running_loop()
        self.is_used = False
        self.is_closed = False
        self._writers: dict[StepKey, Writer] = {}

    def begin(self, context: AttemptContext) -> Writer:
        """The writer of an attempt."""
        writer = self._writers.get(context.step)
        if writer is None:
            writer = Writer(self, context.step.label, context.attempt)
            self._writers[context.step] = writer
        return writer

    def enter(self, context: AttemptContext) -> Writer:
        """Mark this task, and those that it makes, as the callback of an attempt."""
        writer = self.begin(context)
        _current.set(writer)
        return writer

    def marked(self, context: AttemptContext, code: StepCode) -> StepCode:
        """The code, marked so before it begins, if somebody has asked for a stream."""
        if not self.is_used:
            return code

        def callback(told: object) -> object:
            self.enter(context)
            return code.callback(told)

        return msgspec.structs.replace(code, callback=callback)

    def current(self) -> Writer | None:
        """The writer whose callback runs here, if it is one of this incarnation."""
        writer = _current.get()
        return writer if writer is not None and writer.life is self else None

    def over(self, step: StepKey) -> Writer | None:
        """An attempt has ended; its writer, if there is one."""
        return self._writers.pop(step, None)

    async def write_once(self, stream: str, chunk: msgspec.Raw, context: AttemptContext) -> None:
        """The callback of a step that is a write of `run()`'s: however often it is tried, the chunk is there once.

        Raises:
            StreamError: the stream is closed.
        """
        writer = self.begin(context)
        self.streams.hold(writer, context.step, stream, chunk)
        try:
            await writer.ask(stream, Asked.LOOK)
        except BaseException:
            self.streams.release(self.number, context.step)
            raise

    async def close_stream(self, stream: str, context: AttemptContext) -> None:
        """The callback of a step that is a close of `run()`'s."""
        await self.begin(context).close(stream)

    def successor(self) -> Writing:
        """What the rollback handlers of the incarnation write, once its code has ended."""
        successor = Writing(self.streams, self.key, self.number)
        successor.is_used = self.is_used
        return successor

    def close(self) -> None:
        """The incarnation has ended: what it has not been told to be committed goes."""
        self.is_closed = True
        self.streams.forget(self.number)
        self._writers.clear()


class _Put:
    """Something for the buffer: a value, whose name in errors is `where`, or what is asked."""

    __slots__ = ("_given", "_where", "admission", "reply", "size_bytes", "stream", "what", "writer")

    def __init__(self, writer: Writer, stream: str, given: object | Asked, where: str) -> None:
        self.writer = writer
        self.stream = stream
        self.what: msgspec.Raw | Asked | None = None
        self.size_bytes = 0
        self.admission: asyncio.Future[None] | None = None
        self.reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._given = given
        self._where = where

    def store(self) -> None:
        """Make what is stored, unless that is done.

        Raises:
            SerializationError: the value cannot be stored.
            PayloadTooLarge: it is over 1 MiB.
        """
        if self.what is None:
            if isinstance(self._given, Asked):
                self.what = self._given
            else:
                self.what = values.encode(self._given, self._where)
                self.size_bytes = len(bytes(self.what))
            self._given = None

    @property
    def place(self) -> tuple[int, str]:
        """Instance and stream."""
        return self.writer.life.number, self.stream

    def done(self, error: Exception | None = None) -> None:
        """Tell whoever waits; it may have gone."""
        _settle(self.reply, error)


class Streams:
    """The streams of all instances. `wake` calls for a turn of the engine."""

    def __init__(self, journal: Journal, wake: Callable[[], None]) -> None:
        self.journal = journal
        self.feed = Feed()
        self._wake = wake
        self._chunks_left = MAX_PENDING_CHUNKS
        self._bytes_left = MAX_PENDING_CHUNK_BYTES
        self._waiting: deque[_Put] = deque()
        self._buffer: list[_Put] = []
        self._held: dict[tuple[int, StepKey], _Put] = {}
        self._taken: list[tuple[_Put, StreamError | None]] = []
        self._states: dict[int, dict[str, StreamState]] = {}
        self._end: Exception | None = None

    # those who write

    async def put(
        self, writer: Writer, stream: str, what: object | Asked, where: str = ""
    ) -> asyncio.Future[None]:
        """Put a value, or what is asked, into the buffer, once there is room. The future is done when it is committed.

        Raises:
            StreamError: the writer has ended.
            SerializationError: the value cannot be stored.
            PayloadTooLarge: it is over 1 MiB.
            EngineStopped: nothing is written any more.
        """
        check_loop(writer.life.loop)
        if writer.has_ended:
            raise _ended(writer)
        self._check(writer)
        put = _Put(writer, stream, what, where)
        if self._waiting or not self._enter(put):
            await self._admission(put)
        self._wake()
        return put.reply

    async def _admission(self, put: _Put) -> None:
        put.admission = asyncio.get_running_loop().create_future()
        self._waiting.append(put)
        put.writer.waits(1)
        try:
            await put.admission
        finally:
            put.writer.waits(-1)

    def _enter(self, put: _Put) -> bool:
        """Put it into the buffer, if there is room."""
        put.store()
        if self._chunks_left == 0 or put.size_bytes > self._bytes_left:
            return False
        self._chunks_left -= 1
        self._bytes_left -= put.size_bytes
        self._buffer.append(put)
        return True

    def _leave(self, put: _Put, error: Exception | None) -> None:
        put.done(error)
        self._chunks_left += 1
        self._bytes_left += put.size_bytes

    def _let_in(self) -> None:
        """There is room again: let in those who wait, as they came."""
        while self._waiting:
            put = self._waiting[0]
            assert put.admission is not None, "who waits has been told to"
            if not put.admission.done():
                try:
                    self._check(put.writer)
                    if not self._enter(put):
                        return
                except (
                    Exception
                ) as error:  # its value is the user's, and so may be what that raises
                    _settle(put.admission, error)
                else:
                    put.admission.set_result(None)
            self._waiting.popleft()

    def hold(self, writer: Writer, step: StepKey, stream: str, chunk: msgspec.Raw) -> None:
        """Have a chunk written in the very commit in which the step gets its result. Until then nobody closes the stream."""
        put = self._held[writer.life.number, step] = _Put(writer, stream, None, "")
        put.what = chunk

    def release(self, number: int, step: StepKey) -> None:
        """Hold a chunk no longer: its step has failed."""
        self._held.pop((number, step), None)

    def _check(self, writer: Writer) -> None:
        if self._end is not None:
            raise self._end
        if writer.is_void or writer.life.is_closed:
            raise _ended(writer)

    # the turn

    @property
    def is_busy(self) -> bool:
        """Whether there is something for a turn."""
        return bool(self._buffer or self._held)

    @property
    def has_news(self) -> bool:
        """Whether there is a reason for a turn."""
        return bool(self._buffer)

    async def load(self) -> None:
        """Learn how the streams are that the buffer is about."""
        puts = (*self._buffer, *self._held.values())
        unknown = {put.place for put in puts if self._state(put) is None}
        if unknown:
            for (number, stream), state in (
                await self.journal.stream_states(sorted(unknown))
            ).items():
                self._states.setdefault(number, {})[stream] = state

    def take(self, commit: Commit, results: Collection[tuple[int, StepKey]]) -> StreamCommit | None:
        """Take what is in the buffer, beside a commit that gives `results` to these steps; None if nothing is left of it."""
        gone = set(commit.deleted).union(cut.number for cut in commit.cuts)
        written = StreamCommit()
        later: list[_Put] = []
        for result in [each for each in self._held if each in results]:
            put = self._held.pop(result)
            state = self._state(put)
            if state is not None and put.place[0] not in gone:
                self._append(put, state, written)
        held = {put.place for put in self._held.values()}
        for put in self._buffer:
            state = self._state(put)
            if put.writer.is_void or put.place[0] in gone:
                self._taken.append((put, _ended(put.writer)))
            elif state is None or (put.what is Asked.CLOSE and put.place in held):
                # It came while the others were loaded; or a chunk is held, and comes first.
                later.append(put)
            else:
                self._taken.append((put, self._do(put, state, written)))
        self._buffer = later
        return written if written != _NOTHING else None

    def settle(self, changed: Collection[InstanceKey]) -> None:
        """The commit is written: tell those who wait for it, and those who watch these instances."""
        self.feed.publish(changed)
        if self._taken:
            taken, self._taken = self._taken, []
            for put, refusal in taken:
                self._leave(put, refusal)
            self._let_in()
            self.feed.publish({put.writer.life.key for put, _ in taken})

    def forget(self, number: int) -> None:
        """The incarnation of an instance has ended: what it has not been told to be written goes."""
        self._states.pop(number, None)
        if not self.is_busy:
            return
        kept: list[_Put] = []
        for put in self._buffer:
            if put.writer.life.number == number:
                self._leave(put, _ended(put.writer))
            else:
                kept.append(put)
        self._buffer = kept
        self._let_in()
        for held in [each for each in self._held if each[0] == number]:
            del self._held[held]

    def close(self, error: Exception) -> None:
        """Tell everybody that nothing is written any more."""
        self._end = error
        for put in (*(put for put, _ in self._taken), *self._buffer):
            put.done(error)
        self._taken.clear()
        self._buffer.clear()
        self._held.clear()
        self._let_in()
        self.feed.close(error)

    def _do(self, put: _Put, state: StreamState, written: StreamCommit) -> StreamError | None:
        if put.what is Asked.CLEAR:
            written.cleared.append(put.place)
            self._remember(put, StreamState(0, is_closed=False))
        elif put.what is Asked.CLOSE:
            written.closed.append(ClosedRow(*put.place, put.writer.step))
            self._remember(put, state._replace(is_closed=True))
        elif state.is_closed:
            return StreamError(f'The stream "{put.stream}" is closed.')
        elif put.what is not Asked.LOOK:
            self._append(put, state, written)
        return None

    def _append(self, put: _Put, state: StreamState, written: StreamCommit) -> None:
        assert isinstance(put.what, msgspec.Raw)
        step, attempt = put.writer.step, put.writer.attempt
        if step is not None and step.startswith(RESERVED):
            step = attempt = None  # `run()` itself
        written.chunks.append(ChunkRow(*put.place, state.length, step, attempt, put.what))
        self._remember(put, state._replace(length=state.length + 1))

    def _state(self, put: _Put) -> StreamState | None:
        number, stream = put.place
        return self._states[number].get(stream) if number in self._states else None

    def _remember(self, put: _Put, state: StreamState) -> None:
        number, stream = put.place
        self._states[number][stream] = state


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # seen: not everybody waits for every answer


def _ended(writer: Writer) -> StreamError:
    who = "The run" if writer.step is None else f'Attempt {writer.attempt} of step "{writer.step}"'
    return StreamError(f"{who} is over; what it still writes is not taken.")


_NOTHING: Final = StreamCommit()
