"""What a token is, how long one can be kept, and who holds it (specification of hooks 1.6, 10.6)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from emulator.domain.attributes import check_attributes
from emulator.domain.hooks import (
    HookRecord,
    HookStage,
    MinRetention,
    TokenKey,
    check_token,
    claim_step,
    min_retention,
    step_name,
)
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DAY_MS
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import HookRetentionTooLong, InvalidAttributes, InvalidHook

NOW_MS = 1_000_000


@pytest.mark.parametrize("token", ["a", " a ", "order:1", "ä/😀", "x" * 512, "ä" * 256])
def test_a_token_is_any_text_that_is_not_blank(token: str) -> None:
    assert check_token(token) == token


@pytest.mark.parametrize(
    "token", ["", " ", "\t\n", None, 1, b"a", ["a"], "x" * 513, "ä" * 257, "\ud800", "a\0", "\x1f"]
)
def test_what_is_no_token(token: object) -> None:
    with pytest.raises(InvalidHook) as refused:
        check_token(token)
    assert refused.value.code == "invalid_hook"
    assert isinstance(refused.value, ValueError)
    assert not refused.value.is_retryable


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1 day", MinRetention(duration_ms=DAY_MS)),
        (1_500, MinRetention(duration_ms=1_500)),
        (0.25, MinRetention(duration_ms=1)),
        (timedelta(hours=1), MinRetention(duration_ms=3_600_000)),
        ("30 days", MinRetention(duration_ms=30 * DAY_MS)),
        (
            datetime.fromtimestamp(NOW_MS / 1000 + 1, UTC),
            MinRetention(until_ms=NOW_MS + 1_000),
        ),
    ],
)
def test_a_retention_is_a_duration_or_an_instant(given: object, kept: MinRetention) -> None:
    assert min_retention(given, NOW_MS) == kept


def test_a_duration_begins_when_it_is_asked_for_and_an_instant_stays() -> None:
    assert MinRetention(duration_ms=5).deadline_ms(NOW_MS) == NOW_MS + 5
    assert MinRetention(until_ms=5).deadline_ms(NOW_MS) == 5


@pytest.mark.parametrize(
    "given",
    [
        0, -1, math.nan, -math.inf, "soon", "", "-1 day", None, True, b"1 day", [1], timedelta(0), "3 dayz",
        datetime(2030, 1, 1),
        datetime.fromtimestamp(NOW_MS / 1000, UTC), datetime(1969, 1, 1, tzinfo=UTC),
    ],
)  # fmt: skip
def test_what_is_no_retention(given: object) -> None:
    with pytest.raises(InvalidHook) as refused:
        min_retention(given, NOW_MS)
    assert refused.value.code == "invalid_hook"


@pytest.mark.parametrize(
    "given", ["31 days", 30 * DAY_MS + 1, math.inf, datetime(2999, 1, 1, tzinfo=UTC)]
)
def test_a_retention_has_a_maximum(given: object) -> None:
    text = r"^\(hook.retention\) Hook minimum retention cannot exceed 30 days$"
    with pytest.raises(HookRetentionTooLong, match=text) as refused:
        min_retention(given, NOW_MS)
    assert refused.value.code == "hook.retention"


def record(stage: HookStage, retain_until_ms: int | None = None) -> HookRecord:
    return HookRecord(
        "hook_1", "orders", "tenant:7", "a", 0, retain_until_ms=retain_until_ms, stage=stage
    )


@pytest.mark.parametrize(
    ("stage", "until_ms", "holds"),
    [
        (HookStage.LIVE, None, True),
        (HookStage.LIVE, NOW_MS - 1, True),
        (HookStage.RETAINED, NOW_MS + 1, True),
        (HookStage.RETAINED, NOW_MS, False),
        (HookStage.RETAINED, None, False),
        (HookStage.RELEASED, NOW_MS + 1, False),
    ],
)
def test_a_token_is_held_by_the_living_and_until_its_retention_is_over(
    stage: HookStage, until_ms: int | None, holds: bool
) -> None:
    assert record(stage, until_ms).holds_at(NOW_MS) is holds


def test_a_record_says_whose_it_is_and_in_which_scope() -> None:
    assert record(HookStage.LIVE).owner == InstanceKey("orders", "tenant:7")
    assert record(HookStage.LIVE).key == TokenKey("tenant", "a")


def test_tokens_and_names_of_hooks_never_meet() -> None:
    names = [step_name("a", None), step_name(None, "a"), step_name(None, None)]
    names += [step_name("hook", None), step_name(None, "token a"), step_name("a", "b")]
    assert len(set(names)) == 5
    assert step_name("a", "b") == step_name("a", None), "a token is name enough"
    assert claim_step("a") == StepKey(StepKind.HOOK, step_name("a", None), 1)


def test_attributes_are_small_texts() -> None:
    given = {"a": "1", "b" * 256: "ä" * 128, "gone": None}
    assert check_attributes(given) == given


@pytest.mark.parametrize(
    "given",
    [
        None, [], "a", {"": "1"}, {1: "1"}, {"$a": "1"}, {"b" * 257: "1"}, {"a": 1}, {"a": b"1"},
        {"a": "ä" * 129}, {"\ud800": "1"}, {"a": "\ud800"}, {str(n): "1" for n in range(65)},
    ],
)  # fmt: skip
def test_what_are_no_attributes(given: object) -> None:
    with pytest.raises(InvalidAttributes) as refused:
        check_attributes(given)
    assert refused.value.code == "invalid_attributes"
    assert refused.value.name == "FatalError"
    assert not refused.value.is_retryable


def test_metadata_is_null_unless_given() -> None:
    assert msgspec.json.decode(record(HookStage.LIVE).metadata) is None
