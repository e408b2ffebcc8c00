"""The schema of a step's config, its defaults, and the arithmetic of retries."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import pytest

from emulator.domain.config import (
    FAST_DEFAULTS,
    PRODUCTION_DEFAULTS,
    RetryConfig,
    StepConfig,
    has_attempt_left,
    resolve_config,
    retry_delay_ms,
    timeout_ms,
)
from emulator.domain.limits import MAX_RETRY_DELAY_MS
from emulator.errors import InvalidStepConfig


def resolve(given: Any) -> StepConfig:
    return resolve_config(given, PRODUCTION_DEFAULTS, "work")


def retrying(backoff: str, delay: int | float | str = 10_000, limit: float = 5) -> StepConfig:
    return StepConfig(RetryConfig(limit, delay, backoff), "10 minutes")


def detail(given: Any) -> str:
    with pytest.raises(InvalidStepConfig) as caught:
        resolve(given)
    return caught.value.detail


def test_no_config_is_the_defaults_themselves() -> None:
    assert resolve(None) is PRODUCTION_DEFAULTS
    assert resolve({}) == PRODUCTION_DEFAULTS


@pytest.mark.parametrize(
    ("given", "stored"),
    [(5, "5"), (5.0, "5.0"), (2**53 - 1, "9007199254740991"), (2**53, "9007199254740992.0")],
)
def test_a_number_stays_what_it_is_as_far_as_javascript_counts_exactly(
    given: float, stored: str
) -> None:
    config = resolve({"retries": {"limit": 1, "delay": given}, "timeout": given})
    assert [repr(config.retries.delay), repr(config.timeout)] == [stored, stored]


def test_the_defaults_are_cloudflares() -> None:
    assert StepConfig(RetryConfig(5, 10_000, "exponential"), "10 minutes") == PRODUCTION_DEFAULTS
    assert StepConfig(RetryConfig(5, 1_000, "exponential"), "10 minutes") == FAST_DEFAULTS


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"timeout": "1 week"}, StepConfig(PRODUCTION_DEFAULTS.retries, "1 week")),
        ({"timeout": "1 year"}, StepConfig(PRODUCTION_DEFAULTS.retries, "1 year")),
        ({"timeout": 0.5}, StepConfig(PRODUCTION_DEFAULTS.retries, 0.5)),
        ({"timeout": "0 seconds"}, StepConfig(PRODUCTION_DEFAULTS.retries, "0 seconds")),
        ({"timeout": "-5 seconds"}, StepConfig(PRODUCTION_DEFAULTS.retries, "-5 seconds")),
        ({"timeout": timedelta(minutes=5)}, StepConfig(PRODUCTION_DEFAULTS.retries, 300_000)),
        ({"sensitive": "output"}, StepConfig(PRODUCTION_DEFAULTS.retries, "10 minutes", "output")),
        ({"retries": {"limit": 0, "delay": 0}}, retrying("exponential", 0, 0)),
        ({"retries": {"limit": 1.5, "delay": 1}}, retrying("exponential", 1, 1.5)),
        ({"retries": {"limit": 10_000, "delay": 1}}, retrying("exponential", 1, 10_000)),
        (
            {"retries": {"limit": 1, "delay": "5 fortnights"}},
            retrying("exponential", "5 fortnights", 1),
        ),
        ({"retries": {"limit": 1, "delay": "5"}}, retrying("exponential", "5", 1)),
        (
            {"retries": {"limit": 1, "delay": "1.5 seconds"}},
            retrying("exponential", "1.5 seconds", 1),
        ),
        ({"retries": {"limit": 1, "delay": "5 Seconds"}}, retrying("exponential", "5 Seconds", 1)),
        ({"retries": {"limit": 1, "delay": ""}}, retrying("exponential", "", 1)),
        (
            {"retries": {"limit": 1, "delay": timedelta(seconds=2)}},
            retrying("exponential", 2000, 1),
        ),
        ({"retries": {"limit": 1, "delay": lambda: 5}}, retrying("exponential", "[dynamic]", 1)),
        ({"retries": {"limit": 1, "delay": 1, "backoff": "linear"}}, retrying("linear", 1, 1)),
        ({"retries": {"limit": 1, "delay": 1, "backoff": "constant"}}, retrying("constant", 1, 1)),
    ],
)
def test_a_good_config_is_filled_in_and_kept_as_it_was_written(
    given: Mapping[str, object], resolved: StepConfig
) -> None:
    assert resolve(given) == resolved


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"retry": 3}, "config has no key 'retry'; there are: retries, sensitive, timeout"),
        ({1: 3}, "config has no key 1;"),
        ([], "config must be a dictionary, not []"),
        ({"retries": None}, "retries must be a dictionary, not None"),
        ({"retries": 3}, "retries must be a dictionary, not 3"),
        ({"retries": {}}, "retries needs both limit and delay; limit is missing"),
        ({"retries": {"limit": 1}}, "retries needs both limit and delay; delay is missing"),
        ({"retries": {"delay": 1}}, "retries needs both limit and delay; limit is missing"),
        ({"retries": {"limit": 1, "delay": 1, "jitter": True}}, "retries has no key 'jitter'"),
        (
            {"retries": {"limit": 1, "delay": 1, "backoff": "cubic"}},
            "retries.backoff must be one of",
        ),
        ({"retries": {"limit": 1, "delay": 1, "backoff": None}}, "retries.backoff must be one of"),
        ({"retries": {"limit": -1, "delay": 1}}, "retries.limit must be a number from 0 to 10000"),
        ({"retries": {"limit": "3", "delay": 1}}, "retries.limit must be"),
        ({"retries": {"limit": True, "delay": 1}}, "retries.limit must be"),
        ({"retries": {"limit": math.nan, "delay": 1}}, "retries.limit must be"),
        ({"retries": {"limit": math.inf, "delay": 1}}, "retries.limit must be"),
        ({"retries": {"limit": 10_001, "delay": 1}}, "retries.limit must be"),
        ({"retries": {"limit": 1, "delay": -5}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "soon"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "5seconds"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "5s"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "1 minute 30 seconds"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "-5 seconds"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": "Infinity"}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": math.inf}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": math.nan}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": True}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": None}}, "retries.delay must be"),
        ({"retries": {"limit": 1, "delay": timedelta(seconds=-1)}}, "retries.delay must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": -1}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": None}, "timeout must be"),
        ({"timeout": "0"}, "timeout must be"),
        ({"timeout": ""}, "timeout must be"),
        ({"timeout": "0x0"}, "timeout must be"),
        ({"timeout": "never"}, "timeout must be"),
        ({"timeout": "Infinity"}, "timeout must be"),
        ({"timeout": math.inf}, "timeout must be"),
        ({"timeout": math.nan}, "timeout must be"),
        ({"timeout": timedelta(0)}, "timeout must be"),
        ({"sensitive": "input"}, "sensitive must be \"output\", not 'input'"),
        ({"sensitive": None}, "sensitive must be"),
    ],
)
def test_a_bad_config_is_refused_and_the_detail_says_why(given: object, reason: str) -> None:
    assert detail(given).startswith(reason)


@pytest.mark.parametrize("subject", ["Step", "Rollback"])
def test_a_bad_config_has_cloudflares_message(subject: Literal["Step", "Rollback"]) -> None:
    with pytest.raises(InvalidStepConfig) as caught:
        resolve_config({"retry": 3}, PRODUCTION_DEFAULTS, "configured", subject)
    assert caught.value.message == (
        f'{subject} config for "configured" is in a invalid format. '
        "See https://developers.cloudflare.com/workflows/build/sleeping-and-retrying/"
    )
    assert caught.value.name == "WorkflowFatalError"


def test_the_traceback_of_a_bad_config_says_what_is_wrong() -> None:
    with pytest.raises(InvalidStepConfig) as caught:
        resolve({"timeout": "never"})
    assert caught.value.detail in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("backoff", "delays_s"),
    [
        ("constant", [10, 10, 10, 10, 10]),
        ("linear", [10, 20, 30, 40, 50]),
        ("exponential", [10, 20, 40, 80, 160]),
    ],
)
def test_delays_grow_as_the_backoff_says(backoff: str, delays_s: list[int]) -> None:
    config = retrying(backoff)
    assert [retry_delay_ms(config, attempt) for attempt in range(1, 6)] == [
        delay_s * 1000 for delay_s in delays_s
    ]


def test_backoff_applies_to_what_a_delay_function_returned() -> None:
    config = retrying("exponential", "[dynamic]")
    assert [retry_delay_ms(config, attempt, 10.0) for attempt in (1, 2, 3)] == [10, 20, 40]
    assert retry_delay_ms(config, 1, 0) == 0


def test_a_delay_in_words_is_whole_milliseconds() -> None:
    assert retry_delay_ms(retrying("linear", "1.5 seconds"), 3) == 4500
    assert retry_delay_ms(retrying("constant", 0.6), 1) == 1


@pytest.mark.parametrize("backoff", ["linear", "exponential"])
def test_no_delay_outgrows_its_maximum(backoff: str) -> None:
    assert retry_delay_ms(retrying(backoff, 1e308), 10_000) == MAX_RETRY_DELAY_MS


def test_a_tiny_delay_doubles_up_to_the_maximum() -> None:
    assert retry_delay_ms(retrying("exponential", 1), 10_000) == MAX_RETRY_DELAY_MS
    assert retry_delay_ms(retrying("exponential", 0), 10_000) == 0


@pytest.mark.parametrize(
    ("timeout", "expected_ms"),
    [("10 minutes", 600_000), (200, 200), (0.5, 0), ("0 seconds", 0), ("-5 seconds", 0)],
)
def test_a_timeout_is_whole_milliseconds_from_zero(
    timeout: int | float | str, expected_ms: int
) -> None:
    assert timeout_ms(StepConfig(PRODUCTION_DEFAULTS.retries, timeout)) == expected_ms


@pytest.mark.parametrize(("limit", "attempts"), [(0, 1), (1, 2), (1.5, 2), (2, 3), (5, 6)])
def test_the_limit_counts_retries_after_the_first_attempt(limit: float, attempts: int) -> None:
    config = retrying("constant", limit=limit)
    assert [has_attempt_left(config, attempt) for attempt in range(1, attempts + 1)] == (
        [True] * (attempts - 1) + [False]
    )
