"""A configuration file: its data, and where in its text each value stands.

These files are written by hand, so a mistake is worth a line and a column. The standard library's
parsers give the data; positions come from a second, simpler pass, which may rely on the text being
valid. Comments and trailing commas of JSONC are blanked, not cut, so that every position holds.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from emulator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indices that lead to a value, from the top."""

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[\]}}])")
_JSON_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\]:,]|[^\s{{}}\[\]:,"]+')
_TOML_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_TOML_KEY = re.compile(
    r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_TOML_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_TOML_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


class Place(NamedTuple):
    """A line, and a column where it is known; both count from one."""

    line: int
    column: int | None = None


class Document(NamedTuple):
    """A parsed file."""

    path: Path
    data: dict[str, object]
    places: dict[KeyPath, Place]

    def place(self, at: KeyPath) -> Place:
        """Give the place of `at`, or of the first thing in it, or the nearest known one that encloses it."""
        while at not in self.places and at:
            inside = [place for key, place in self.places.items() if key[: len(at)] == at]
            if inside:  # the header of [a.b] is all that there is of [a]
                return min(inside)
            at = at[:-1]
        return self.places.get(at, Place(1))

    def where(self, at: KeyPath) -> str:
        """Say where `at` stands, such as `wrangler.jsonc:7:15`."""
        return ":".join(str(part) for part in (self.path, *self.place(at)) if part is not None)


def read_document(path: Path) -> Document:
    """Read a file of JSON, with or without comments, or TOML, as its name says.

    Raises:
        ConfigError: it cannot be read or parsed.
    """
    text = read_text(path)
    document = _read_toml(path, text) if path.suffix == ".toml" else _read_jsonc(path, text)
    if not isinstance(cast("object", document.data), dict):
        raise ConfigError(f"{document.where(())}: expected an object {{…}} at the top.")
    return document


def read_text(path: Path) -> str:
    """Read a file of the configuration.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: the byte 0x{error.object[error.start]:02x} is not UTF-8; save the file in that encoding."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _read_jsonc(path: Path, text: str) -> Document:
    text = _TRAILING_COMMA.sub(_without_trailing_comma, _COMMENT.sub(_blank, text))
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}: {error.msg}.") from error
    tokens = _JSON_TOKEN.finditer(text)
    places = {
        at: Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
        for at, offset in _json_offsets(next(tokens), tokens, ())
    }
    return Document(path, data, places)


def _blank(comment: re.Match[str]) -> str:
    return comment[1] or re.sub(r"[^\n]", " ", comment[0])


def _without_trailing_comma(found: re.Match[str]) -> str:
    before = found.string[: found.start()].rstrip()
    return found[0] if found[1] or before.endswith((",", ":", "[", "{")) else " "


def _json_offsets(
    token: re.Match[str], tokens: Iterator[re.Match[str]], at: KeyPath
) -> Iterator[tuple[KeyPath, int]]:
    """Walk the value that begins with `token`: its own offset, then those of the values inside it."""
    yield at, token.start()
    if token[0] not in ("{", "["):
        return
    index = 0
    for inner in tokens:
        if inner[0] in ("}", "]"):
            return
        if inner[0] == ",":
            index += 1
        elif token[0] == "[":
            yield from _json_offsets(inner, tokens, (*at, index))
        else:
            next(tokens)  # the colon
            yield from _json_offsets(next(tokens), tokens, (*at, json.loads(inner[0])))


def _read_toml(path: Path, text: str) -> Document:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.fullmatch(str(error))
        place = f"{path}:{found[2]}:{found[3]}: {found[1]}" if found else f"{path}: {error}"
        raise ConfigError(f"{place}.") from error
    return Document(path, data, _toml_places(text))


def _toml_places(text: str) -> dict[KeyPath, Place]:
    """Find the lines of headers and keys. What stands inside a value is found by its key's line."""
    places: dict[KeyPath, Place] = {}
    counts: dict[KeyPath, int] = {}  # arrays of tables: how many so far
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TOML_HEADER.match(line):
            table = ()
            *outer, last = _toml_key(header[2])
            for part in outer:
                table = _last_table((*table, part), counts)
            table = (*table, last)
            if header[1] == "[[":
                counts[table] = counts.get(table, 0) + 1
            table = _last_table(table, counts)
            places[table] = Place(number)
        elif key := _TOML_KEY.match(line):
            places.setdefault((*table, *_toml_key(key[1])), Place(number))
    return places


def _toml_key(text: str) -> list[str]:
    return [part.strip("\"'") for part in _TOML_KEY_PART.findall(text)]


def _last_table(at: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    return (*at, counts[at] - 1) if at in counts else at
