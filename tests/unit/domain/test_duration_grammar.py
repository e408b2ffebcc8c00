"""Cloudflare's grammar of durations, row by row."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from emulator.domain.duration import (
    duration_ms,
    duration_text,
    js_number,
    looks_like_seconds,
    parse_duration,
    retention_ms,
    unknown_unit,
)
from emulator.domain.limits import DAY_MS, MAX_RETENTION_MS, MAX_SLEEP_MS
from emulator.errors import InvalidDuration, InvalidRetention


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        (0, 0),
        (250, 250),
        (1.5, 1.5),
        (-20, -20),
        (math.inf, math.inf),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (timedelta(seconds=1.5), 1500),
        (timedelta(microseconds=1), 0.001),
        (timedelta(seconds=-1), -1000),
        ("5", 5),
        ("", 0),
        (" ", 0),
        ("\ufeff\u00a07\n", 7),
        ("1e3", 1000),
        (".5", 0.5),
        ("5.", 5),
        ("+5", 5),
        ("0x10", 16),
        ("0X1f", 31),
        ("0b11", 3),
        ("0o17", 15),
        ("0x" + "f" * 400, math.inf),
        ("1e999", math.inf),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1 second", 1000),
        ("2 hours", 7_200_000),
        ("1.5 minutes", 90_000),
        ("5 ms", 5),
        ("5 m", 5),
        ("5 s", 5),
        ("5 min", 5),
        ("1 fortnight", 1),
        ("20 milliseconds", 20),
        ("1 Hour", 1),
        ("0 seconds", 0),
        ("5   seconds", 5000),
        ("-5 seconds", -5000),
        ("1e3 seconds", 1_000_000),
        ("0x10 seconds", 16_000),
        ("Infinity days", math.inf),
        ("1 day", DAY_MS),
        ("2 weeks", 14 * DAY_MS),
        ("1 month", 30 * DAY_MS),
        ("1 year", 31_557_600_000),
        ("\n5 seconds", 5000),
    ],
)
def test_a_duration_is_read_as_cloudflare_reads_it(value: object, expected_ms: float) -> None:
    assert parse_duration(value) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        "5seconds",
        "5s",
        "one hour",
        " 5 seconds",
        "5 seconds ",
        "5\tseconds",
        "1 hour 30 minutes",
        "1,000 seconds",
        "1_000",
        "later",
        "NaN",
        "infinity",
        "inf",
        "-0x10",
        "0x",
        "1e",
        ".",
        "\u0665",
        "5 \u00e9t\u00e9s",
        "5 seconds\n",
        math.nan,
        True,
        False,
        None,
        b"5",
        [],
        datetime(2026, 1, 1),
    ],
)
def test_anything_else_is_not_a_duration(value: object) -> None:
    assert math.isnan(parse_duration(value))
    with pytest.raises(InvalidDuration):
        duration_ms(value, what="the duration")


def test_javascript_trims_other_spaces_than_python() -> None:
    assert js_number("\u20281\u3000") == 1
    assert math.isnan(js_number("\x1f1"))
    assert math.isnan(js_number("\x851"))


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("1 second", 1000),
        (20, 20),
        (0, 0),
        (-20, -20),
        ("-1 second", -1000),
        (1.6, 2),
        ("2.3 seconds", 2300),
        ("365 days", MAX_SLEEP_MS),
        (timedelta(days=365), MAX_SLEEP_MS),
    ],
)
def test_a_duration_is_whole_milliseconds_and_may_be_negative(
    value: object, expected_ms: int
) -> None:
    result = duration_ms(value, what="the duration", maximum_ms=MAX_SLEEP_MS)
    assert result == expected_ms
    assert type(result) is int


def test_a_refused_duration_says_what_was_given_what_is_allowed_and_where() -> None:
    where = 'the duration of sleep "nap"'
    with pytest.raises(InvalidDuration) as caught:
        duration_ms("later", what=where)
    assert caught.value.message == (
        "the duration of sleep \"nap\" cannot be 'later': a duration is a number of milliseconds, "
        'a text such as "10 minutes", or a timedelta'
    )
    with pytest.raises(InvalidDuration) as caught:
        duration_ms("1 year", what=where, maximum_ms=MAX_SLEEP_MS)
    assert caught.value.message == f"{where} cannot be '1 year': the maximum is 365 days"


@pytest.mark.parametrize("value", [math.inf, "Infinity", "-Infinity", "Infinity days"])
def test_an_infinite_duration_is_refused(value: object) -> None:
    with pytest.raises(InvalidDuration, match="a duration is finite"):
        duration_ms(value, what="the duration")


def test_an_infinite_duration_is_over_every_maximum() -> None:
    with pytest.raises(InvalidDuration, match="the maximum is 365 days"):
        duration_ms(math.inf, what="the duration", maximum_ms=MAX_SLEEP_MS)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        (1, 1),
        (5.0, 5),
        ("1 day", DAY_MS),
        (timedelta(days=3), 3 * DAY_MS),
        ("30 days", MAX_RETENTION_MS),
    ],
)
def test_a_retention_is_a_positive_duration(value: object, expected_ms: int) -> None:
    assert retention_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, "", "0", "banana", "-1 day", math.nan, math.inf, "Infinity", True, None]
)
def test_a_bad_retention_has_cloudflares_message(value: object) -> None:
    with pytest.raises(InvalidRetention) as caught:
        retention_ms(value)
    assert caught.value.message == (
        "(body) Duration must be a number or a string in format '{{number}} {{unit}}' "
        "where unit is second(s), minute(s), etc."
    )


@pytest.mark.parametrize("value", ["31 days", MAX_RETENTION_MS + 1, timedelta(days=365)])
def test_a_retention_over_thirty_days_is_refused_with_the_maximum(value: object) -> None:
    with pytest.raises(
        InvalidRetention, match=r"^\(body\) Retention cannot be .*: the maximum is 30 days\n"
    ):
        retention_ms(value)


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("30 secnds", "secnds"),
        ("24 fortnights", "fortnights"),
        ("1 Hour", "Hour"),
        ("5 m", "m"),
        ("1.5   min", "min"),
        ("0x10 secs", "secs"),
    ],
)
def test_a_unit_that_counts_as_milliseconds_by_mistake_is_named(value: str, unit: str) -> None:
    assert unknown_unit(value) == unit
    assert parse_duration(value) == parse_duration(value.split()[0])


@pytest.mark.parametrize(
    "value",
    ["1 second", "2 hours", "1.5 minutes", "3 years", "5 ms", "20 milliseconds", "1 millisecond",
     "5", "", "one fortnight", "5seconds", "1 hour 30 minutes", 5, None, True, timedelta(days=1)],
)  # fmt: skip
def test_other_durations_and_what_is_none_have_no_unknown_unit(value: object) -> None:
    assert unknown_unit(value) is None


@pytest.mark.parametrize("value", [1, 5, 10, 30, 30.0, 60, 90, 120, 300, 600, 900])
def test_numbers_that_people_write_for_seconds_are_noticed(value: object) -> None:
    assert looks_like_seconds(value)


@pytest.mark.parametrize(
    "value",
    [0, -5, 0.5, 1.5, 50, 100, 250, 500, 901, 1000, 60_000, math.nan, math.inf, True, "30", None],
)
def test_numbers_that_pass_for_milliseconds_raise_no_alarm(value: object) -> None:
    assert not looks_like_seconds(value)


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (59_999, "59.999 s"),
        (60_000, "1 min"),
        (61_500, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (86_400_000 + 61_000, "1 d 1 min"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(length_ms: int, text: str) -> None:
    assert duration_text(length_ms) == text
