"""`Headers`: what `request.headers` and `response.headers` are on Cloudflare, with the web's names besides."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from email.message import Message
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, overload

HeadersInit: TypeAlias = Mapping[str, Any] | Message | Iterable[tuple[str, Any]]

T = TypeVar("T")

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, 5.6.2: a token."""
_VALUE: Final = re.compile(r"[^\x00\n\r\v\f\u0100-\U0010ffff]*")
"""What the server can send: Latin-1 without control characters that end something."""

_log = logging.getLogger("workflow_emulator")


class Headers(Message):
    """A case-insensitive multi-dict: what `request.headers` is on Cloudflare, and the web's names besides.

    As in every `email.message.Message`, `headers[name] = value` adds a value (`set` replaces them all), a
    name that is not there gives None, and `get_all` gives each value. Otherwise several values are one, with
    commas between them (RFC 9110, 5.3), but for `Set-Cookie`, of which the first is given.
    """

    def __init__(self, init: HeadersInit | None = None) -> None:
        super().__init__()
        self._is_copy = False
        given: Any = init
        for name, value in given.items() if isinstance(init, Mapping | Message) else given or ():
            self.append(name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header.")
        try:
            text = text_of(value).strip(" \t\r\n")
        except TypeError as error:
            message = f"The value of header {name!r} is a text or a number, not {error}."
            raise TypeError(message) from None
        if not _VALUE.fullmatch(text):
            raise ValueError(
                f"The value of header {name!r} has a line break in it, or another character that no header can hold: "
                f"{text!r}."
            )
        if self._is_copy:
            _tell_of_lost_change(name)
        super().__setitem__(name, text)

    def __delitem__(self, name: str) -> None:
        if self._is_copy:
            _tell_of_lost_change(name)
        super().__delitem__(name)

    @overload
    def get(self, name: str, failobj: None = None) -> str | None: ...
    @overload
    def get(self, name: str, failobj: T) -> str | T: ...
    def get(self, name: str, failobj: object = None) -> object:
        """Give the value of `name`; several are joined."""
        values: list[str] = self.get_all(name, [])
        if not values:
            return failobj
        return values[0] if name.lower() == "set-cookie" else ", ".join(values)

    def append(self, name: str, value: Any) -> None:
        """Add a value.

        Raises:
            ValueError: no header can be called that, or hold that.
            TypeError: it is neither a text nor a number.
        """
        self[name] = value

    def set(self, name: str, value: Any) -> None:
        """Replace every value of `name`."""
        del self[name]
        self.append(name, value)

    def has(self, name: str) -> bool:
        """Tell whether there is a value."""
        return name in self

    def delete(self, name: str) -> None:
        """Remove every value of `name`."""
        del self[name]

    def combined(self) -> Headers:
        """Make the copy that user code sees (Fetch standard: sort and combine). Who changes it is told."""
        copy = Headers()
        for name in sorted({name.lower() for name in self.keys()}):
            values: list[str] = self.get_all(name, [])
            for value in values if name == "set-cookie" else [", ".join(values)]:
                copy.append(name, value)
        copy._is_copy = True
        return copy


def text_of(value: object) -> str:
    """A text or a number as JavaScript writes it.

    Raises:
        TypeError: it is something else; the message is what.
    """
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(int(value))
        case float():
            return str(int(value)) if value.is_integer() else str(value)
        case _:
            raise TypeError(type(value).__name__)


@cache
def _tell_of_lost_change(name: str) -> None:
    """Say it once for each name; some keep the copy, and mean what they do."""
    _log.warning(
        "%r was changed in a copy: `headers` of a request or a response is a new one each time, as on Cloudflare, and "
        "what is changed in it is sent by nobody. Give the headers to the constructor: Response(body, headers={...})",
        name,
    )
