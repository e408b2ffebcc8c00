"""What a body is made of: bytes that are there, or that come one chunk after the other. Either is used once.

These have the names of JavaScript's `ReadableStream` and `ArrayBuffer`, which is what Python Workers find on Cloudflare.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final, Protocol, Self

BODY_USED: Final = "Body has already been used. It can only be used once. Use tee() first if you need to read it twice."
"""workerd's words."""


class ArrayBuffer(bytes):
    """Bytes that also answer to what a JavaScript buffer does in Python (Pyodide: JsBuffer)."""

    @classmethod
    def new(cls, content: bytes | int = b"") -> Self:
        """Make one, in the manner of Pyodide's constructors; a number is a length."""
        return cls(content)

    @property
    def byteLength(self) -> int:  # noqa: N802
        """How many bytes there are."""
        return len(self)

    length = byteLength

    def to_bytes(self) -> bytes:
        """The bytes as Python's."""
        return bytes(self)

    def to_memoryview(self) -> memoryview[int]:
        """A view of the bytes."""
        return memoryview(self)

    to_py = to_memoryview


class Chunks(Protocol):
    """A content that is still coming. Who wants no more of it closes it, read or not."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def __anext__(self) -> bytes: ...
    async def aclose(self) -> None: ...


class ReadableStream:
    """A body. `async for` gives its chunks; whoever uses it first has it alone."""

    def __init__(self, content: bytes | Chunks) -> None:
        self._content = content
        self.used = False

    def take(self) -> bytes | Chunks:
        """Give the content to whoever uses it up.

        Raises:
            TypeError: it has been used.
        """
        if self.used:
            raise TypeError(BODY_USED)
        self.used = True
        return self._content

    async def read(self) -> bytes:
        """Use it up, as a whole.

        Raises:
            TypeError: it has been used.
        """
        content = self.take()
        if isinstance(content, bytes):
            return content
        async with aclosing(content):
            return b"".join([part async for part in content])

    async def __aiter__(self) -> AsyncIterator[ArrayBuffer]:
        content = self.take()
        if isinstance(content, bytes):
            yield ArrayBuffer(content)
            return
        async with aclosing(content):
            async for part in content:
                yield ArrayBuffer(part)

    def __bytes__(self) -> bytes:
        """The content, which stays unused: for those who keep a copy of it."""
        if self.used:
            raise TypeError(BODY_USED)
        if not isinstance(self._content, bytes):
            raise TypeError("A body that is still coming cannot be copied here.")
        return self._content

    def tee(self) -> tuple[ReadableStream, ReadableStream]:
        """Make two of it; it is used then.

        Raises:
            TypeError: it has been used, or is still coming.
        """
        content = bytes(self)
        self.used = True
        return ReadableStream(content), ReadableStream(content)
