"""Forms: `FormData`, as a body URL-encoded or multipart (Cloudflare's Python SDK; RFC 7578)."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from email import message_from_string
from email.message import Message
from typing import Final, Self, TypeAlias, cast
from urllib.parse import parse_qsl
from uuid import uuid4

from wrangler_compat.worker.blob import Blob, File
from wrangler_compat.worker.headers import text_of

FormDataValue: TypeAlias = str | File
FormDataInit: TypeAlias = str | int | float | Blob

_ESCAPES: Final = {"\r": "%0D", "\n": "%0A", '"': "%22"}
"""What a browser writes for these in the name of a field or a file (HTML standard: multipart form data)."""


class FormData(MutableMapping[str, FormDataValue]):
    """The fields of a form, in order. A name may come several times: `form[name]` is the first, `get_all` all.

    A field that is not there is None; `items`, `values` and `keys` have every one (Cloudflare's Python SDK).
    """

    def __init__(self, form_data: FormData | Mapping[str, FormDataInit] | None = None) -> None:
        if not isinstance(cast("object", form_data), Mapping | None):
            raise TypeError("Expected form_data to be a dict or an instance of FormData")
        self._fields: list[tuple[str, FormDataValue]] = []
        for name, value in form_data.items() if form_data is not None else ():
            self.append(name, value)

    @property
    def js_object(self) -> Self:
        """The form itself."""
        return self

    def append(self, key: str, value: FormDataInit, filename: str | None = None) -> None:
        """Add a field. A blob becomes a file.

        Raises:
            TypeError: it is neither a text, a number nor a blob.
        """
        self._fields.append((key, _field(key, value, filename)))

    def delete(self, key: str) -> None:
        """Remove every field of the name `key`."""
        self._fields = [field for field in self._fields if field[0] != key]

    def get_all(self, key: str) -> list[FormDataValue]:
        """Give each value of `key`, in order."""
        return [value for name, value in self._fields if name == key]

    def items(self) -> ItemsView[str, FormDataValue]:
        """Every pair."""
        return _Items(self)

    def values(self) -> ValuesView[FormDataValue]:
        """Every value."""
        return _Values(self)

    def fields(self) -> Iterable[tuple[str, FormDataValue]]:
        """Every pair, for those who only go through them."""
        return self._fields

    def __getitem__(self, key: str) -> FormDataValue:
        # None, where there is none: as there. The type is for the usual case, as in every `Message`.
        return next((value for name, value in self._fields if name == key), cast("str", None))

    def __setitem__(self, key: str, value: FormDataInit) -> None:
        """Put one field in the place of all of the name `key`."""
        field = (key, _field(key, value, None))
        at = next((at for at, (name, _) in enumerate(self._fields) if name == key), None)
        if at is None:
            self._fields.append(field)
        else:
            later = [other for other in self._fields[at + 1 :] if other[0] != key]
            self._fields[at:] = [field, *later]

    def __delitem__(self, key: str) -> None:
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return any(name == key for name, _ in self._fields)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class _Items(ItemsView[str, FormDataValue]):
    _mapping: FormData

    def __iter__(self) -> Iterator[tuple[str, FormDataValue]]:
        return iter(self._mapping.fields())


class _Values(ValuesView[FormDataValue]):
    _mapping: FormData

    def __iter__(self) -> Iterator[FormDataValue]:
        return (value for _, value in self._mapping.fields())


def _field(key: str, value: FormDataInit, filename: str | None) -> FormDataValue:
    if isinstance(value, File) and filename is None:
        return value
    if isinstance(value, Blob):
        return File(value, filename or "blob")
    try:
        return text_of(value)
    except TypeError as error:
        raise TypeError(f"The field {key!r} is a text, a number or a blob, not {error}.") from None


def encode_form(form: FormData) -> tuple[bytes, str]:
    """Write a form as a multipart body; that, and its content type."""
    boundary = f"----form-{uuid4().hex}"
    lines: list[bytes] = []
    for name, value in form.items():
        head = f'Content-Disposition: form-data; name="{_escaped(name)}"'
        if isinstance(value, File):
            kind = value.content_type or "application/octet-stream"
            head += f'; filename="{_escaped(value.name)}"\r\nContent-Type: {kind}'
        content = value.encode() if isinstance(value, str) else bytes(value)
        lines += [f"--{boundary}\r\n{head}\r\n".encode(), content]
    lines += [f"--{boundary}--\r\n".encode()]
    return b"\r\n".join(lines), f"multipart/form-data; boundary={boundary}"


def _escaped(name: str) -> str:
    return name.translate(str.maketrans(_ESCAPES))


def _unescaped(name: str) -> str:
    for character, escape in _ESCAPES.items():
        name = name.replace(escape, character)
    return name


def parse_form(body: bytes, content_type: str) -> FormData:
    """Parse a form body.

    Raises:
        TypeError: the content type is not that of a form, or the body is none.
    """
    kind = content_type.partition(";")[0].strip().lower()
    form = FormData()
    if kind == "application/x-www-form-urlencoded":
        for name, value in parse_qsl(body.decode(errors="replace"), keep_blank_values=True):
            form.append(name, value)
        return form
    if kind == "multipart/form-data":
        for name, value in _multipart_fields(body, content_type):
            form.append(name, value)
        return form
    raise TypeError(f"The body is no form: its content type is {content_type or 'not given'!r}.")


def _multipart_fields(body: bytes, content_type: str) -> Iterator[tuple[str, FormDataValue]]:
    boundary = message_from_string(f"content-type: {content_type}").get_param("boundary")
    if boundary is None:
        raise TypeError(f"The body is no form: {content_type!r} names no boundary.")
    _, *parts = (b"\r\n" + body).split(f"\r\n--{boundary}".encode())
    for part in parts:
        if part.startswith(b"--"):
            return
        head, _, content = part.partition(b"\r\n\r\n")
        about = message_from_string(head.decode(errors="replace").lstrip())
        name = _disposition(about, "name")
        if name is None:
            raise TypeError("The body is no form: a part of it has no name.")
        file_name = _disposition(about, "filename")
        if file_name is None:
            yield name, content.decode(errors="replace")
        else:
            yield name, File(content, file_name, about.get_content_type())
    raise TypeError("The body is no form: it ends before its last boundary.")


def _disposition(about: Message, parameter: str) -> str | None:
    value = about.get_param(parameter, header="content-disposition")
    return None if value is None else _unescaped(str(value))
