"""Errors of hooks and runs in steps: which are tried again, when, and what is left of them in a replay (P9)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from bindings import FatalError, NonRetryableError, RetryableError, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import (
    EmulatorError,
    EntityConflictError,
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    HookResumeConflictError,
    HookRetentionTooLong,
    InstanceAlreadyExists,
    InstanceNotFound,
    InvalidAttributes,
    InvalidHook,
    NonRetryableDelayError,
    StepError,
    TypeValidationError,
    WorkflowContextError,
    WorkflowRunCancelledError,
    WorkflowRunFailedError,
    WorkflowRunNotFoundError,
)
from tests.unit.bindings.project import (
    AT_ONCE,
    Project,
    in_virtual_time,
    orders,
    refusal_of,
)

ERRORS: list[tuple[Callable[[], EmulatorError], bool]] = [
    (
        lambda: HookConflictError(token="t", conflicting_run_id="1", conflicting_workflow="orders"),
        False,
    ),
    (lambda: HookNotFoundError(token="t"), True),
    (lambda: HookDisposedError(token="t"), True),
    (lambda: HookResumeConflictError("again"), False),
    (lambda: TypeValidationError("no"), False),
    (lambda: WorkflowContextError("not here"), False),
    (lambda: InvalidHook("bad"), False),
    (lambda: HookRetentionTooLong(), False),
    (lambda: InvalidAttributes("bad"), False),
    (lambda: WorkflowRunNotFoundError(run_id="1"), False),
    (lambda: WorkflowRunCancelledError(run_id="1"), False),
    (
        lambda: WorkflowRunFailedError(run_id="1", error_name="ValueError", error_message="no"),
        False,
    ),
    (lambda: EntityConflictError("completed"), True),
    (lambda: InstanceAlreadyExists("taken"), True),
    (lambda: InstanceNotFound("none"), True),
]


@pytest.mark.parametrize(("make", "is_retried"), ERRORS)
def test_an_error_keeps_class_fields_and_message_in_every_replay(
    make: Callable[[], EmulatorError], is_retried: bool
) -> None:
    attempts = 0
    caught: list[EmulatorError] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("fails", config=AT_ONCE)
        async def fails() -> None:
            nonlocal attempts
            attempts += 1
            raise make()

        error = await refusal_of(fails())
        assert isinstance(error, EmulatorError)
        caught.append(error)
        await step.sleep("nap", "1 hour")

    @in_virtual_time
    async def test() -> None:
        async with Project(run, max_live=0) as project:
            assert await project.result() is None

    test()
    assert attempts == (3 if is_retried else 1)
    assert len(caught) == 2
    for error in caught:
        assert type(error) is type(make())
        assert (error.code, error.name, error.message) == (
            make().code, make().name, make().message,
        )  # fmt: skip
        for field in make().fields:
            assert getattr(error, field) == getattr(make(), field)


def test_fatal_is_non_retryable() -> None:
    assert FatalError is NonRetryableError
    assert issubclass(HookConflictError, EntityConflictError)
    assert issubclass(InvalidHook, ValueError)
    assert issubclass(WorkflowContextError, RuntimeError)


def retries(
    error: Callable[[Project], Exception],
    config: Any,
    delays: list[float],
    kind: type[Exception] = RetryableError,
) -> None:
    """A step that raises this at each attempt is tried again after these delays, in seconds."""
    times: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("fails", config=config)
        async def fails() -> None:
            times.append(project.now_ms())
            raise error(project)

        raised = await refusal_of(fails())
        assert type(raised) is (kind if delays else NonRetryableDelayError)

    @in_virtual_time
    async def test() -> None:
        nonlocal project
        project = Project(run)
        async with project:
            await project.result()

    project: Project
    test()
    assert [(after - before) / 1_000 for before, after in pairwise(times)] == delays


TWICE = {"retries": {"limit": 2, "delay": "1 hour", "backoff": "exponential"}}


@pytest.mark.parametrize(
    ("retry_after", "delay_s"),
    [(5_000, 5), ("2 minutes", 120), (timedelta(hours=3), 10_800), (0, 0), (0.4, 0)],
)
def test_an_error_says_when_its_step_is_tried_again(retry_after: Any, delay_s: float) -> None:
    retries(lambda _: RetryableError("no", retry_after=retry_after), TWICE, [delay_s, delay_s])


def test_it_may_say_an_instant_and_says_a_second_if_nothing() -> None:
    def at(project: Project) -> Exception:
        moment = datetime.fromtimestamp(project.now_ms() / 1_000, UTC) + timedelta(seconds=7)
        return RetryableError("no", retry_after=moment)

    retries(at, TWICE, [7, 7])
    past = datetime(1999, 1, 1, tzinfo=UTC)
    retries(lambda _: RetryableError("no", retry_after=past), TWICE, [0, 0])
    retries(lambda _: RetryableError("no"), TWICE, [1, 1])


class Limited(RetryableError):
    """A subclass whose author has not called our `__init__`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit


def test_a_subclass_that_says_nothing_wants_a_second() -> None:
    retries(lambda _: Limited(5), TWICE, [1, 1], StepError)


def test_it_asks_no_delay_function() -> None:
    def delay(_: Any) -> str:
        raise AssertionError

    config = {"retries": {"limit": 1, "delay": delay}}
    retries(lambda _: RetryableError("no", retry_after=3_000), config, [3])


@pytest.mark.parametrize(
    "wrong", ["soon", -1, math.nan, math.inf, None, "366 days", True, "5 mins"]
)
def test_a_wrong_delay_fails_the_step(wrong: Any) -> None:
    retries(lambda _: RetryableError("no", retry_after=wrong), TWICE, [])


@pytest.mark.parametrize("problem", [KeyError("Retry-After"), asyncio.CancelledError()])
def test_a_delay_that_cannot_be_read_fails_the_step(problem: BaseException) -> None:
    class Throttled(RetryableError):
        def __getattribute__(self, name: str) -> Any:
            if name == "retry_after":
                raise problem
            return super().__getattribute__(name)

    retries(lambda _: Throttled("no"), TWICE, [])


def test_a_naive_datetime_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="time zone"):
        RetryableError("no", retry_after=datetime(2030, 1, 1))


@in_virtual_time
async def test_a_handler_that_says_when_is_tried_again_then() -> None:
    times: list[int] = []

    async def release() -> None:
        times.append(project.now_ms())
        if len(times) < 3:
            raise RetryableError("not yet", retry_after="90 seconds")

    async def run(event: JsDict, step: WorkflowStep) -> None:
        @step.do("reserve", rollback=release, rollback_config=TWICE)
        async def reserve() -> None:
            return None

        await reserve()
        raise FatalError("on purpose")

    async with Project(run) as project:
        await project.error()
        assert [time - times[0] for time in times] == [0, 90_000, 180_000]


@in_virtual_time
async def test_a_conflict_of_create_in_a_step_is_not_tried_again() -> None:
    attempts = 0

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"].get("sleeps"):
            return await step.sleep("nap", "1 day")

        @step.do("create", config=AT_ONCE)
        async def create() -> None:
            nonlocal attempts
            attempts += 1
            await orders().create(hook="t")

        with pytest.raises(HookConflictError) as refused:
            await create()
        return refused.value.conflicting_run_id

    async with Project(run) as project:
        owner = await project.workflow.create(hook="t", params={"sleeps": True})
        assert await project.result() == owner.id
    assert attempts == 1
