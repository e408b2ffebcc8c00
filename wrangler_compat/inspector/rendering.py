"""Templates, and how times, values and texts look in them.

Jinja escapes everything. What is long is cut, and the page says by how much.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from emulator.domain import values
from emulator.domain.duration import duration_text
from emulator.projection.rendering import iso
from wrangler_compat.inspector.urls import (
    HOME,
    PREFIX,
    attribute_url,
    instance_url,
    stream_url,
    workflow_url,
)

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_SHOWN_CHARS: Final = 20_000

_PICTURES: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
"""What stands for the characters that HTML does not allow."""

_FOLDER: Final = Path(__file__).parent / "templates"


def render(template: str, **shown: Any) -> bytes:
    """Fill a template. A control character becomes its picture, as ␛; a lone surrogate, which UTF-8 lacks, a question mark."""
    page = _environment().get_template(template).render(**shown)
    return page.translate(_PICTURES).encode("utf-8", "replace")


def value_text(payload: msgspec.Raw) -> str:
    """A stored value as indented JSON, cut where it is long."""
    return json_text(values.plain(payload))


def json_text(value: object) -> str:
    """A value as indented JSON, cut where it is long."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    more = len(text) - MAX_SHOWN_CHARS
    return text if more <= 0 else f"{text[:MAX_SHOWN_CHARS]}\n… {more} more characters"


@cache
def _environment() -> Environment:
    # Imported late: most servers never show a page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(instant=_instant, duration=duration_text, written=_written)
    cast("dict[str, object]", made.globals).update(
        home=HOME,
        static=f"{PREFIX}/static",
        workflow_url=workflow_url,
        instance_url=instance_url,
        stream_url=stream_url,
        attribute_url=attribute_url,
    )
    return made


def _instant(at_ms: int | None) -> str:
    """A time, in UTC, as the command line shows it."""
    return "-" if at_ms is None else iso(at_ms).replace("T", " ")


def _written(duration: float | str) -> str:
    """A duration of a config, as it was written; a number is milliseconds."""
    return duration if isinstance(duration, str) else duration_text(round(duration))
