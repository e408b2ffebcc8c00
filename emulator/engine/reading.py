"""Reading output streams: what is stored, then what comes.

Theory of operation
===================
A reader reads the journal, a page at a time and only when it is asked, beside the engine: a slow reader costs the engine
nothing and one page of memory. When it has read everything it watches the instance, and looks again when something has
been committed. It is at the end when the stream is closed, or its instance has ended, and there is nothing more.

A restart of the whole instance begins its streams anew. A reader sees that by a stream that has become shorter, and
begins again at index 0.
"""

from __future__ import annotations

from typing import NamedTuple

from emulator.domain.instance import InstanceKey
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.values import StreamedOutput
from emulator.engine.engine import Engine
from emulator.engine.outputs import PAGE_BYTES, PAGE_CHUNKS, StoredOutput, output_stream
from emulator.errors import InstanceNotFound
from emulator.journal.port import ChunkRow, StreamPage, StreamState


class StreamInfo(NamedTuple):
    """A stream: the index of its last chunk (-1: it has none), and whether no more can come."""

    stream: str
    tail_index: int
    is_done: bool


async def list_streams(engine: Engine, key: InstanceKey) -> list[StreamInfo]:
    """The streams of an instance that have been written to or closed, in order of name.

    Raises:
        WorkflowNotFound: its workflow does not exist.
        InstanceNotFound: it does not.
    """
    engine.definition(key.workflow)
    row = await engine.journal.row(key)
    streams = await engine.journal.streams(key)
    if row is None or streams is None:
        raise InstanceNotFound.named(key.id)
    return [_info(stream, state, row.status) for stream, state in streams.items()]


async def stream_info(engine: Engine, key: InstanceKey, stream: str) -> StreamInfo:
    """How a stream is; one that nobody has written to is empty.

    Raises:
        WorkflowNotFound: the workflow does not exist.
        InstanceNotFound: the instance does not.
    """
    page = await _page(engine, key, stream, first=0, limit=0)
    return _info(stream, page.state, page.status)


class StreamReader:
    """The chunks of one stream, from an index on; a negative one counts from the end, at the time of `open`."""

    def __init__(self, engine: Engine, key: InstanceKey, stream: str, start_index: int = 0) -> None:
        self._engine = engine
        self._key = key
        self._stream = stream
        self._start_index = start_index
        self._next = 0
        self._length = 0
        self._number: int | None = None
        self._started_ms: int | None = None

    async def open(self) -> StreamInfo:
        """Find the first chunk; gives how the stream is. Need not be called before `more`.

        Raises:
            WorkflowNotFound: the workflow does not exist.
            InstanceNotFound: the instance does not.
        """
        page = await _page(self._engine, self._key, self._stream, first=0, limit=0)
        self._number, self._length = page.number, page.state.length
        self._started_ms = page.started_ms
        self._next = self._start_index
        if self._start_index < 0:
            self._next = max(0, self._length + self._start_index)
        return _info(self._stream, page.state, page.status)

    async def more(self) -> list[ChunkRow]:
        """Wait for chunks; none at all is the end of the stream.

        Nothing is lost when the wait is cancelled: ask again.

        Raises:
            InstanceNotFound: the instance does not exist, or no longer.
            EngineStopped: nothing more will happen.
        """
        if self._number is None:
            await self.open()
        while True:
            with self._engine.streams.feed.watch(self._key) as watch:
                page = await _page(self._engine, self._key, self._stream, self._next, PAGE_CHUNKS)
                if page.number != self._number:
                    raise InstanceNotFound.named(self._key.id)
                # By its length alone a new stream that has caught up would be taken for the former one.
                has_restarted = self._started_ms not in (None, page.started_ms)
                is_rewritten = has_restarted or page.state.length < self._length
                self._length, self._started_ms = page.state.length, page.started_ms
                if is_rewritten:
                    self._next = 0
                elif page.chunks:
                    self._next = page.chunks[-1].place + 1
                    return page.chunks
                elif page.state.is_closed or page.status in TERMINAL:
                    return []
                else:
                    await watch.changed()


def read_output(
    engine: Engine, key: InstanceKey, label: str, output: StreamedOutput
) -> StoredOutput:
    """What a step of an instance has returned as a stream; reading it asks the journal.

    Raises:
        InstanceNotFound: the instance is gone, while it is read.
        JournalCorrupt: a part of it is missing, while it is read: the instance was restarted meanwhile.
    """

    async def read(first: int) -> list[ChunkRow]:
        return (await _page(engine, key, output_stream(label), first, PAGE_CHUNKS)).chunks

    return StoredOutput(label, output, read)


async def _page(
    engine: Engine, key: InstanceKey, stream: str, first: int, limit: int
) -> StreamPage:
    engine.definition(key.workflow)
    page = await engine.journal.chunks(key, stream, first, limit, PAGE_BYTES)
    if page is None:
        raise InstanceNotFound.named(key.id)
    return page


def _info(stream: str, state: StreamState, status: InstanceStatus) -> StreamInfo:
    return StreamInfo(stream, state.length - 1, state.is_closed or status in TERMINAL)
