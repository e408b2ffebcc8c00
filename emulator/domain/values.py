"""The codec of values: what a step returns, an event carries, an instance is started with.

Theory of operation
===================
A stored value is JSON text that a person can read. What JSON lacks is a tagged object, `{"$": kind, "value": data}`:

    bytes       base64                       number   "NaN", "Infinity" or "-Infinity"
    datetime    ISO 8601, aware or naive     int      hexadecimal, for more than 64 bits
    set         a list of its elements       str      with its lone surrogates escaped
    error       the message                  dict     a list of pairs, for keys that are not plain text,
                                                      and for a dictionary with a key "$"
    stream      what a step has returned piece by piece: how many pieces, and their size; they are stored apart

Most values need no tag. `encode` first looks whether that is so (`_is_plain`) and then hands the value itself to the
JSON encoder; only otherwise does it build a tagged copy, and only that slow walk knows the path to what it refuses.

A value decodes to what was encoded, save that a dictionary comes back as a `JsDict`, a frozenset as a set, a subclass
of a storable type as that type, an exception as `Exception(message)`, a time zone as its offset, and the `fold` of a
datetime is lost. What Cloudflare's Python SDK refuses to send is refused here (Cloudflare: Python Workers, type
conversions); so are keys and elements of sets that could not be looked up again, such as a frozenset in a set.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from types import CoroutineType
from typing import Any, Final, cast

import msgspec

from emulator.domain.limits import MAX_SAFE_INTEGER, MAX_VALUE_BYTES, MAX_VALUE_DEPTH_LEVELS
from emulator.errors import JournalCorrupt, PayloadTooLarge, SerializationError

TAG: Final = "$"

_MIN_JSON_INT: Final = -(2**63)
_MAX_JSON_INT: Final = 2**63 - 1
_MAX_DECIMAL_BITS: Final = 10_000
_ATOMS: Final = frozenset({str, bool, type(None)})
_TEXT: Final = frozenset({str})
_CONTAINERS: Final = frozenset({dict, list})
_HASHABLE: Final = (type(None), bool, int, float, str, bytes, datetime)
_MAX_PATH_CHARS: Final = 200
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_INTEGER: Final = re.compile(rb"(?<![.\d])\d{16}")
"""Perhaps one beyond what JavaScript has."""

_Container = list[object] | dict[object, object] | set[object] | frozenset[object]


class JsDict(dict[Any, Any]):
    """A dictionary whose keys also answer as attributes, as in Cloudflare's Python SDK.

    A key that is called like a method of `dict` ("items") is reached by `[]` only.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Python asks instances for protocol methods (`__deepcopy__`); no key may pose as one.
        if name in self and not name.startswith("__"):
            return self[name]
        raise AttributeError(f"no key {name!r}; there are: {', '.join(map(repr, self)) or 'none'}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class StreamedOutput(msgspec.Struct, frozen=True):
    """The result of a step that has returned a stream of bytes: `chunks` chunks, of `size_bytes` together."""

    chunks: int
    size_bytes: int


def encode_output(output: StreamedOutput) -> msgspec.Raw:
    """Turn what stands for a stream of bytes into what is stored. No user's value looks like it."""
    return msgspec.Raw(msgspec.json.encode(_tag("stream", msgspec.to_builtins(output))))


def encode(value: object, where: str, *, too_large: str | None = None) -> msgspec.Raw:
    """Turn a value into what is stored.

    `where` names the value in errors, such as `the result of step "a-1"`. `too_large` begins the message about the
    size, where Cloudflare has a text of its own.

    Raises:
        SerializationError: a part of the value cannot be stored; the message has the path to it.
        PayloadTooLarge: it is over 1 MiB (see `size_bytes`).
    """
    try:
        text = msgspec.json.encode(value if _is_plain(value, 0) else _Tagging(where).run(value))
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 lacks
        text = msgspec.json.encode(_Tagging(where).run(value))
    payload = msgspec.Raw(text)
    if len(text) > MAX_VALUE_BYTES and (size := size_bytes(payload)) > MAX_VALUE_BYTES:
        begin = too_large or f"{where} is too large. Maximum allowed size is 1MiB."
        raise PayloadTooLarge(f"{begin} It has {size} bytes, {MAX_VALUE_BYTES} are allowed.")
    return payload


def decode(payload: msgspec.Raw) -> Any:
    """Turn what is stored into a new value; dictionaries become `JsDict`.

    Raises:
        JournalCorrupt: this is not a stored value.
    """
    try:
        value = msgspec.json.decode(payload)
        return _revived(value) if type(value) in _CONTAINERS else value
    except (ValueError, KeyError, TypeError) as error:
        raise _corrupt(error) from error


def _corrupt(error: Exception) -> JournalCorrupt:
    return JournalCorrupt(f"A stored value does not decode: {error!r}")


def plain(payload: msgspec.Raw) -> Any:
    """Turn what is stored into JSON as Cloudflare's log and APIs show it: readable, not reversible.

    Bytes become `"[Uint8Array(N bytes)]"`, integers beyond 2**53 `"[BigInt(n)]"`, sets, errors and dictionaries with
    keys that are not text `{}`, NaN and the infinities null, datetimes ISO 8601 in UTC (naive ones are taken as UTC), a
    step's stream `"[ReadableStream: N bytes]"`.

    Raises:
        JournalCorrupt: this is not a stored value.
    """
    if not _is_shown_as_stored(bytes(payload)):
        return _logged(decode(payload))
    try:
        return msgspec.json.decode(payload)
    except ValueError as error:
        raise _corrupt(error) from error


def _is_shown_as_stored(text: bytes) -> bool:
    """Whether there is no tag and no long integer: so it is with most values, and a walk takes 30 times as long."""
    if b'"$"' in text:
        return False
    # Looking for a text is fast, for a pattern it is not.
    return b"0" * 16 not in text.translate(_DIGITS) or not _LONG_INTEGER.search(text)


def size_bytes(payload: msgspec.Raw) -> int:
    """Measure a value against the limit on values.

    A text on its own counts as UTF-8, bytes on their own as they are (so that exactly 1 MiB of either fits);
    anything else counts as its stored JSON.
    """
    text = bytes(payload)
    if text.startswith((b'"', b'{"$":"str"')):
        return len(decode(payload).encode("utf-8", "surrogatepass"))
    if text.startswith(b'{"$":"bytes"'):
        return len(decode(payload))
    return len(text)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether JSON holds the value without a tag. Exact types only: this is the fast path."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return True
    if kind is int:
        return _MIN_JSON_INT <= value <= _MAX_JSON_INT
    if kind is float:
        return math.isfinite(value)
    if depth == MAX_VALUE_DEPTH_LEVELS:
        return False
    if kind is list:
        for item in value:
            if type(item) not in _ATOMS and not _is_plain(item, depth + 1):
                return False
        return True
    if (kind is not dict and kind is not JsDict) or TAG in value:
        return False
    for key, item in value.items():
        if type(key) is not str or (type(item) not in _ATOMS and not _is_plain(item, depth + 1)):
            return False
    return True


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    return _TEXT.issuperset(map(type, value)) and TAG not in value


class _Tagging:
    """One slow walk over a value: it builds the tagged copy, or refuses with the path."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._path: list[object] = []
        self._open: set[int] = set()

    def run(self, value: object) -> object:
        return self._tagged(value, 0)

    def _tagged(self, value: object, depth: int) -> object:
        if isinstance(value, Enum):
            raise self._refusal(value)
        for base, tagged in _LEAVES:
            if isinstance(value, base):
                try:
                    return tagged(value)
                except (TypeError, ValueError) as error:
                    raise self._failure(f"{value!r} cannot be stored: {error}") from error
        if isinstance(value, list | dict | set | frozenset):
            return self._container(cast("_Container", value), depth)
        raise self._refusal(value)

    def _container(self, value: _Container, depth: int) -> object:
        if id(value) in self._open:
            raise self._failure("a value that contains itself cannot be stored")
        if depth >= MAX_VALUE_DEPTH_LEVELS:
            raise self._failure(
                f"a value nested deeper than {MAX_VALUE_DEPTH_LEVELS} levels cannot be stored"
            )
        self._open.add(id(value))
        if isinstance(value, list):
            tagged = self._items(enumerate(value), depth + 1)
        elif isinstance(value, dict):
            tagged = self._dict(value, depth)
        else:
            tagged = _tag("set", [self._hashable(item, "in a set") for item in value])
        self._open.remove(id(value))
        return tagged

    def _dict(self, value: dict[object, object], depth: int) -> object:
        if _has_plain_keys(value) and not any(
            map(_SURROGATE.search, cast("dict[str, object]", value))
        ):
            return dict(zip(value, self._items(value.items(), depth + 1), strict=True))
        keys = [self._hashable(key, "as a key") for key in value]
        # An object, the list of pairs, and a pair: three levels.
        items = self._items(value.items(), depth + 3)
        return _tag("dict", [list(pair) for pair in zip(keys, items, strict=True)])

    def _items(self, pairs: Iterable[tuple[object, object]], depth: int) -> list[object]:
        # A loop, and one method for it: each frame at each level counts, or Python's limit comes before ours.
        tagged: list[object] = []
        path = self._path
        for key, item in pairs:
            path.append(key)
            tagged.append(self._tagged(item, depth))
            path.pop()
        return tagged

    def _hashable(self, value: object, role: str) -> object:
        if not isinstance(value, _HASHABLE):
            kind = type(value).__name__
            raise self._failure(
                f"{_article(kind)} {kind} {role} cannot be stored; use texts or numbers"
            )
        return self._tagged(value, 0)

    def _refusal(self, value: object) -> SerializationError:
        kind = type(value)
        what = f"{_article(kind.__name__)} {kind.__name__}"
        if isinstance(value, Awaitable):
            cloudflare, advice = f"Awaitable {kind}", "await it first"
        else:
            cloudflare, advice = str(kind), _advice(value)
        if isinstance(value, CoroutineType):  # which call it was that nobody has awaited
            what = f"{what} of {value.__name__!r}"
        return self._failure(
            f"{what} cannot be stored "
            f'(Cloudflare: "{cloudflare} cannot be sent over RPC."); {advice}'
        )

    def _failure(self, reason: str) -> SerializationError:
        path = "".join(map(_segment, self._path)).removeprefix(".")
        if len(path) > _MAX_PATH_CHARS:
            path = path[:_MAX_PATH_CHARS] + "..."
        place = f" at {path}" if path else ""
        return SerializationError(f"{self._where}{place}: {reason}")


def _segment(key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r}]"


def _article(noun: str) -> str:
    return "an" if noun[0].lower() in "aeiou" else "a"


def _advice(value: object) -> str:
    """What to do about a value that cannot be stored."""
    if is_dataclass(value):
        return "use dataclasses.asdict(value) instead"
    if hasattr(value, "model_dump"):
        return "use value.model_dump() instead"
    for kind, advice in _ADVICE:
        if isinstance(value, kind):
            return advice
    return "use None, bool, int, float, str, bytes, datetime, list, dict or set instead"


_ADVICE: Final[tuple[tuple[type, str], ...]] = (
    (Enum, "use its .value instead"),
    (tuple, "use a list instead"),
    (bytearray, "use bytes instead"),
    (memoryview, "use bytes instead"),
    (date, "use a datetime or its isoformat() instead"),
    (Decimal, "use str(value) instead"),
)


def _tag(kind: str, data: object) -> dict[str, object]:
    return {TAG: kind, "value": data}


def _tagged_int(value: int) -> object:
    # Hexadecimal, because Python limits the digits of a decimal integer.
    number = int.__int__(value)
    return number if _MIN_JSON_INT <= number <= _MAX_JSON_INT else _tag("int", hex(number))


def _tagged_float(value: float) -> object:
    if math.isfinite(value):
        return float.__float__(value)
    if math.isnan(value):
        return _tag("number", "NaN")
    return _tag("number", "Infinity" if value > 0 else "-Infinity")


def _tagged_str(value: str) -> object:
    text = str.__str__(value)
    if not _SURROGATE.search(text):
        return text
    return _tag("str", text.encode("unicode_escape").decode("ascii"))


def _tagged_datetime(value: datetime) -> object:
    if type(value) is not datetime:
        # The class is asked, for a value such as pandas' NaT has no instant, whatever `datetime` makes of it.
        value = datetime.fromisoformat(value.isoformat())
    return _tag("datetime", value.isoformat())


# In this order: a bool is an int. The conversions strip subclasses without asking them.
_LEAVES: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (type(None), lambda value: value),
    (bool, lambda value: value),
    (str, _tagged_str),
    (int, _tagged_int),
    (float, _tagged_float),
    (bytes, lambda value: _tag("bytes", b64encode(value).decode("ascii"))),
    (datetime, _tagged_datetime),
    (Exception, lambda value: _tag("error", _tagged_str(str(value)))),
)


def _revived(value: Any) -> Any:
    """Replace tags by what they stand for, and dictionaries by `JsDict`; lists change in place."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        if TAG in value:
            return _REVIVERS[value[TAG]](value["value"])
        result = JsDict(value)
        for key, item in value.items():
            if type(item) in _CONTAINERS:
                result[key] = _revived(item)
        return result
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _CONTAINERS:
                value[index] = _revived(item)
    return value


_REVIVERS: Final[dict[str, Callable[[Any], object]]] = {
    "bytes": lambda data: b64decode(data, validate=True),
    "datetime": datetime.fromisoformat,
    "set": lambda data: {_revived(item) for item in data},
    "error": lambda data: Exception(_revived(data)),
    "number": lambda data: float(data),
    "int": lambda data: int(data, 16),
    "str": lambda data: data.encode("ascii").decode("unicode_escape"),
    "stream": lambda data: StreamedOutput(**data),
    "dict": lambda data: JsDict((_revived(key), _revived(item)) for key, item in data),
}


def _logged(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case int():
            return value if abs(value) <= MAX_SAFE_INTEGER else _big_int(value)
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return f"[Uint8Array({len(value)} bytes)]"
        case datetime():
            return _iso_utc(value)
        case StreamedOutput():
            return f"[ReadableStream: {value.size_bytes} bytes]"
        case list():
            return [_logged(item) for item in cast("list[object]", value)]
        case dict() if all(isinstance(key, str) for key in cast("dict[object, object]", value)):
            return {
                _logged(key): _logged(item)
                for key, item in cast("dict[str, object]", value).items()
            }
        case _:
            return {}


def _big_int(value: int) -> str:
    # Python refuses to print integers of more than some thousand decimal digits.
    digits = str(value) if value.bit_length() <= _MAX_DECIMAL_BITS else hex(value)
    return f"[BigInt({digits})]"


def _iso_utc(instant: datetime) -> str:
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    try:
        aware = aware.astimezone(UTC)
    except OverflowError:  # within a day of the years 1 and 9999
        return aware.isoformat()
    return aware.isoformat(timespec="milliseconds").replace("+00:00", "Z")
