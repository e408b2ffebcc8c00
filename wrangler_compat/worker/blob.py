"""`Blob` and `File`: bytes that know their content type (Cloudflare's Python SDK)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self, TypeAlias, cast

BlobValue: TypeAlias = "str | bytes | bytearray | memoryview[int] | Blob"
_Bytes: TypeAlias = bytes  # inside the classes, `bytes` is the method


class BlobEnding(StrEnum):
    """What happens to line ends: nothing, in either case, where a line ends in "\\n"."""

    TRANSPARENT = "transparent"
    NATIVE = "native"


class Blob:
    """Bytes made of texts, bytes and other blobs; with the `content_type` of the only one, if nothing else is given."""

    def __init__(
        self,
        blob_parts: BlobValue | Iterable[BlobValue],
        content_type: str | None = None,
        endings: BlobEnding | str | None = None,  # noqa: ARG002
    ) -> None:
        parts = _parts_of(blob_parts)
        if isinstance(blob_parts, Blob):
            content_type = content_type or blob_parts.content_type
        self._content = b"".join(map(_bytes_of, parts))
        self.content_type = (content_type or "").lower()

    @property
    def js_object(self) -> Self:
        """The object itself."""
        return self

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self._content)

    @property
    def type(self) -> str:
        """The content type, by JavaScript's name."""
        return self.content_type

    async def bytes(self) -> _Bytes:
        """Read the content."""
        return self._content

    async def text(self) -> str:
        """Read the content as UTF-8; bytes that are not become U+FFFD."""
        return self._content.decode(errors="replace")

    def slice(
        self, start: int | None = None, end: int | None = None, content_type: str | None = None
    ) -> Blob:
        """Make a blob of a part; negative numbers count from the end."""
        return Blob(self._content[start:end], content_type)

    def __bytes__(self) -> _Bytes:
        return self._content


class File(Blob):
    """A file of a form: a blob with a `name`. `last_modified` is in milliseconds, 0 where nobody has said it."""

    def __init__(
        self,
        blob_parts: BlobValue | Iterable[BlobValue],
        filename: str,
        content_type: str | None = None,
        endings: BlobEnding | str | None = None,
        last_modified: int | None = None,
    ) -> None:
        super().__init__(blob_parts, content_type, endings)
        original: object = blob_parts
        if last_modified is None and isinstance(original, File):
            last_modified = original.last_modified
        self.name = filename
        self.last_modified: int = last_modified or 0


def _parts_of(given: BlobValue | Iterable[BlobValue]) -> Iterable[BlobValue]:
    if isinstance(given, str | bytes | bytearray | Blob):
        return (given,)
    return (cast("BlobValue", given),) if isinstance(given, memoryview) else given


def _bytes_of(part: object) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, bytes | bytearray | Blob):
        return bytes(part)
    if isinstance(part, memoryview):
        return part.tobytes()
    raise TypeError(f"Don't know how to handle {type(part).__name__} for Blob()")
