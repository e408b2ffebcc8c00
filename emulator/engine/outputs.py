"""What a step returns as a stream of bytes: stored piece by piece, and read again the same way.

Theory of operation
===================
The pieces are chunks of a stream of the engine's own, named after the step; what is stored as the step's result only
says how many there are. An attempt begins by clearing that stream, so that nothing of an earlier one is left, and its
result is committed after its last piece (Cloudflare: Workers API, stream results).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Final, cast

import msgspec

from emulator.domain import values
from emulator.domain.limits import MAX_OUTPUT_CHUNK_BYTES, OUTPUT_PIECE_BYTES
from emulator.domain.names import RESERVED
from emulator.domain.steps import StepKey
from emulator.domain.values import StreamedOutput
from emulator.engine.streams import Asked, Writer
from emulator.errors import JournalCorrupt, PayloadTooLarge, SerializationError
from emulator.journal.port import ChunkRow

PAGE_CHUNKS: Final = 256
PAGE_BYTES: Final = 2**20
"""How much of a stream is in memory at once, for each who reads."""


def output_stream(label: str) -> str:
    """The name of the stream that holds what the step of this label returns."""
    return RESERVED + label


async def store_output(writer: Writer, step: StepKey, chunks: AsyncIterable[object]) -> msgspec.Raw:
    """Store what a callback yields; gives what stands for it as the result of the step.

    Raises:
        SerializationError: a chunk is not bytes.
        PayloadTooLarge: a chunk is over 16 MiB.
        StreamError: the attempt is over.
    """
    stream, streams = output_stream(step.label), writer.life.streams
    last = await streams.put(writer, stream, Asked.CLEAR)
    pieces = size_bytes = position = 0
    try:
        async for chunk in chunks:
            data = _checked(chunk, position, step)
            for start in range(0, len(data), OUTPUT_PIECE_BYTES):
                piece = data[start : start + OUTPUT_PIECE_BYTES]
                last = await streams.put(writer, stream, piece)
                pieces += 1
            size_bytes += len(data)
            position += 1
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    await last  # those before it are committed no later
    return values.encode_output(StreamedOutput(pieces, size_bytes))


def _checked(chunk: object, position: int, step: StepKey) -> bytes:
    where = f'the result of step "{step.label}", chunk {position}'
    if not isinstance(chunk, (bytes, bytearray, memoryview)):
        kind = type(chunk).__name__
        raise SerializationError(f"{where}: a stream yields bytes only, and this is of type {kind}")
    data = bytes(cast("bytes", chunk))
    if len(data) > MAX_OUTPUT_CHUNK_BYTES:
        raise PayloadTooLarge(
            f"{where} has {len(data)} bytes; {MAX_OUTPUT_CHUNK_BYTES} (16 MiB) are allowed."
        )
    return data


class StoredOutput(AsyncIterator[bytes]):
    """What a step has returned as a stream. Every `async for` reads it from the beginning."""

    def __init__(
        self,
        label: str,
        output: StreamedOutput,
        read: Callable[[int], Awaitable[list[ChunkRow]]],
    ) -> None:
        self._label = label
        self._output = output
        self._read = read
        self._next = 0
        self._page: list[ChunkRow] = []

    def __aiter__(self) -> StoredOutput:
        return StoredOutput(self._label, self._output, self._read)

    async def __anext__(self) -> bytes:
        if self._next == self._output.chunks:
            raise StopAsyncIteration
        if not self._page:
            self._page = (await self._read(self._next))[::-1]
        if not self._page:
            raise JournalCorrupt(f"Stored output for {self._label} is corrupt or incomplete.")
        self._next += 1
        return values.decode(self._page.pop().value)
