"""The grammar of durations against a small model that builds texts from what they mean."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from emulator.domain.duration import parse_duration

UNITS_S = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 604800,
    "month": 2592000,
    "year": 31557600,
}

numbers = st.integers(-(10**6), 10**6).map(lambda n: (str(n), float(n))) | st.floats(
    allow_nan=False, allow_infinity=False
).map(lambda x: (repr(x), x))


@given(numbers, st.sampled_from(sorted(UNITS_S)), st.sampled_from(["", "s"]), st.integers(1, 4))
def test_a_number_and_a_unit_multiply(
    number: tuple[str, float], unit: str, plural: str, spaces: int
) -> None:
    text, value = number
    assert parse_duration(f"{text}{' ' * spaces}{unit}{plural}") == value * (UNITS_S[unit] * 1000)


@given(numbers)
def test_a_text_of_a_number_is_that_number(number: tuple[str, float]) -> None:
    text, value = number
    assert parse_duration(text) == parse_duration(value) == value


@given(
    numbers,
    st.from_regex(r"[a-z]+", fullmatch=True).filter(lambda w: w.removesuffix("s") not in UNITS_S),
)
def test_an_unknown_unit_is_a_millisecond(number: tuple[str, float], word: str) -> None:
    assert parse_duration(f"{number[0]} {word}") == number[1]


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(parse_duration(text), float)


@given(numbers, st.sampled_from(sorted(UNITS_S)))
def test_a_space_at_either_end_or_no_space_is_no_duration(
    number: tuple[str, float], unit: str
) -> None:
    for text in (f" {number[0]} {unit}", f"{number[0]} {unit} ", f"{number[0]}{unit}"):
        assert math.isnan(parse_duration(text))
