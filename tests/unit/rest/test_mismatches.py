"""What is said of a body of another shape: where, what was given, what is allowed, in the words of JSON."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.errors import InvalidInput
from wrangler_compat.rest.hooks import WakeUpBody
from wrangler_compat.rest.requests import RemoteInstance, StatusChange, WorkflowUpdate, convert

A_NAME = "a string of 1 to 256 characters"
STATUSES = '"pause", "restart", "resume" or "terminate"'


def restart(**step: object) -> dict[str, object]:
    return {"status": "restart", "from": step}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([1], "got an array; expected an object"),
        (None, "got null; expected an object"),
        ({}, f'"status" is missing; expected {STATUSES}'),
        ({"status": "x"}, f'status: got "x"; expected {STATUSES}'),
        ({"status": "pause", "rollback": 1}, "rollback: got 1; expected true or false"),
        (
            {"status": "pause", "reason": 5},
            "reason: got 5; expected a string of at most 512 characters or null",
        ),
        (
            {"status": "pause", "reason": "x" * 513},
            f'reason: got "{"x" * 78}…; expected a string of at most 512 characters or null',
        ),
        ({"status": "restart", "from": "a"}, 'from: got "a"; expected an object or null'),
        (restart(name=""), f'from.name: got ""; expected {A_NAME}'),
        (restart(count=1), f'from: "name" is missing; expected {A_NAME}'),
        (
            restart(name="a", count="1"),
            'from.count: got "1"; expected a whole number from 1 up',
        ),
        (restart(name="a", count=0), "from.count: got 0; expected a whole number from 1 up"),
        (
            restart(name="a", type={}),
            'from.type: got an object; expected "do", "sleep" or "waitForEvent"',
        ),
        (restart(nam="a"), "from.nam: there is no such key; expected one of: name, count, type"),
    ],
)
def test_what_is_wrong_with_a_change_of_status_is_told(body: object, told: str) -> None:
    assert refusal(body, StatusChange) == f"Invalid input: {told}"


@pytest.mark.parametrize(
    ("body", "shape", "told"),
    [
        ({}, list[RemoteInstance], "got an object; expected an array"),
        (
            [{}, {"instance_retention": {"success_retention": [1]}}],
            list[RemoteInstance],
            "[1].instance_retention.success_retention: got an array; expected a whole number, a string or null",
        ),
        ({"correlationIds": ["a", 1]}, WakeUpBody, "correlationIds[1]: got 1; expected a string"),
        ({"correlationIds": "a"}, WakeUpBody, 'correlationIds: got "a"; expected an array or null'),
        (
            {"class_name": "A", "script_name": "b", "schedules": [{"cron": 1}]},
            WorkflowUpdate,
            "schedules[0].cron: got 1; expected a string of 1 to 256 characters",
        ),
    ],
)
def test_what_is_wrong_inside_an_array_is_told(body: object, shape: Any, told: str) -> None:
    assert refusal(body, shape) == f"Invalid input: {told}"


def refusal(body: object, shape: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        convert(body, shape)
    return caught.value.message
