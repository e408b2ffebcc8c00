"""A stream of an instance over HTTP: as server-sent events, or as it is (see docs/http.md).

A page of the stream is read when the last one has been sent, and sending waits for the client: a slow one holds up
nobody, and one page is in memory.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from bindings import wire
from bindings.host import ChunkSource
from emulator.domain import values
from emulator.engine.reading import StreamReader
from emulator.errors import EmulatorError, InvalidStream
from emulator.timing.clock import Clock
from wrangler_compat.rest.event_stream import HEARTBEAT, frame, with_silences

log = logging.getLogger("workflow_emulator")

_WHOLE: Final = re.compile("-?[0-9]{1,15}")


def wants_events(request: Request) -> bool:
    """Whether the client asks for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


def start_index(request: Request) -> int:
    """Where to begin: `startIndex`, or after `Last-Event-ID`, which is newer.

    Raises:
        InvalidStream: it is no whole number.
    """
    last = request.headers.get("last-event-id")
    given = last or request.query_params.get("startIndex", "0")
    if not _WHOLE.fullmatch(given):
        name = "Last-Event-ID" if last else "startIndex"
        raise InvalidStream(f"{name} must be a whole number, not {given!r}")
    return int(given) + 1 if last else int(given)


async def chunk_frames(source: ChunkSource, clock: Clock) -> AsyncIterator[bytes]:
    """The chunks as events, whose number is the index, and a comment whenever there was none for a while.

    Raises:
        EmulatorError: the instance is gone, or the engine has stopped.
    """
    async for chunks in with_silences(source.more, clock):
        if chunks is None:
            yield HEARTBEAT
        else:
            yield b"".join(
                frame(wire.CHUNK, msgspec.json.encode(each), each.index) for each in chunks
            )


def plain_stream(reader: StreamReader, headers: Mapping[str, str]) -> Response:
    """The response that is the chunks and nothing else: bytes as they are, other values as lines of JSON."""
    headers = {"cache-control": "no-store", **headers}
    return BareStream(_contents(reader), media_type="application/octet-stream", headers=headers)


class BrokenOff(ConnectionError):
    """What has been sent of an answer is not the whole, and its client must not take it for that."""


class BareStream(StreamingResponse):
    """An answer of bytes that nothing is said with: an error can only break it off."""

    async def stream_response(self, send: Send) -> None:
        """Send what there is.

        Raises:
            BrokenOff: there is no more, but should be. Without a last message the server closes the connection.
        """
        try:
            await super().stream_response(send)
        except EmulatorError as error:
            log.info("a stream that is read breaks off: %s", error.message)
            raise BrokenOff(error.message) from error


async def _contents(reader: StreamReader) -> AsyncIterator[bytes]:
    while chunks := await reader.more():
        yield b"".join(_content(each.value) for each in chunks)


def _content(stored: msgspec.Raw) -> bytes:
    value = values.decode(stored)
    return value if isinstance(value, bytes) else bytes(stored) + b"\n"
