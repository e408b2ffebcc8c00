"""How the failure of a step reaches the workflow and its status: retries, classes, timeouts, delay functions."""

from __future__ import annotations

import asyncio
import bdb
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from bindings import NonRetryableError, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import (
    HookNotFoundError,
    NonRetryableDelayError,
    RetryableError,
    StepError,
    WorkflowTimeoutError,
)
from tests.unit.bindings.project import (
    AT_ONCE,
    ONCE,
    Project,
    in_virtual_time,
    pause_for,
    refusal_of,
)


class Declined(Exception):
    """A class of the user's."""


class Stop(NonRetryableError):
    """A subclass of another name, which decides on Cloudflare."""


class Foreign(Exception):
    """Stands for a class of this name from anywhere else."""


Foreign.__name__ = "NonRetryableError"


class Coded(NonRetryableError):
    """A subclass whose author has not called our `__init__`."""

    def __init__(self, code: int) -> None:
        self.code_of_the_bank = code


class Numbered(NonRetryableError):
    """A subclass whose message is no text."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.message: Any = code


class Form(RetryableError):
    """A subclass that calls something else `fields`."""

    def __init__(self, fields: Any) -> None:
        super().__init__("invalid")
        self.__dict__["fields"] = fields


class Lazy(RetryableError):
    """A subclass that looks up what it says when it is asked, and does not find it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    def __getattribute__(self, name: str) -> Any:
        if name in ("message", "name", "is_retryable"):
            return self.answer[name]
        return super().__getattribute__(name)


class Renamed(HookNotFoundError):
    """A subclass that takes the name of another class, which has not its fields."""

    name = "TypeError"


