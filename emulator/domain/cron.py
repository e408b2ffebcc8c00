"""Cron expressions as Cloudflare reads them, and when they are due.

Theory
======
An expression has five fields: minute, hour, day of the month, month, day of the week. Its times are UTC, whatever the
machine's zone is. The grammar is that of Cloudflare's own parser, saffron (Cloudflare: Workers, Cron Triggers), and not
croniter's: days of the week are 1 (Sunday) to 7 (Saturday), a range may wrap, a step may start at a value. So the fields
are read here, into numbers, and croniter, which knows the calendar, is given lines in its own words.

Where both fields of days are restricted, a day that suits either will do. Such an expression is two lines, one for each
field, and the nearer tick counts. (croniter joins by OR too, but not where there is a # or a W.)

The days that croniter has no words for, such as LW, are sought among all days: a day that is another one is passed over.
"""

from __future__ import annotations

import re
from calendar import SATURDAY, SUNDAY, monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from emulator.domain.limits import MAX_CRON_CHARS
from emulator.errors import InvalidCron

_MINUTE_S: Final = 60
_DAY_S: Final = 24 * 60 * _MINUTE_S
_HORIZON_S: Final = 41 * 366 * _DAY_S
"""The rarest date of all is a 29 February of one weekday, which may be 40 years from the next."""

_PART: Final = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", re.ASCII)
_SPECIAL_DAY: Final = re.compile(r"(L(?:-(\d+))?|(\d+))(W?)", re.ASCII)
_SPECIAL_WEEKDAY: Final = re.compile(r"(\w+)(?:L|#([1-5]))", re.ASCII)


class _Field(NamedTuple):
    """A field: what it is called, the values it has, the names of the values from the first on."""

    title: str
    first: int
    last: int
    allowed: str
    names: tuple[str, ...] = ()


