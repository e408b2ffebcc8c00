"""The boundary between user code and the engine: options, durations and instants as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from emulator.domain.limits import MAX_SAFE_INTEGER
from emulator.domain.values import JsDict
from emulator.errors import InvalidDuration


def options(
    given: object, keywords: Mapping[str, Any], known: Mapping[str, str], call: str
) -> dict[str, Any]:
    """Join options that come as one dictionary, as keywords, or both.

    `known` maps every accepted spelling to the name under which the option is returned.

    Raises:
        TypeError: it is no dictionary, an option is unknown, or given twice.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{call} takes its options as a dictionary or as keywords, not {type(given).__name__}."
        )
    joined: dict[str, Any] = {}
    for name, value in [*cast("Mapping[Any, Any]", given).items(), *keywords.items()]:
        if name not in known:
            allowed = ", ".join(sorted(set(known.values())))
            raise TypeError(f"{call} does not take {name!r}. It takes: {allowed}.")
        if known[name] in joined:
            raise TypeError(f"{call} got {known[name]!r} twice.")
        joined[known[name]] = value
    return joined


def instant_ms(value: object, what: str) -> int:
    """Read an instant: a datetime (naive: local time, as in Cloudflare's SDK) or milliseconds since the epoch.

    Raises:
        InvalidDuration: it is something else.
    """
    if isinstance(value, datetime):
        try:
            return round(value.timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            # Within a day of the year 1 the local time zone leads out of what Python can count.
            raise InvalidDuration(f"{what} cannot be {value!r}: it is out of range.") from None
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= MAX_SAFE_INTEGER
    ):
        return round(value)
    raise InvalidDuration(
        f"{what} must be a datetime or a number of milliseconds since 1970, not {value!r}."
    )


def local_datetime(at_ms: int) -> datetime:
    """The naive local datetime that Cloudflare's Python SDK makes of a JavaScript Date."""
    return datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006 - naive, as there


def with_attributes(value: object) -> Any:
    """Give the dictionaries in a JSON value attributes."""
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return JsDict({key: with_attributes(item) for key, item in items})
    if isinstance(value, list):
        return [with_attributes(item) for item in cast("list[object]", value)]
    return value


def js_dict(**items: Any) -> JsDict:
    """A dictionary whose keys answer as attributes."""
    return JsDict(items)