class Speechless(Exception):
    """One that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError


REBUILT = [
    (TypeError("t"), TypeError, "TypeError", "t"),
    (ValueError("v"), ValueError, "ValueError", "v"),
    (NonRetryableError("n"), NonRetryableError, "NonRetryableError", "n"),
    (NonRetryableError("s", 51), NonRetryableError, "NonRetryableError", "('s', 51)"),
    (Stop("s"), StepError, "Stop", "s"),
    (Coded(51), StepError, "Coded", "51"),
    (Numbered(51), StepError, "Numbered", "code 51"),
    (StepError("m", cast("str", 42)), StepError, "", "m"),
    (StepError("m", "\ud800"), StepError, "\ufffd", "m"),
    (HookNotFoundError("m", token=cast("str", None)), HookNotFoundError, "HookNotFoundError", "m"),
    (Form(None), StepError, "Form", "invalid"),
    (Form({1: "required"}), StepError, "Form", "invalid"),
    (Lazy({}), StepError, "", "{}"),
    (Renamed("r", token="t"), TypeError, "TypeError", "r"),
    (Speechless(), StepError, "Speechless", "<exception str() failed>"),
    (Declined("card"), StepError, "Declined", "card"),
    (KeyError("k"), StepError, "KeyError", "'k'"),
    (RuntimeError(), StepError, "RuntimeError", ""),
    (ValueError("half \ud83d"), ValueError, "ValueError", "half \ufffd"),
    (SystemExit(3), StepError, "SystemExit", "3"),
    (KeyboardInterrupt(), StepError, "KeyboardInterrupt", ""),
    (asyncio.CancelledError("by hand"), StepError, "CancelledError", "by hand"),
    (
        ExceptionGroup("two", [ValueError("a")]),
        StepError,
        "ExceptionGroup",
        "two (1 sub-exception)",
    ),
]


@pytest.mark.parametrize(("raised", "kind", "name", "message"), REBUILT)
@in_virtual_time
async def test_an_error_is_the_same_live_and_replayed(
    raised: BaseException, kind: type[Exception], name: str, message: str
) -> None:
    seen: list[Exception] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config=ONCE)
        async def fails() -> None:
            raise raised

        seen.append(await refusal_of(fails()))
        await step.sleep("nap", "1 hour")
        raise seen[-1]

    async with Project(run, max_live=0) as project:
        assert await project.error() == (name, message)
    live, replayed = seen
    assert type(live) is type(replayed) is kind
    assert str(live) == str(replayed) == message
    assert live.__cause__ is raised
    assert replayed.__cause__ is None
    if isinstance(live, StepError):
        assert (live.name, live.message) == (name, message)


@in_virtual_time
async def test_a_function_in_a_thread_that_raises_stop_iteration_fails_at_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("finds nothing", config=ONCE)
        def finds_nothing() -> Any:
            return next(iter([]))

        return await finds_nothing()

    async with Project(run) as project:
        began_ms = project.now_ms()
        assert await project.error() == ("RuntimeError", "the step raised StopIteration")
        assert project.now_ms() - began_ms < 1_000


@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
@in_virtual_time
async def test_nothing_that_user_code_raises_ends_the_engine(raised: BaseException) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("blocking", config=AT_ONCE)
        def blocking() -> None:
            raise raised

        def delay(_: JsDict) -> int:
            raise raised

        @step.do("delayed", config={"retries": {"limit": 1, "delay": delay}})
        async def delayed() -> None:
            raise ValueError

        if event["payload"] == "step":
            await blocking()
        if event["payload"] == "delay":
            await delayed()
        if event["payload"] == "run":
            raise raised
        return "fine"

    async with Project(run) as project:
        name = type(raised).__name__
        assert (await project.error(params="step"))[0] == name
        assert (await project.error(params="run"))[0] == name
        assert (await project.error(params="delay"))[0] == "NonRetryableDelayError"
        assert await project.result() == "fine"


@pytest.mark.parametrize(
    ("raised", "attempts"),
    [
        (NonRetryableError(""), 1),
        (NonRetryableError(), 1),
        (NonRetryableError("x", 51), 1),
        (Coded(51), 3),
        (Numbered(51), 3),
        (Speechless(), 3),
        (Stop("x"), 3),
        (Foreign("x"), 1),
        (RuntimeError("a NonRetryableError, they said"), 3),
        (RuntimeError("NonRetryableError: as a text"), 3),
        (TypeError("t"), 3),
        (SystemExit(), 3),
    ],
)
@in_virtual_time
async def test_the_class_decides_whether_there_is_another_attempt(
    raised: BaseException, attempts: int
) -> None:
    counted: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config=AT_ONCE)
        async def fails(ctx: JsDict) -> None:
            counted.append(ctx.attempt)
            raise raised from LookupError("the reason")

        await fails()

    async with Project(run) as project:
        await project.error()
        assert counted == list(range(1, attempts + 1))


@in_virtual_time
async def test_the_reason_of_a_non_retryable_error_survives_unless_the_flag_is_off() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("pay")
        async def pay() -> None:
            raise NonRetryableError("card declined") from ValueError("51")

        if event["payload"] == "caught":
            with pytest.raises(NonRetryableError, match=r"^card declined$"):
                await pay()
            return
        await pay()

    for preserve in (True, False):
        async with Project(run, preserve_non_retryable_message=preserve) as project:
            await project.result(params="caught")
            name, message = await project.error()
            if preserve:
                assert (name, message) == ("NonRetryableError", "card declined")
            else:
                assert name == "WorkflowFatalError"
                assert "a step threw an NonRetryableError and it was not handled" in message


@in_virtual_time
async def test_a_failed_step_is_remembered_and_never_tried_again() -> None:
    bodies: list[None] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config=AT_ONCE)
        async def fails() -> None:
            bodies.append(None)
            raise Declined

        await refusal_of(fails())
        await step.sleep("nap", "1 hour")
        await refusal_of(fails())

    async with Project(run, max_live=0) as project:
        await project.result()
        assert len(bodies) == 6


@pytest.mark.parametrize(
    ("config", "waits"),
    [
        (None, [10, 20, 40, 80, 160]),
        ({"retries": {"limit": 3, "delay": "10 seconds"}}, [10, 20, 40]),
        ({"retries": {"limit": 3, "delay": 10_000, "backoff": "linear"}}, [10, 20, 30]),
        (
            {"retries": {"limit": 3, "delay": timedelta(seconds=10), "backoff": "constant"}},
            [10, 10, 10],
        ),
        ({"retries": {"limit": 0, "delay": 1}}, []),
        ({"timeout": "1 second"}, [10, 20, 40, 80, 160]),
    ],
)
@pytest.mark.parametrize("max_live", [0, 1_000])
@in_virtual_time
async def test_the_limit_counts_retries_and_delays_back_off(
    config: Any, waits: list[int], max_live: int
) -> None:
    moments: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config=config)
        async def fails() -> None:
            moments.append(project.now_ms())
            raise Declined

        await fails()

    async with Project(run, max_live=max_live) as project:
        await project.error()
        gaps = [round((b - a) / 1000) for a, b in pairwise(moments)]
        assert gaps == waits


@in_virtual_time
async def test_a_timeout_is_a_timeout_error_of_each_attempt_and_the_late_result_is_dropped() -> (
    None
):
    late: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do(
            "slow", config={"retries": {"limit": 1, "delay": "1 second"}, "timeout": "2 seconds"}
        )
        async def slow() -> str:
            try:
                await pause_for(10)
            finally:
                late.append("ended")
            return "too late"

        with pytest.raises(TimeoutError) as caught:
            await slow()
        return [type(caught.value).__name__, str(caught.value), project.now_ms() - began_ms]

    async with Project(run) as project:
        began_ms = project.now_ms()
        instance = await project.workflow.create()
        output = (await project.ended(instance))["output"]
        assert output == ["WorkflowTimeoutError", "Execution timed out after 2000ms", 5_000]
        await pause_for(60)
        assert late == ["ended", "ended"]
        assert (await instance.status())["output"] == output


@in_virtual_time
async def test_a_timeout_of_a_wait_is_the_same_live_and_replayed() -> None:
    seen: list[Exception] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        seen.append(await refusal_of(step.wait_for_event("w", "a", timeout="1 minute")))
        await step.sleep("nap", "1 hour")
        raise seen[-1]

    async with Project(run, max_live=0) as project:
        text = "Execution timed out after 60000ms"
        assert await project.error() == ("WorkflowTimeoutError", text)
        assert [type(error) for error in seen] == [WorkflowTimeoutError] * 2
        assert [str(error) for error in seen] == [text] * 2


@pytest.mark.parametrize("is_async", [False, True])
@in_virtual_time
async def test_a_delay_function_gets_context_and_error_and_backoff_applies(is_async: bool) -> None:
    told: list[JsDict] = []
    moments: list[int] = []

    def delay(what: JsDict) -> str:
        told.append(what)
        return f"{what.ctx.attempt} seconds"

    async def delay_later(what: JsDict) -> str:
        await pause_for(1)
        return delay(what)

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        chosen: Callable[[JsDict], Any] = delay_later if is_async else delay

        @step.do("fails", config={"retries": {"limit": 2, "delay": chosen, "backoff": "linear"}})
        async def fails(ctx: JsDict) -> None:
            moments.append(project.now_ms())
            assert "delay" not in ctx.config.retries
            raise Declined(f"attempt {ctx.attempt}")

        await fails()

    async with Project(run) as project:
        assert await project.error() == ("Declined", "attempt 3")
        extra_ms = 1_000 if is_async else 0
        gaps = [b - a for a, b in pairwise(moments)]
        assert gaps == [1_000 + extra_ms, 4_000 + extra_ms]
        assert [set(what) for what in told] == [{"ctx", "error"}] * 2
        assert [str(what.error) for what in told] == ["attempt 1", "attempt 2"]
        assert told[1].ctx.step == {"name": "fails", "count": 1}


async def never(_: JsDict) -> int:
    await pause_for(86_400)
    return 1


def raising(_: JsDict) -> int:
    raise LookupError("no table")


async def raising_later(_: JsDict) -> int:
    raise LookupError("no table")


INVALID = (
    "returned an invalid delay value "
    '(expected a number of ms or a duration string like "30 seconds")'
)


@pytest.mark.parametrize(
    ("delay", "problem", "took_ms"),
    [
        (raising, "threw an error: no table", 0),
        (raising_later, "threw an error: no table", 0),
        (lambda: 1, "threw an error: ", 0),
        (lambda _: None, INVALID, 0),  # type: ignore[misc]
        (lambda _: "soon", INVALID, 0),  # type: ignore[misc]
        (lambda _: -1, INVALID, 0),  # type: ignore[misc]
        (lambda _: float("inf"), INVALID, 0),  # type: ignore[misc]
        (lambda _: {"delay": 1}, INVALID, 0),  # type: ignore[misc]
        (never, "did not return within 5 seconds", 5_000),
    ],
)
@in_virtual_time
async def test_a_delay_function_that_fails_fails_the_step(
    delay: Any, problem: str, took_ms: int
) -> None:
    bodies: list[None] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config={"retries": {"limit": 3, "delay": delay}})
        async def fails() -> None:
            bodies.append(None)
            raise Declined

        error = await refusal_of(fails())
        assert isinstance(error, NonRetryableDelayError)
        return str(error)

    async with Project(run) as project:
        began_ms = project.now_ms()
        text = await project.result()
        assert text.startswith(f'The delay function for step "fails-1" {problem}')
        assert project.now_ms() - began_ms == took_ms
        assert len(bodies) == 1


def cancelling(_: JsDict) -> int:
    raise asyncio.CancelledError


@in_virtual_time
async def test_a_delay_function_may_raise_a_cancellation_after_a_failed_task_group() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fails", config={"retries": {"limit": 3, "delay": cancelling}})
        async def fails() -> None:
            async def decline() -> None:
                raise Declined

            async with asyncio.TaskGroup() as group:
                group.create_task(decline())

        return (await refusal_of(fails())).__class__.__name__

    async with Project(run) as project:
        assert await project.result() == "NonRetryableDelayError"


@in_virtual_time
async def test_a_delay_function_is_not_asked_when_no_attempt_follows() -> None:
    def delay(_: JsDict) -> int:
        raise AssertionError("asked for nothing")

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("once", config={"retries": {"limit": 0, "delay": delay}})
        async def once() -> None:
            raise Declined("once")

        @step.do("stopped", config={"retries": {"limit": 3, "delay": delay}})
        async def stopped() -> None:
            raise NonRetryableError("stopped")

        return [str(await refusal_of(once())), str(await refusal_of(stopped()))]

    async with Project(run) as project:
        assert await project.result() == ["once", "stopped"]


@pytest.mark.parametrize(
    "error", [bdb.BdbQuit(), pytest.fail.Exception("no"), pytest.exit.Exception("stopped")]
)
@in_virtual_time
async def test_what_ends_a_session_is_not_tried_again(error: BaseException) -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("quit")
        async def quits(ctx: JsDict) -> None:
            attempts.append(ctx.attempt)
            raise error

        await quits()

    async with Project(run) as project:
        await project.error()
        assert attempts == [1]
