"""When an expression is due, against a model that looks at every day and minute there is."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.domain.cron import parse_cron

EPOCH = date(1970, 1, 1)
DAY_MS = 86_400_000


def values(first: int, last: int) -> st.SearchStrategy[frozenset[int] | None]:
    """Some values of a field; None is any."""
    return st.none() | st.frozensets(st.integers(first, last), min_size=1, max_size=3)


def text(numbers: frozenset[int] | None) -> str:
    return "*" if numbers is None else ",".join(map(str, numbers))


def is_due_on(
    day: date,
    days: frozenset[int] | None,
    months: frozenset[int] | None,
    weekdays: frozenset[int] | None,
) -> bool:
    if months is not None and day.month not in months:
        return False
    chosen = [
        fits
        for field, fits in (
            (days, days is not None and day.day in days),
            (weekdays, weekdays is not None and day.isoweekday() % 7 + 1 in weekdays),
        )
        if field is not None
    ]
    return any(chosen) or not chosen


@settings(max_examples=80, deadline=None)
@given(
    minutes=values(0, 59),
    hours=values(0, 23),
    days=values(1, 28),
    months=values(1, 12),
    weekdays=values(1, 7),
    at_ms=st.integers(0, 4_102_444_800_000),
)
def test_the_next_tick_is_the_first_that_the_calendar_has(
    minutes: frozenset[int] | None,
    hours: frozenset[int] | None,
    days: frozenset[int] | None,
    months: frozenset[int] | None,
    weekdays: frozenset[int] | None,
    at_ms: int,
) -> None:
    cron = parse_cron(" ".join(map(text, (minutes, hours, days, months, weekdays))))
    times_ms = sorted(
        (hour * 60 + minute) * 60_000
        for hour in hours or range(24)
        for minute in minutes or range(60)
    )
    day = datetime.fromtimestamp(at_ms / 1000, UTC).date()
    expected_ms = None
    while expected_ms is None:
        if is_due_on(day, days, months, weekdays):
            start_ms = (day - EPOCH).days * DAY_MS
            expected_ms = next(
                (start_ms + each for each in times_ms if start_ms + each > at_ms), None
            )
        day += timedelta(days=1)
    assert cron.next_after(at_ms) == expected_ms
    assert cron.last_until(expected_ms) == expected_ms
    assert cron.last_until(expected_ms - 1) <= at_ms


@settings(max_examples=40, deadline=None)
@given(year=st.integers(1971, 2200), month=st.integers(1, 12), offset=st.integers(0, 27))
def test_the_working_day_nearest_to_the_end_is_the_nearest_there_is(
    year: int, month: int, offset: int
) -> None:
    first = date(year, month, 1)
    _, last = monthrange(year, month)
    wanted = last - offset
    working = [day for day in range(1, last + 1) if first.replace(day=day).weekday() < 5]
    # Of two that are equally near there are none: a weekend has a working day on each side.
    nearest = min(working, key=lambda day: abs(day - wanted))
    suffix = f"-{offset}" if offset else ""
    start_ms = (first - EPOCH).days * DAY_MS
    tick_ms = parse_cron(f"0 0 L{suffix}W * *").next_after(start_ms - 1)
    assert tick_ms == start_ms + (nearest - 1) * DAY_MS
