"""The grammar of durations: what may be written where Cloudflare takes one.

A number is milliseconds. A text is first read as JavaScript reads a number ("5", "1e3", "0x10", ""), again
milliseconds; else it is a number, spaces, and a unit, which may end in "s". Cloudflare's library takes an unknown unit
as milliseconds, and so does this module: "20 milliseconds" works that way, and "5 fortnights" is 5 ms. Compounds
("1 hour 30 minutes"), "5seconds" and outer spaces beside a unit are not durations. Ours: a `timedelta` is one.

`duration_text` is the way back, for people to read.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import lru_cache
from typing import Final

from emulator.domain.limits import DAY_MS, MAX_RETENTION_MS
from emulator.errors import InvalidDuration, InvalidRetention

_UNITS_MS: Final = {
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
    "month": 30 * DAY_MS,
    "year": 31_557_600_000,  # 365.25 days
}
_MILLISECONDS: Final = {"ms", "millisecond", "milliseconds"}
UNITS: Final = ", ".join([*_UNITS_MS][:-1]) + " and " + [*_UNITS_MS][-1]
"""The units, to be read."""

_WITH_UNIT: Final = re.compile(r"([^ ]+) +(\w\w*?)s?", re.ASCII)

# JavaScript's Number(): what it trims, and what it reads.
_JS_SPACES: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_DECIMAL: Final = re.compile(r"[+-]?(Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_RADIX: Final = re.compile(r"0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")

_MOST_SECONDS: Final = 900

_SHOWN_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def parse_duration(value: object) -> float:
    """Read a duration, in milliseconds: NaN if it is none, maybe negative or infinite.

    Shapes: int, float, text, timedelta. A bool is none.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, timedelta):
        return value / timedelta(milliseconds=1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value)
    return math.nan


def duration_ms(value: object, *, what: str, maximum_ms: int | None = None) -> int:
    """Read a duration, in whole milliseconds; it may be negative.

    `what` names it in errors, such as `the duration of sleep "nap"`.

    Raises:
        InvalidDuration: it is not a duration, is infinite, or is over the maximum.
    """
    parsed_ms = parse_duration(value)
    if math.isnan(parsed_ms):
        raise InvalidDuration(
            f"{what} cannot be {value!r}: a duration is a number of milliseconds, "
            'a text such as "10 minutes", or a timedelta'
        )
    if maximum_ms is not None and parsed_ms > maximum_ms:
        raise InvalidDuration(
            f"{what} cannot be {value!r}: the maximum is {maximum_ms / DAY_MS:g} days"
        )
    if math.isinf(parsed_ms):
        raise InvalidDuration(f"{what} cannot be {value!r}: a duration is finite")
    return round(parsed_ms)


def retention_ms(value: object) -> int:
    """Read how long a finished instance is kept, in milliseconds (Cloudflare: Workers API, create, retention).

    Raises:
        InvalidRetention: it is not a duration, is not positive, is a fraction of a millisecond, or is over 30 days.
    """
    parsed_ms = parse_duration(value)
    if not 0 < parsed_ms < math.inf or (isinstance(value, float) and not value.is_integer()):
        raise InvalidRetention
    if parsed_ms > MAX_RETENTION_MS:
        raise InvalidRetention(
            f"(body) Retention cannot be {value!r}: the maximum is {MAX_RETENTION_MS // DAY_MS} days"
        )
    return round(parsed_ms)


def unknown_unit(value: object) -> str | None:
    """The unit of a text that counts as milliseconds because there is no such unit, as in "5 fortnights"; else None.

    Milliseconds that are meant so are none such: "ms", "millisecond", "milliseconds".
    """
    return _unknown_unit(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)
def _unknown_unit(text: str) -> str | None:
    match = _WITH_UNIT.fullmatch(text)
    if match is None or math.isnan(js_number(match[1])):
        return None
    written = text.rpartition(" ")[2]
    return None if match[2] in _UNITS_MS or written in _MILLISECONDS else written


def looks_like_seconds(value: object) -> bool:
    """Whether a bare number is one that people write when they think in seconds: worth a warning.

    That is a whole number from 1 to 900 (15 minutes). Multiples of 50 pass for milliseconds, save 300, 600 and 900.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not 1 <= value <= _MOST_SECONDS or value % 1:
        return False
    return value % 50 != 0 or value % 300 == 0


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> float:
    number = js_number(text)
    if not math.isnan(number):
        return number
    match = _WITH_UNIT.fullmatch(text)
    if match is None:
        return math.nan
    return js_number(match[1]) * _UNITS_MS.get(match[2], 1)


def js_number(text: str) -> float:
    """Read a text as JavaScript's `Number(text)` does: NaN if it is no number, zero if it is empty."""
    trimmed = text.strip(_JS_SPACES)
    if not trimmed:
        return 0.0
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed)
    if _RADIX.fullmatch(trimmed):
        return _float(int(trimmed, 0))
    return math.nan


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf if number > 0 else -math.inf


def duration_text(length_ms: int) -> str:
    """A length of time, in the two largest units that it fills."""
    if length_ms < 1_000:
        return f"{length_ms} ms"
    if length_ms < 60_000:
        return f"{length_ms / 1000:g} s"
    parts: list[str] = []
    left_ms = length_ms
    for unit, unit_ms in _SHOWN_UNITS_MS:
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
