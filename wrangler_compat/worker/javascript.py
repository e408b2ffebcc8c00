"""Stand-ins for the few names of `js` and `pyodide.ffi` that Python Workers commonly import.

On Cloudflare these convert between Python and JavaScript. Here everything is Python, so that a conversion
has nothing to do, and code that still converts goes on working.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def to_js(value: T, **_options: object) -> T:
    """Give `value` itself; the options of the conversion, such as `dict_converter`, have no meaning here."""
    return value


def create_proxy(value: T, **_options: object) -> T:
    """Give `value` itself."""
    return value


class Object:
    """JavaScript's `Object`."""

    @staticmethod
    def fromEntries(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:  # noqa: N802
        """Make a dictionary of pairs."""
        return dict(entries)


class JSON:
    """JavaScript's `JSON`."""

    @staticmethod
    def stringify(value: object) -> str:
        """Write JSON without spaces, as JavaScript does."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> Any:
        """Read JSON."""
        return json.loads(text)


class Console:
    """JavaScript's `console`: `log` and `info` go to standard output, `warn` and `error` to standard error."""

    def log(self, *values: object) -> None:
        """Print the values, with spaces between."""
        sys.stdout.write(_line(values))

    def error(self, *values: object) -> None:
        """Print the values as an error."""
        sys.stderr.write(_line(values))

    info = log
    warn = error


console = Console()


def _line(values: tuple[object, ...]) -> str:
    return " ".join(map(str, values)) + "\n"
