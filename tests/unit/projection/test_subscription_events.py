"""The journal as subscriptions show it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emulator.domain import entries as facts
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import FACTS, Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation
from emulator.domain.names import RESERVED
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import InvalidSubscription
from emulator.projection.events import (
    EVENT_TYPES,
    TERMINAL_EVENTS,
    EventFilter,
    EventLog,
    event_filter,
)

CREATION = Creation("shop", "o-1", msgspec.Raw(b'{"n":1}'), 5)
CONFIG = StepConfig(RetryConfig(2, "[dynamic]"), "1 minute")
SECRET = StepConfig(RetryConfig(2, 100), "1 minute", sensitive="output")
BOOM = Failure("Boom", "no")
BOOM_JSON = {"name": "Boom", "message": "no"}
DO, NAP, WAIT = (StepKey(kind, "a", 2) for kind in (StepKind.DO, StepKind.SLEEP, StepKind.WAIT))
ONE, NOTHING = msgspec.Raw(b"1"), msgspec.Raw(b"null")


def extra(step: StepKey | None, fact: Fact, *before: Fact) -> dict[str, Any] | None:
    """What the event says beside its place, its time and its type."""
    log = EventLog(CREATION)
    for each in before:
        log.event(1, Entry(1, DO, each))
    event = log.event(7, Entry(1_000, step, fact))
    if event is None:
        return None
    common = {"instanceId": "o-1", "eventId": 7, "timestamp": 1_000}
    assert common.items() <= event.items()
    assert event["type"] == EVENT_TYPES[type(fact)]
    return {key: value for key, value in event.items() if key not in (*common, "type")}


def test_every_fact_of_cloudflares_is_shown_and_none_of_ours() -> None:
    assert {fact.event for fact in EVENT_TYPES} == {number for number in FACTS if number < 100}
    assert extra(None, facts.EventReceived("paid")) is None
    assert extra(WAIT, facts.WaitAbandoned()) is None
    own = StepKey(StepKind.DO, f"{RESERVED}own", 1)
    assert extra(own, facts.StepStarted(CONFIG)) is None


def test_a_subscription_without_options_wants_everything() -> None:
    assert event_filter() == EventFilter(0, frozenset(EVENT_TYPES.values()))


@pytest.mark.parametrize("cursor", [0, 7, 2**53 - 1])
def test_a_cursor_is_a_whole_number(cursor: int) -> None:
    assert event_filter(cursor).cursor == cursor


@pytest.mark.parametrize("cursor", [-1, 2**53, 1.0, "1", True])
def test_anything_else_is_no_cursor(cursor: object) -> None:
    with pytest.raises(InvalidSubscription) as caught:
        event_filter(cursor)
    assert repr(cursor) in caught.value.detail


def test_a_filter_is_a_list_of_types() -> None:
    assert event_filter(types=["step_started"]).types == {"step_started"}
    assert event_filter(types=()).types == frozenset()


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ("step_started", "'step_started'"),
        (["step_begun"], "'step_begun'"),
        ([7], "7"),
        ([None], "None"),
    ],
)
def test_anything_else_is_no_filter(types: object, told: str) -> None:
    with pytest.raises(InvalidSubscription) as caught:
        event_filter(types=types)
    assert told in caught.value.detail


def test_every_type_is_one_fact_and_the_terminal_ones_are_among_them() -> None:
    assert len(set(EVENT_TYPES.values())) == len(EVENT_TYPES)
    assert set(EVENT_TYPES.values()) >= TERMINAL_EVENTS


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (facts.WorkflowQueued(), {}),
        (facts.WorkflowStarted(), {"params": {"n": 1}}),
        (facts.WorkflowRunning(), {}),
        (facts.WorkflowSucceeded(ONE), {"output": 1}),
        (facts.WorkflowSucceeded(NOTHING), {}),
        (facts.WorkflowFailed(BOOM), {"error": BOOM_JSON}),
        (facts.WorkflowTerminated(), {}),
        (facts.RollbackStarted(BOOM, 1), {}),
        (facts.RollbackFailed(1, 0), {}),
    ],
)
def test_an_event_of_the_instance(fact: Fact, expected: dict[str, Any]) -> None:
    assert extra(None, fact) == expected


@pytest.mark.parametrize(
    ("step", "fact", "expected"),
    [
        (
            DO,
            facts.StepStarted(CONFIG),
            {
                "config": {
                    "retries": {"limit": 2, "delay": "[dynamic]", "backoff": "exponential"},
                    "timeout": "1 minute",
                }
            },
        ),
        (DO, facts.StepFailed(BOOM), {}),
        (DO, facts.AttemptStarted(3), {"attempt": 3}),
        (DO, facts.AttemptSucceeded(3), {"attempt": 3}),
        (
            DO,
            facts.AttemptFailed(3, BOOM, 100),
            {"attempt": 3, "retryDelayMs": 100, "error": BOOM_JSON},
        ),
        (DO, facts.AttemptFailed(3, BOOM), {"attempt": 3, "error": BOOM_JSON}),
        (NAP, facts.SleepStarted(1_000, 2_000), {"durationMs": 1_000}),
        (NAP, facts.SleepCompleted(), {}),
        (WAIT, facts.WaitStarted("paid", 1, 2), {"eventType": "paid"}),
        (WAIT, facts.WaitCompleted(1, 2, ONE), {}),
        (WAIT, facts.WaitTimedOut(BOOM), {}),
        (DO, facts.RollbackAttemptStarted(1), {"attempt": 1}),
        (DO, facts.RollbackAttemptFailed(1, BOOM), {"attempt": 1, "error": BOOM_JSON}),
        (DO, facts.RollbackStepSucceeded(), {}),
        (DO, facts.RollbackStepFailed(), {}),
        (DO, facts.RollbackStepFailed(BOOM), {"error": BOOM_JSON}),
    ],
)
def test_an_event_of_a_step(step: StepKey, fact: Fact, expected: dict[str, Any]) -> None:
    assert extra(step, fact) == {"stepName": "a-2", **expected}


def test_the_output_of_a_sensitive_step_is_redacted() -> None:
    shown = extra(DO, facts.StepSucceeded(ONE), facts.StepStarted(CONFIG))
    hidden = extra(DO, facts.StepSucceeded(ONE), facts.StepStarted(SECRET))
    assert shown == {"stepName": "a-2", "output": 1}
    assert hidden == {"stepName": "a-2", "output": "[REDACTED]"}


def test_a_rollback_step_shows_the_config_of_its_handler() -> None:
    started = facts.StepStarted(CONFIG, rollback=SECRET)
    event = extra(DO, facts.RollbackStepStarted(), started)
    assert event is not None
    assert event["config"]["retries"]["delay"] == 100
