"""How a `do` step is tried: retries, timeout, sensitivity.

The schema is strict, as Cloudflare's is: a key that it does not know, or one half of `retries`, refuses the step before
anything of it runs. Two rules are stricter than the local engine's: `retries.limit` has production's maximum, and a
text that is a negative or infinite delay, or an infinite timeout, is refused at once and not at the first retry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Final, Literal, TypeGuard, cast

import msgspec

from emulator.domain.duration import js_number, parse_duration
from emulator.domain.limits import MAX_RETRY_DELAY_MS, MAX_SAFE_INTEGER, MAX_STEP_RETRIES
from emulator.domain.names import plain_text
from emulator.errors import InvalidStepConfig

DYNAMIC_DELAY: Final = "[dynamic]"
"""What is stored for a delay that is a function (Cloudflare's marker)."""


class RetryConfig(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`delay` as the user wrote it (milliseconds or a duration text), or "[dynamic]" for a function."""

    limit: int | float
    delay: int | float | str
    backoff: str = "exponential"


class StepConfig(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A resolved config: every default filled in, values as the user wrote them."""

    retries: RetryConfig
    timeout: int | float | str
    sensitive: str | None = None


PRODUCTION_DEFAULTS: Final = StepConfig(RetryConfig(limit=5, delay=10_000), timeout="10 minutes")
"""Measured on Cloudflare: six attempts, the second after 10 s."""

FAST_DEFAULTS: Final = StepConfig(RetryConfig(limit=5, delay=1_000), timeout="10 minutes")
"""Those of Cloudflare's local engine: the second attempt after 1 s."""

_BACKOFFS: Final = ("constant", "linear", "exponential")
_MOST_DOUBLINGS: Final = 64


def resolve_config(
    given: Mapping[str, object] | None,
    defaults: StepConfig,
    step_name: str,
    subject: Literal["Step", "Rollback"] = "Step",
) -> StepConfig:
    """Check a config and fill in the defaults (Cloudflare: Workers API, WorkflowStepConfig).

    `retries.delay` may be a function. A timedelta becomes milliseconds.

    Raises:
        InvalidStepConfig: with Cloudflare's text, and what is wrong in `.detail`.
    """
    if given is None:
        return defaults
    try:
        config = _mapping(given, "config", {"retries", "timeout", "sensitive"})
        return StepConfig(
            retries=_retries(config["retries"]) if "retries" in config else defaults.retries,
            timeout=_timeout(config["timeout"]) if "timeout" in config else defaults.timeout,
            sensitive=_sensitive(config["sensitive"]) if "sensitive" in config else None,
        )
    except _Wrong as wrong:
        raise InvalidStepConfig(
            f'{subject} config for "{step_name}" is in a invalid format. '
            "See https://developers.cloudflare.com/workflows/build/sleeping-and-retrying/",
            detail=str(wrong),
        ) from None


def timeout_ms(config: StepConfig) -> int:
    """How long an attempt may take, in milliseconds; beyond `MAX_SAFE_INTEGER` that is for ever."""
    return _limit_ms(config.timeout)


@lru_cache(maxsize=1024)  # every attempt asks, and a project has few
def _limit_ms(timeout: float | str) -> int:
    return max(0, round(min(parse_duration(timeout), MAX_SAFE_INTEGER)))


def retry_delay_ms(config: StepConfig, attempt: int, base_ms: float | None = None) -> int:
    """How long to wait after a failed attempt (the first is 1), in milliseconds.

    `base_ms` is what a delay function has returned; backoff applies to it too. No jitter.
    """
    if base_ms is None:
        base_ms = parse_duration(config.retries.delay)
    match config.retries.backoff:
        case "constant":
            delay_ms = base_ms
        case "linear":
            delay_ms = base_ms * attempt
        case _:
            delay_ms = base_ms * 2 ** min(attempt - 1, _MOST_DOUBLINGS)
    return round(min(delay_ms, MAX_RETRY_DELAY_MS))


def has_attempt_left(config: StepConfig, attempt: int) -> bool:
    """Whether another attempt follows when this one fails: the limit counts retries, not attempts."""
    return attempt <= config.retries.limit


class _Wrong(Exception):
    """What is wrong with a config, in words."""


def _mapping(value: object, path: str, known: set[str]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _Wrong(f"{path} must be a dictionary, not {value!r}")
    keys = cast("Mapping[str, object]", value)
    for key in keys:
        if key not in known:
            raise _Wrong(f"{path} has no key {key!r}; there are: {', '.join(sorted(known))}")
    return keys


def _retries(value: object) -> RetryConfig:
    retries = _mapping(value, "retries", {"limit", "delay", "backoff"})
    for key in ("limit", "delay"):
        if key not in retries:
            raise _Wrong(f"retries needs both limit and delay; {key} is missing")
    backoff = retries.get("backoff", "exponential")
    if backoff not in _BACKOFFS:
        raise _Wrong(f"retries.backoff must be one of {', '.join(_BACKOFFS)}, not {backoff!r}")
    return RetryConfig(
        _limit(retries["limit"]), _delay(retries["delay"]), plain_text(cast("str", backoff))
    )


def _limit(value: object) -> int | float:
    if not _is_number(value) or not 0 <= value <= MAX_STEP_RETRIES:
        raise _Wrong(f"retries.limit must be a number from 0 to {MAX_STEP_RETRIES}, not {value!r}")
    return _plain_number(value)


def _delay(value: object) -> int | float | str:
    if callable(value):
        return DYNAMIC_DELAY
    plain = _plain(value)
    if plain is not None and 0 <= parse_duration(plain) < math.inf:
        return plain
    raise _Wrong(
        "retries.delay must be a number of milliseconds from 0, "
        f'a text such as "10 seconds", a timedelta, or a function, not {value!r}'
    )


def _timeout(value: object) -> int | float | str:
    plain = _plain(value)
    # Cloudflare compares texts with `== 0`: "0" and "" are refused, "0 seconds" and "-5 seconds" time out at once.
    if isinstance(plain, str):
        if math.isfinite(parse_duration(plain)) and js_number(plain) != 0:
            return plain
    elif plain is not None and 0 < parse_duration(plain) < math.inf:
        return plain
    raise _Wrong(
        "timeout must be a number of milliseconds above 0, "
        f'a text such as "10 minutes", or a timedelta, not {value!r}'
    )


def _sensitive(value: object) -> str:
    if value != "output":
        raise _Wrong(f'sensitive must be "output", not {value!r}')
    return "output"


def _plain(value: object) -> int | float | str | None:
    """A duration as it is stored; None if it can be none."""
    if isinstance(value, timedelta):
        return round(parse_duration(value))
    if isinstance(value, str):
        return plain_text(value)
    return _plain_number(value) if _is_number(value) else None


def _plain_number(value: float) -> int | float:
    """A number as what it is, whatever its class; beyond what JavaScript counts exactly it is one of its numbers."""
    if isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER:
        return int.__int__(value)
    return float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