_MINUTE: Final = _Field("minute", 0, 59, "0 to 59")
_HOUR: Final = _Field("hour", 0, 23, "0 to 23")
_DAY: Final = _Field("day of the month", 1, 31, "1 to 31, or alone L, LW, L-3, L-3W or 15W")
_MONTH: Final = _Field(
    "month",
    1,
    12,
    "1 to 12 or JAN to DEC",
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_WEEKDAY: Final = _Field(
    "day of the week",
    1,
    7,
    "1 (Sunday) to 7 (Saturday) or SUN to SAT, or alone 6L or 6#2",
    ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
)


class _SpecialDay(NamedTuple):
    """A day that depends on the month: a number of days from its end, or the working day nearest to a date."""

    from_end: bool
    days: int
    to_weekday: bool

    def is_at(self, at_s: int) -> bool:
        """Whether that day is the one of an instant."""
        found = datetime.fromtimestamp(at_s, UTC).date()
        _, last = monthrange(found.year, found.month)
        day = last - self.days if self.from_end else self.days
        if not 1 <= day <= last:
            return False
        return found.day == (
            _nearest_weekday(found.replace(day=day), last) if self.to_weekday else day
        )


def _nearest_weekday(wanted: date, last: int) -> int:
    """The day of the same month, Monday to Friday, that is nearest."""
    if wanted.weekday() == SATURDAY:
        return wanted.day - 1 if wanted.day > 1 else wanted.day + 2
    if wanted.weekday() == SUNDAY:
        return wanted.day + 1 if wanted.day < last else wanted.day - 2
    return wanted.day


@dataclass(frozen=True, slots=True)
class _Line:
    """An expression in croniter's words. With a `day` it is meant for any day, and only the ticks of that one count."""

    text: str
    day: _SpecialDay | None = None

    def neighbour_s(self, at_s: int, *, before: bool) -> int | None:
        """The next tick, or the one before; None if there is none."""
        # Slow to import, and most projects have no schedule.
        from croniter import (  # pyright: ignore[reportMissingTypeStubs]
            CroniterBadDateError,
            croniter,
        )

        ticks = croniter(self.text, float(at_s))
        try:
            found_s = at_s
            while abs(found_s - at_s) < _HORIZON_S:
                found_s = int(ticks.get_prev() if before else ticks.get_next())
                if self.day is None or self.day.is_at(found_s):
                    return found_s
                midnight_s = found_s - found_s % _DAY_S
                ticks.set_current(float(midnight_s if before else midnight_s + _DAY_S - 1))
        except CroniterBadDateError:
            pass
        return None


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression that is due some time. Made by `parse_cron`."""

    text: str
    lines: tuple[_Line, ...]

    def next_after(self, at_ms: int) -> int:
        """The first tick later than an instant."""
        minute_s = at_ms // 1000 // _MINUTE_S * _MINUTE_S
        ticks_s = [line.neighbour_s(minute_s, before=False) for line in self.lines]
        return min(tick_s for tick_s in ticks_s if tick_s is not None) * 1000

    def last_until(self, at_ms: int) -> int:
        """The last tick at an instant or before."""
        minute_s = at_ms // 1000 // _MINUTE_S * _MINUTE_S
        ticks_s = [line.neighbour_s(minute_s + 1, before=True) for line in self.lines]
        return max(tick_s for tick_s in ticks_s if tick_s is not None) * 1000


def parse_cron(text: str) -> Cron:
    """Read an expression (Cloudflare: Workers, Cron Triggers).

    Raises:
        InvalidCron: it is over 256 characters, breaks the grammar, or names only dates that no year has.
    """
    if len(text) > MAX_CRON_CHARS:
        raise InvalidCron(
            f"A cron expression may have {MAX_CRON_CHARS} characters, and this one has {len(text)}: {text[:40]!r}…"
        )
    fields = re.split(" +", text)
    if len(fields) != 5:
        raise _refusal(
            text,
            "expected five fields with spaces between them: minute, hour, day of the month, month, day of the week",
        )
    try:
        lines = _lines(*fields)
    except _WrongFieldError as error:
        raise _refusal(text, str(error)) from None
    lines = tuple(line for line in lines if line.neighbour_s(0, before=False) is not None)
    if not lines:
        raise _refusal(text, "no year has such a day, so it is never due")
    return Cron(text, lines)


class _WrongFieldError(Exception):
    """What is wrong with a field."""

    def __init__(self, field: _Field, given: str) -> None:
        super().__init__(
            f'the {field.title} "{given}" is not allowed; expected *, or values, ranges and steps of {field.allowed}'
        )


def _refusal(text: str, problem: str) -> InvalidCron:
    return InvalidCron(f'The cron expression "{text}" is not valid: {problem}.')


def _lines(minute: str, hour: str, day: str, month: str, weekday: str) -> tuple[_Line, ...]:
    start = f"{_plain(_MINUTE, minute)} {_plain(_HOUR, hour)}"
    months = _plain(_MONTH, month)
    weekdays = _weekdays(weekday)
    special = _special_day(day)
    lines: list[_Line] = []
    if special is not None:
        lines.append(_Line(f"{start} * {months} *", special))
    elif (days := _plain(_DAY, day)) != "*" or weekdays == "*":
        lines.append(_Line(f"{start} {days} {months} *"))
    if weekdays != "*":
        lines.append(_Line(f"{start} * {months} {weekdays}"))
    return tuple(lines)


def _plain(field: _Field, text: str) -> str:
    return "*" if text == "*" else ",".join(str(each) for each in sorted(_numbers(field, text)))


def _special_day(text: str) -> _SpecialDay | None:
    found = _SPECIAL_DAY.fullmatch(text)
    if found is None or (found[3] and not found[4]):
        return None  # a plain number
    days = int(found[2] or found[3] or 0)
    if (found[2] and not 1 <= days <= 30) or (found[3] and not 1 <= days <= 31):
        raise _WrongFieldError(_DAY, text)
    return _SpecialDay(from_end=not found[3], days=days, to_weekday=bool(found[4]))


def _weekdays(text: str) -> str:
    """Days of the week in croniter's words, where Sunday is 0."""
    if text == "*":
        return text
    if text == "L":
        return "6"  # the last day of the week
    if found := _SPECIAL_WEEKDAY.fullmatch(text):
        number = _value(_WEEKDAY, found[1], text) - 1
        return f"{number}#{found[2]}" if found[2] else f"L{number}"
    return ",".join(str(each - 1) for each in sorted(_numbers(_WEEKDAY, text)))


def _numbers(field: _Field, text: str) -> set[int]:
    """The values that a list of values, ranges and steps stands for."""
    size = field.last - field.first + 1
    numbers: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None or (found[1] == "*" and (found[2] or not found[3])):
            raise _WrongFieldError(field, text)
        start = field.first if found[1] == "*" else _value(field, found[1], text)
        end = field.last if found[3] else start
        if found[2]:
            end = _value(field, found[2], text)
        step = int(found[3] or 1)
        if not 1 <= step < size:
            raise _WrongFieldError(field, text)
        # A range whose end is before its start goes on at the first value, such as FRI-MON.
        steps = range(0, (end - start) % size + 1, step)
        numbers |= {field.first + (start - field.first + each) % size for each in steps}
    return numbers


def _value(field: _Field, given: str, text: str) -> int:
    if given.isdecimal():
        number = int(given)
        if field.first <= number <= field.last:
            return number
    elif given.upper() in field.names:
        return field.first + field.names.index(given.upper())
    raise _WrongFieldError(field, text)
