"""Paths into a JSON body, and texts with such paths in braces: `order-{data.order_id}`.

A path is keys with dots between; in a list, a key is an index. What is put into a text is text or a whole number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from emulator.errors import ConfigError, InvalidInput
from wrangler_compat.config.reading import given_text

_KEY: Final = r"[^\s.{}]+"
_PATH: Final = re.compile(rf"{_KEY}(?:\.{_KEY})*")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a value, from the top."""


def parse_path(text: str) -> Path:
    """Read a path.

    Raises:
        ConfigError: it is none.
    """
    if not _PATH.fullmatch(text):
        raise ConfigError('expected keys with dots between, such as "data.order_id"')
    return tuple(text.split("."))


def value_at(body: object, path: Path) -> object:
    """Find the value that a path leads to.

    Raises:
        InvalidInput: there is none; the message has the path.
    """
    value = body
    for key in path:
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, object]", value)[key]
        elif isinstance(value, list) and _is_index(key, items := cast("list[object]", value)):
            value = items[int(key)]
        else:
            raise InvalidInput(f'The body has no field "{".".join(path)}".')
    return value


def _is_index(key: str, items: list[object]) -> bool:
    return len(key) < 10 and key.isascii() and key.isdigit() and int(key) < len(items)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields. `parts` alternates between what stands there and paths."""

    text: str
    parts: tuple[str | Path, ...]

    @property
    def is_constant(self) -> bool:
        """Whether it has no fields."""
        return len(self.parts) == 1

    def fill(self, body: object) -> str:
        """Put the fields of a body in.

        Raises:
            InvalidInput: the body lacks one, or it is not a text or a whole number.
        """
        return "".join(
            part if isinstance(part, str) else _field_text(body, part) for part in self.parts
        )


def parse_template(text: str) -> Template:
    """Read a template.

    Raises:
        ConfigError: a brace has no partner, or there is no path between them.
    """
    parts = [parse_path(part) if at % 2 else part for at, part in enumerate(_FIELD.split(text))]
    if any(isinstance(part, str) and re.search(r"[{}]", part) for part in parts):
        raise ConfigError('expected a partner for each brace, as in "order-{data.order_id}"')
    return Template(text, tuple(parts))


def _field_text(body: object, path: Path) -> str:
    value = value_at(body, path)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InvalidInput(
            f'The field "{".".join(path)}" of the body is {given_text(value)}; '
            "expected a text that is not empty, or a whole number."
        )
    return str(value)
