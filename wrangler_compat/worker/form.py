"""Form bodies: `await request.form_data()`, URL-encoded or multipart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from collections.abc import Iterable

_Bytes: TypeAlias = bytes


class File:
    """A file of a form: its `name`, its content type as `type`, its `size` in bytes."""

    def __init__(self, content: bytes, name: str, content_type: str) -> None:
        self.name = name
        self.type = content_type
        self.size = len(content)
        self._content = content

    async def bytes(self) -> _Bytes:
        """Read the content."""
        return self._content

    async def text(self) -> str:
        """Read the content as UTF-8; bytes that are not become U+FFFD."""
        return self._content.decode(errors="replace")


class FormData(Mapping[str, str | File]):
    """The fields of a form, in order. A name may come several times: `form[name]` is the first, `get_all` all."""

    def __init__(self, fields: Iterable[tuple[str, str | File]] = ()) -> None:
        self._fields: dict[str, list[str | File]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str | File:
        return self._fields[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def get_all(self, name: str) -> list[str | File]:
        """Give each value of `name`, in order."""
        return list(self._fields.get(name, ()))


def parse_form(body: bytes, content_type: str) -> FormData:
    """Parse a form body.

    Raises:
        TypeError: the content type is not that of a form.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return FormData(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    if kind == "multipart/form-data":
        head = f"content-type: {content_type}\r\n\r\n".encode()
        return FormData(_multipart_fields(BytesParser().parsebytes(head + body)))
    raise TypeError(f"The body is no form: its content type is {content_type or 'not given'!r}.")


def _multipart_fields(whole: Message) -> Iterator[tuple[str, str | File]]:
    for part in cast("list[Message]", whole.get_payload()) if whole.is_multipart() else ():
        name = part.get_param("name", header="content-disposition")
        content = cast("bytes", part.get_payload(decode=True))
        file_name = part.get_filename()
        if file_name is not None:
            yield str(name), File(content, file_name, part.get_content_type())
        else:
            yield str(name), content.decode(errors="replace")
