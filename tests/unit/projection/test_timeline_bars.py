"""Steps on a line of time: where their bars are, and what they have come to."""

from __future__ import annotations

import pytest

from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation
from emulator.domain.status import InstanceStatus
from emulator.domain.values import encode
from emulator.projection.detail import (
    Attempt,
    DoDetail,
    InstanceDetail,
    SleepDetail,
    StepDetail,
    WaitDetail,
)
from emulator.projection.timeline import SHORTEST, WIDTH, Bar, Look, Window, bars, look_of, window

OPEN = Window(1_000, 2_000, is_over=False)
OVER = Window(1_000, 2_000, is_over=True)
BOOM = Failure("Boom", "no")


def do(*attempts: Attempt, end_ms: int | None = None, success: bool | None = None) -> DoDetail:
    return DoDetail(
        "a-1", 1_000, PRODUCTION_DEFAULTS, end_ms=end_ms, success=success, attempts=attempts
    )


def instance(*steps: StepDetail, ended_ms: int | None = None) -> InstanceDetail:
    made = Creation("shop", "o-1", encode({}, "params"), 1_000)
    status = InstanceStatus.RUNNING if ended_ms is None else InstanceStatus.COMPLETE
    return InstanceDetail(made, status, 1_000, 1_000, ended_ms, None, None, None, None, steps)


def test_a_picture_ends_now_or_where_the_instance_ended() -> None:
    assert window(instance(), 5_000) == Window(1_000, 5_000, is_over=False)
    assert window(instance(ended_ms=3_000), 5_000) == Window(1_000, 3_000, is_over=True)


def test_a_picture_is_never_empty() -> None:
    assert window(instance(), 1_000) == Window(1_000, 1_001, is_over=False)
    assert window(instance(), 0) == Window(1_000, 1_001, is_over=False), "the clock was set back"


def test_attempts_and_the_rests_between_them_are_bars() -> None:
    step = do(
        Attempt(1_000, 1_100, False, BOOM), Attempt(1_400, 1_500, True), end_ms=1_500, success=True
    )
    assert bars(step, OPEN) == [
        Bar(0, 100, Look.FAILED),
        Bar(100, 300, Look.RESTING),
        Bar(400, 100, Look.SUCCEEDED),
    ]


def test_what_goes_on_reaches_to_the_end_of_the_picture() -> None:
    assert bars(do(Attempt(1_500)), OPEN) == [Bar(500, 500, Look.RUNNING)]
    retrying = do(Attempt(1_500, 1_600, False, BOOM))
    assert bars(retrying, OPEN) == [Bar(500, 100, Look.FAILED), Bar(600, 400, Look.RESTING)]
    assert bars(SleepDetail("a-1", 1_250, 9_000), OPEN) == [Bar(250, 750, Look.RESTING)]


def test_what_the_end_of_the_instance_has_cut_off_does_not_run() -> None:
    assert bars(do(Attempt(1_500)), OVER) == [Bar(500, 500, Look.LEFT)]


def test_a_bar_can_be_seen_and_stays_inside() -> None:
    [first] = bars(do(Attempt(1_000, 1_000, True), end_ms=1_000, success=True), OPEN)
    [last] = bars(do(Attempt(2_000, 2_000, True), end_ms=2_000, success=True), OPEN)
    assert first == Bar(0, SHORTEST, Look.SUCCEEDED)
    assert last == Bar(WIDTH - SHORTEST, SHORTEST, Look.SUCCEEDED)


def test_a_step_without_an_attempt_has_no_bar() -> None:
    assert bars(do(), OPEN) == []


@pytest.mark.parametrize(
    ("step", "open_look", "over_look"),
    [
        (do(), Look.RESTING, Look.LEFT),
        (do(Attempt(1_000)), Look.RUNNING, Look.LEFT),
        (do(Attempt(1_000, 1_100, False, BOOM)), Look.RESTING, Look.LEFT),
        (do(Attempt(1_000, 1_100, True), success=True), Look.SUCCEEDED, Look.SUCCEEDED),
        (do(Attempt(1_000, 1_100, False, BOOM), success=False), Look.FAILED, Look.FAILED),
        (SleepDetail("a-1", 1_000, 2_000), Look.RESTING, Look.LEFT),
        (SleepDetail("a-1", 1_000, 2_000, end_ms=2_000), Look.SUCCEEDED, Look.SUCCEEDED),
        (WaitDetail("a-1", 1_000, None, "go"), Look.RESTING, Look.LEFT),
        (WaitDetail("a-1", 1_000, None, "go", end_ms=1_500), Look.SUCCEEDED, Look.SUCCEEDED),
        (WaitDetail("a-1", 1_000, 1_500, "go", end_ms=1_500, error=BOOM), Look.FAILED, Look.FAILED),
    ],
)
def test_what_a_step_has_come_to(step: StepDetail, open_look: Look, over_look: Look) -> None:
    assert look_of(step, is_over=False) is open_look
    assert look_of(step, is_over=True) is over_look


def test_a_wait_that_was_in_vain_is_a_failed_bar() -> None:
    wait = WaitDetail("a-1", 1_000, 1_500, "go", end_ms=1_500, error=BOOM)
    assert bars(wait, OPEN) == [Bar(0, 500, Look.FAILED)]
