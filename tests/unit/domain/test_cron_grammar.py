"""Cron expressions: Cloudflare's numbering, the calendar, what is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from emulator.domain.cron import parse_cron
from emulator.errors import InvalidCron


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def ticks(cron: str, after: str, count: int) -> list[str]:
    """The next ticks, such as "Fri 2026-11-06 12:00"."""
    expression, at_ms = parse_cron(cron), ms(after)
    found: list[str] = []
    for _ in range(count):
        at_ms = expression.next_after(at_ms)
        found.append(datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%a %Y-%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # Days of the week are 1, Sunday, to 7, Saturday.
        ("0 0 * * 1", "2026-11-01", ["Sun 2026-11-08 00:00", "Sun 2026-11-15 00:00"]),
        ("0 0 * * 7", "2026-11-01", ["Sat 2026-11-07 00:00", "Sat 2026-11-14 00:00"]),
        ("0 0 * * SUN", "2026-11-02", ["Sun 2026-11-08 00:00", "Sun 2026-11-15 00:00"]),
        ("30 9 * * 2-6", "2026-11-06", ["Fri 2026-11-06 09:30", "Mon 2026-11-09 09:30"]),
        ("0 0 * * fri-mon", "2026-11-06", ["Sat 2026-11-07 00:00", "Sun 2026-11-08 00:00"]),
        ("0 0 * * 2/2", "2026-11-01", ["Mon 2026-11-02 00:00", "Wed 2026-11-04 00:00"]),
        ("0 0 * * L", "2026-11-01", ["Sat 2026-11-07 00:00", "Sat 2026-11-14 00:00"]),
        ("59 23 * * 6L", "2026-11-01", ["Fri 2026-11-27 23:59", "Fri 2026-12-25 23:59"]),
        ("0 0 * * 2#1", "2026-11-01", ["Mon 2026-11-02 00:00", "Mon 2026-12-07 00:00"]),
        ("0 0 * * TUE#5", "2026-11-01", ["Tue 2026-12-29 00:00", "Tue 2027-03-30 00:00"]),
        # Minutes, hours, months.
        ("*/30 * * * *", "2026-11-01T10:15", ["Sun 2026-11-01 10:30", "Sun 2026-11-01 11:00"]),
        ("50-10/10 0 * * *", "2026-11-01", ["Sun 2026-11-01 00:10", "Sun 2026-11-01 00:50"]),
        ("5/20 22-1 * * *", "2026-11-01T22:30", ["Sun 2026-11-01 22:45", "Sun 2026-11-01 23:05"]),
        ("0 0 1 JAN,7 *", "2026-11-01", ["Fri 2027-01-01 00:00", "Thu 2027-07-01 00:00"]),
        # The ends of years.
        ("59 23 31 12 *", "2026-11-01", ["Thu 2026-12-31 23:59", "Fri 2027-12-31 23:59"]),
        ("* * * * *", "2026-12-31T23:58:30", ["Thu 2026-12-31 23:59", "Fri 2027-01-01 00:00"]),
        # Leap days, also over 2100, which has none.
        ("0 9 29 2 *", "2028-02-29T09:00", ["Sun 2032-02-29 09:00", "Fri 2036-02-29 09:00"]),
        ("0 0 29 2 *", "2096-03-01", ["Fri 2104-02-29 00:00", "Wed 2108-02-29 00:00"]),
        ("0 0 * 2 2#5", "2072-03-01", ["Mon 2112-02-29 00:00"]),
        # L and W in the month, which stay in it.
        ("0 0 L * *", "2028-01-31", ["Tue 2028-02-29 00:00", "Fri 2028-03-31 00:00"]),
        ("0 0 L-3 * *", "2027-02-01", ["Thu 2027-02-25 00:00", "Sun 2027-03-28 00:00"]),
        ("0 0 LW * *", "2026-05-01", ["Fri 2026-05-29 00:00", "Tue 2026-06-30 00:00"]),
        ("0 0 L-2W * *", "2026-02-01", ["Thu 2026-02-26 00:00", "Mon 2026-03-30 00:00"]),
        ("0 0 15W * *", "2026-02-01", ["Mon 2026-02-16 00:00", "Mon 2026-03-16 00:00"]),
        ("0 0 1W * *", "2026-07-15", ["Mon 2026-08-03 00:00", "Tue 2026-09-01 00:00"]),
        ("0 0 31W * *", "2026-05-01", ["Fri 2026-05-29 00:00", "Fri 2026-07-31 00:00"]),
    ],
)
def test_an_expression_is_due_when_cloudflare_says(
    cron: str, after: str, expected: list[str]
) -> None:
    assert ticks(cron, after, len(expected)) == expected


def test_a_day_that_suits_either_field_will_do() -> None:
    found = ticks("0 12 13 * FRI", "2026-11-01", 8)
    assert [each[4:14] for each in found] == [
        "2026-11-06",
        "2026-11-13",
        "2026-11-20",
        "2026-11-27",
        "2026-12-04",
        "2026-12-11",
        "2026-12-13",
        "2026-12-18",
    ]


@pytest.mark.parametrize("special", ["31", "L", "LW", "15W"])
def test_special_days_too_are_joined_by_or(special: str) -> None:
    alone = {*ticks(f"0 0 {special} * *", "2026-01-01", 4), *ticks("0 0 * * 2#3", "2026-01-01", 4)}
    both = ticks(f"0 0 {special} * 2#3", "2026-01-01", 6)
    assert set(both) <= alone
    assert len(set(both)) == 6


def test_a_field_that_no_month_can_fill_leaves_the_other() -> None:
    assert ticks("0 0 31 2 MON", "2026-02-01", 1) == ["Mon 2026-02-02 00:00"]


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("0 0 * * 0", 'the day of the week "0" is not allowed; expected *, or values, ranges'),
        ("0 0 * * 8", 'the day of the week "8"'),
        ("0 0 * * MONDAY", 'the day of the week "MONDAY"'),
        ("0 0 * * 6#6", 'the day of the week "6#6"'),
        ("0 0 * * 1,L", 'the day of the week "1,L"'),
        ("60 * * * *", 'the minute "60" is not allowed; expected *, or values, ranges and steps of 0 to 59.'),
        ("*/0 * * * *", 'the minute "*/0"'),
        ("*/60 * * * *", 'the minute "*/60"'),
        ("5,* * * * *", 'the minute "5,*"'),
        ("*-5 * * * *", 'the minute "*-5"'),
        ("-5 * * * *", 'the minute "-5"'),
        ("٣ * * * *", 'the minute "٣"'),
        ("* 24 * * *", 'the hour "24"'),
        ("0 0 0 * *", 'the day of the month "0"'),
        ("0 0 32W * *", 'the day of the month "32W"'),
        ("0 0 L-31 * *", 'the day of the month "L-31"'),
        ("0 0 L-0 * *", 'the day of the month "L-0"'),
        ("0 0 3,L * *", 'the day of the month "3,L"'),
        ("0 0 ? * *", 'the day of the month "?"'),
        ("0 0 * 13 *", 'the month "13" is not allowed; expected *, or values, ranges and steps of 1 to 12 or JAN'),
        ("* * * *", "expected five fields"),
        ("0 * * * * *", "expected five fields"),
        ("@daily", "expected five fields"),
        (" * * * * *", "expected five fields"),
        ("*\t* * * *", "expected five fields"),
        ("", "expected five fields"),
        ("0 0 31 11 *", "no year has such a day, so it is never due."),
        ("0 0 30 2 *", "no year has such a day"),
        ("0 0 31 2,4,6 *", "no year has such a day"),
        ("0 0 30W 2 *", "no year has such a day"),
        ("0 0 * * *" + " " * 248, "may have 256 characters, and this one has 257"),
    ],
)  # fmt: skip
def test_what_cloudflare_does_not_take_is_refused_in_words(cron: str, problem: str) -> None:
    with pytest.raises(InvalidCron) as caught:
        parse_cron(cron)
    assert problem in caught.value.message
    assert cron[:40].strip() in caught.value.message


@pytest.fixture(params=["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The machine's time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("after", ["2026-03-07", "2026-03-28", "2026-10-24", "2026-10-31"])
def test_the_zone_of_the_machine_and_its_clock_changes_matter_to_nobody(
    zone: str, after: str
) -> None:
    assert os.environ["TZ"] == zone
    expression, at_ms = parse_cron("30 2,7 * * *"), ms(after)
    found: list[int] = []
    for _ in range(8):
        at_ms = expression.next_after(at_ms)
        found.append(at_ms)
    hours = [(at_ms // 1000 % 86_400) / 3600 for at_ms in found]
    assert hours == [2.5, 7.5] * 4
    assert all(
        later - earlier in (5 * 3_600_000, 19 * 3_600_000) for earlier, later in pairwise(found)
    )


def test_the_last_tick_until_an_instant_may_be_at_that_instant() -> None:
    expression = parse_cron("0 0 LW * MON")
    for tick in ("2026-11-02", "2026-11-09", "2026-11-30", "2026-12-31"):
        tick_ms = ms(tick)
        assert expression.last_until(tick_ms) == tick_ms
        assert expression.last_until(tick_ms + 59_999) == tick_ms
        assert expression.last_until(tick_ms - 1) < tick_ms
        assert expression.next_after(tick_ms - 1) == tick_ms
        assert expression.next_after(tick_ms) > tick_ms
