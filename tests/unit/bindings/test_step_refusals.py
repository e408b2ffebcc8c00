"""What `step` refuses: the exception, Cloudflare's text where it has one, and that nothing was tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.limits import DAY_MS
from emulator.domain.values import JsDict
from emulator.errors import (
    InvalidDuration,
    InvalidEventType,
    InvalidStep,
    InvalidStepConfig,
    InvalidStepName,
    PastWakeTime,
    PayloadTooLarge,
    SerializationError,
    StepLimitReached,
    WorkflowTimeoutError,
)
from tests.unit.bindings.project import ONCE, Project, in_virtual_time, refusal_of

MIB = 2**20
BAD_NAMES = ["a\nb", "\x00", "\x1f", "a" * 257, "\U0001f600" * 129, 5, b"a"]
CONFIG_HELP = "See https://developers.cloudflare.com/workflows/build/sleeping-and-retrying/"
Call = Callable[[WorkflowStep], Awaitable[Any]]


async def refused(call: Call, **options: Any) -> Exception:
    """What a call on `step` raises; the workflow goes on, and its journal has no step."""
    caught: list[Exception] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        caught.append(await refusal_of(call(step)))
        return "went on"

    async with Project(run, **options) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["output"] == "went on"
        assert not [step for _, step in await project.history(instance) if step]
    [error] = caught
    return error


async def one() -> int:
    return 1


@pytest.mark.parametrize("name", BAD_NAMES)
@in_virtual_time
async def test_a_bad_name_refuses_every_kind_of_step(name: Any) -> None:
    calls: list[Call] = [
        lambda step: step.do(name)(one)(),
        lambda step: step.sleep(name, 1),
        lambda step: step.sleep_until(name, 2**42),
        lambda step: step.wait_for_event(name, "type"),
        lambda step: step.with_rollback(name)(one)(),
    ]
    for call in calls:
        error = await refused(call)
        assert isinstance(error, InvalidStepName)
        text = f'Step name "{name}" exceeds max length (256 chars) or invalid characters found'
        assert str(error) == text


@pytest.mark.parametrize("name", ["", "a" * 256, "\U0001f600" * 128, "a b/ü\x7f", "__proto__"])
@in_virtual_time
async def test_any_other_name_is_a_name(name: str) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep(name, 0)
        return await step.do(name)(one)()

    async with Project(run) as project:
        assert await project.result() == 1


@pytest.mark.parametrize(
    "config",
    [
        {"retries": {"limit": 1}},
        {"retries": {"delay": 1}},
        {"retries": {"limit": 1, "delay": 1, "jitter": 1}},
        {"retries": {"limit": -1, "delay": 1}},
        {"retries": {"limit": float("nan"), "delay": 1}},
        {"retries": {"limit": float("inf"), "delay": 1}},
        {"retries": {"limit": 10_001, "delay": 1}},
        {"retries": {"limit": "1", "delay": 1}},
        {"retries": {"limit": True, "delay": 1}},
        {"retries": {"limit": 1, "delay": -1}},
        {"retries": {"limit": 1, "delay": "banana"}},
        {"retries": {"limit": 1, "delay": "5seconds"}},
        {"retries": {"limit": 1, "delay": None}},
        {"retries": {"limit": 1, "delay": 1, "backoff": "fibonacci"}},
        {"retries": 3},
        {"timeout": 0},
        {"timeout": "0"},
        {"timeout": -1},
        {"timeout": "x"},
        {"timeout": float("inf")},
        {"timeout": None},
        {"sensitive": "input"},
        {"limit": 3},
        "10 seconds",
        [],
    ],
)
@in_virtual_time
async def test_a_bad_config_is_refused_for_the_step_and_for_its_rollback(config: Any) -> None:
    error = await refused(lambda step: step.do("s", config=config)(one)())
    assert isinstance(error, InvalidStepConfig)
    assert str(error) == f'Step config for "s" is in a invalid format. {CONFIG_HELP}'
    assert error.detail
    error = await refused(
        lambda step: step.do("s", rollback=one, rollback_config=config)(lambda: 1)()
    )
    assert isinstance(error, InvalidStepConfig)
    assert str(error) == f'Rollback config for "s" is in a invalid format. {CONFIG_HELP}'


@pytest.mark.parametrize("handler", ["release", 1, {"rollback": one}, []])
@in_virtual_time
async def test_a_rollback_must_be_a_function(handler: Any) -> None:
    error = await refused(lambda step: step.do("s", rollback=handler)(one)())
    assert isinstance(error, InvalidStep)
    assert str(error) == 'Rollback for "s" must be a function'


@in_virtual_time
async def test_a_rollback_config_needs_a_rollback() -> None:
    error = await refused(lambda step: step.do("s", rollback_config=ONCE)(one)())
    assert isinstance(error, InvalidStep)
    assert str(error) == 'Rollback for "s" must be a function'


@in_virtual_time
async def test_a_rollback_takes_only_what_it_can_be_given() -> None:
    async def release(output: Any, order: Any) -> None: ...

    error = await refused(lambda step: step.do("s", rollback=release)(one)())
    assert isinstance(error, InvalidStep)
    assert 'Rollback for "s" takes order; it can take ctx, error, output' in str(error)


@pytest.mark.parametrize("function", ["one", None, 1, {}])
@in_virtual_time
async def test_a_step_must_be_a_function(function: Any) -> None:
    error = await refused(lambda step: step.do("s")(function)())
    assert isinstance(error, InvalidStep)
    assert str(error) == 'Step "s" requires a callback function'


@in_virtual_time
async def test_a_decorator_without_parentheses_says_how_to_write_it() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        step.do(one)  # type: ignore[arg-type]

    async with Project(run) as project:
        name, message = await project.error()
        assert name == "TypeError"
        assert "Write @step.do()" in message


@pytest.mark.parametrize(
    "duration", ["banana", "5seconds", "one hour", None, True, [], float("nan"), "1 hour 5 minutes"]
)
@in_virtual_time
async def test_what_is_no_duration_is_refused(duration: Any) -> None:
    error = await refused(lambda step: step.sleep("nap", duration))
    assert isinstance(error, InvalidDuration)
    assert 'the duration of sleep "nap"' in str(error)
    if duration:
        error = await refused(lambda step: step.wait_for_event("w", "type", timeout=duration))
        assert isinstance(error, InvalidDuration)
        assert 'the timeout of wait "w"' in str(error)


@pytest.mark.parametrize("duration", ["366 days", 365 * DAY_MS + 1, "Infinity", timedelta(366)])
@in_virtual_time
async def test_nothing_rests_for_more_than_a_year(duration: Any) -> None:
    error = await refused(lambda step: step.sleep("nap", duration))
    assert isinstance(error, InvalidDuration)
    assert "the maximum is 365 days" in str(error)
    error = await refused(lambda step: step.wait_for_event("w", "type", timeout=duration))
    assert isinstance(error, InvalidDuration)


@in_virtual_time
async def test_a_wait_has_no_negative_timeout() -> None:
    error = await refused(lambda step: step.wait_for_event("w", "type", timeout="-5 seconds"))
    assert isinstance(error, InvalidDuration)
    assert "must not be negative" in str(error)


@pytest.mark.parametrize(
    ("duration", "rest_ms"),
    [
        (250, 250),
        ("250", 250),
        ("250 seconds", 250_000),
        ("1.5 minutes", 90_000),
        (timedelta(seconds=2), 2_000),
        ("365 days", 365 * DAY_MS),
        (0, 0),
        (-1, 0),
        ("-5 seconds", 0),
    ],
)
@in_virtual_time
async def test_a_bare_number_is_milliseconds(duration: Any, rest_ms: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", duration)

    async with Project(run) as project:
        instance = await project.workflow.create()
        began_ms = project.now_ms()
        await project.ended(instance)
        assert project.now_ms() - began_ms == rest_ms


@pytest.mark.parametrize("falsy", [None, 0, "", timedelta(0)])
@in_virtual_time
async def test_a_wait_without_a_timeout_has_a_day(falsy: Any) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        with pytest.raises(WorkflowTimeoutError) as caught:
            await step.wait_for_event("w", "type", timeout=falsy)
        return str(caught.value)

    async with Project(run) as project:
        assert await project.result() == f"Execution timed out after {DAY_MS}ms"


@pytest.mark.parametrize("instant", ["2026-01-01", None, True, float("nan"), float("inf"), 2**60])
@in_virtual_time
async def test_what_is_no_instant_is_refused(instant: Any) -> None:
    error = await refused(lambda step: step.sleep_until("nap", instant))
    assert isinstance(error, InvalidDuration)
    assert 'the instant of sleep "nap"' in str(error)


@in_virtual_time
async def test_a_past_instant_is_refused_and_this_very_one_is_not() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        now_ms = event["payload"]
        moments = [now_ms - 1, datetime.fromtimestamp((now_ms - 1) / 1000), now_ms // 1000]
        errors = [await refusal_of(step.sleep_until("nap", past)) for past in moments]
        await step.sleep_until("nap", now_ms)
        assert [type(error) for error in errors] == [PastWakeTime] * 3
        assert "time.time() gives seconds" in errors[0].__notes__[0]
        return str(errors[0])

    async with Project(run) as project:
        text = await project.result(params=project.now_ms())
        assert text == "You can't sleep until a time in the past, time-traveler"


@pytest.mark.parametrize("excess_ms", [0, 1])
@in_virtual_time
async def test_an_instant_is_at_most_a_year_away(excess_ms: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep_until("far", event["payload"] + 365 * DAY_MS + excess_ms)

    async with Project(run) as project:
        status = await project.outcome(params=project.now_ms())
        if excess_ms:
            assert "the maximum is 365 days" in status["error"]["message"]
        else:
            assert status["status"] == "complete"


@pytest.mark.parametrize("event_type", ["", "order.paid", "-a", "a b", "é", "a" * 101, None, 5])
@in_virtual_time
async def test_a_bad_type_of_event_is_refused_where_it_is_awaited_and_sent(event_type: Any) -> None:
    error = await refused(lambda step: step.wait_for_event("w", event_type))
    assert isinstance(error, InvalidEventType)
    assert str(error).startswith("(workflow.invalid_event_type) ")
    error = await refused(lambda step: step.wait_for_event("w", {"type": event_type}))
    assert isinstance(error, InvalidEventType)

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.wait_for_event("w", "a")

    async with Project(run) as project:
        instance = await project.workflow.create()
        error = await refusal_of(instance.send_event(type=event_type, payload=1))
        assert isinstance(error, InvalidEventType)
        assert isinstance(await refusal_of(instance.send_event()), InvalidEventType)
        kinds = [kind for kind, _ in await project.history(instance)]
        assert "EventReceived" not in kinds


@in_virtual_time
async def test_an_option_of_a_wait_that_does_not_exist_is_refused() -> None:
    """JavaScript's dictionary: a timeout that is misspelt would be a day."""
    error = await refused(lambda step: step.wait_for_event("w", {"type": "a", "timeOut": 5}))
    assert isinstance(error, TypeError)
    assert str(error) == "wait_for_event() does not take 'timeOut'. It takes: timeout, type."


@pytest.mark.parametrize("event_type", ["order_paid", "a" * 100, "0", "A-b"])
@in_virtual_time
async def test_any_other_type_of_event_is_one(event_type: str) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return (await step.wait_for_event("w", event_type))["type"]

    async with Project(run) as project:
        instance = await project.workflow.create()
        await instance.sendEvent({"type": event_type})
        assert (await project.ended(instance))["output"] == event_type


@in_virtual_time
async def test_a_payload_that_cannot_be_stored_or_is_too_large_is_refused() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return len((await step.wait_for_event("w", "a"))["payload"])

    async with Project(run) as project:
        instance = await project.workflow.create()
        error = await refusal_of(instance.send_event(type="a", payload={"a": [(1,)]}))
        assert isinstance(error, SerializationError)
        assert 'the payload of event "a" at a[0]: a tuple' in str(error)
        error = await refusal_of(instance.send_event(type="a", payload="x" * (MIB + 1)))
        assert isinstance(error, PayloadTooLarge)
        assert f"{MIB + 1} bytes" in str(error)
        error = await refusal_of(instance.send_event({"type": "a"}, type="a"))
        assert isinstance(error, TypeError)
        error = await refusal_of(instance.send_event(type="a", data=1))
        assert isinstance(error, TypeError)
        assert "send_event() does not take 'data'" in str(error)
        await instance.send_event(type="a", payload="x" * MIB)
        assert (await project.ended(instance))["output"] == MIB


@in_virtual_time
async def test_a_result_that_cannot_be_stored_is_not_tried_again() -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("bad")
        async def bad(ctx: JsDict) -> Any:
            attempts.append(ctx.attempt)
            return {"a": [1, object()]}

        error = await refusal_of(bad())
        assert isinstance(error, SerializationError)
        return str(error)

    async with Project(run) as project:
        assert 'the result of step "bad-1" at a[1]: an object' in await project.result()
        assert attempts == [1]


@pytest.mark.parametrize("size", [MIB, MIB + 1])
@in_virtual_time
async def test_a_result_may_have_a_mebibyte_and_no_byte_more(size: int) -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("large")
        async def large(ctx: JsDict) -> str:
            attempts.append(ctx.attempt)
            return "x" * size

        try:
            return len(await large())
        except Exception as error:
            return [type(error).__name__, str(error)]

    async with Project(run) as project:
        output = await project.result()
        if size == MIB:
            assert output == MIB
            assert attempts == [1]
        else:
            # Specification 5.15: an ordinary failure.
            assert attempts == [1, 2, 3, 4, 5, 6]
            assert output[0] == "WorkflowInternalError"
            assert output[1].startswith(
                "Step large-1 output is too large. Maximum allowed size is 1MiB."
            )
            assert f"{MIB + 1} bytes" in output[1]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (lambda: 1, "the output of run(): a function cannot be stored"),
        ({"a": (1,)}, "the output of run() at a: a tuple"),
        ("x" * (MIB + 1), "The workflow's output is too large."),
    ],
)
@in_virtual_time
async def test_an_output_that_cannot_be_stored_ends_the_instance(output: Any, text: str) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return output

    async with Project(run) as project:
        _, message = await project.error()
        assert text in message


@in_virtual_time
async def test_an_output_may_have_a_mebibyte() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return "x" * MIB

    async with Project(run) as project:
        assert await project.result() == "x" * MIB


@in_virtual_time
async def test_the_step_limit_counts_do_steps_only_and_names_itself() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for _ in range(5):
            await step.do("s")(one)()
        for _ in range(20):
            await step.sleep("nap", 1)
        if event["payload"] == "one more":
            error = await refusal_of(step.do("s")(one)())
            assert isinstance(error, StepLimitReached)
            raise error
        return "done"

    async with Project(run, step_limit=5) as project:
        assert await project.result() == "done"
        name, message = await project.error(params="one more")
        assert name == "WorkflowFatalError"
        assert message.startswith(
            "The limit of 5 steps has been reached. This limit can be changed"
        )


@in_virtual_time
async def test_replayed_steps_count_towards_the_limit_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for _ in range(5):
            await step.do("s")(one)()
            await step.sleep("nap", "1 minute")
        return "done"

    async with Project(run, step_limit=5, max_live=0) as project:
        assert await project.result() == "done"


@in_virtual_time
async def test_a_unit_that_does_not_exist_is_hinted_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"timeout": "10 mins", "retries": {"limit": 1, "delay": "3 sec"}}

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", "30 secnds")
        with suppress(WorkflowTimeoutError):
            await step.wait_for_event("payment", "paid", timeout="1 Hour")
        with suppress(WorkflowTimeoutError):
            await step.do("slow", config=config)(one)()

    async with Project(run, max_live=0) as project:
        await project.result()
        await project.result()
        hints = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert [hint.partition(": ")[0] for hint in hints] == [
            """step.sleep("nap", '30 secnds')""",
            """step.wait_for_event("payment", timeout='1 Hour')""",
            """step.do("slow"), timeout='10 mins'""",
            """step.do("slow"), delay='3 sec'""",
        ]
        assert all(
            "The units are second, minute, hour, day, week, month and year." in h for h in hints
        )
        assert 'there is no unit "secnds", so that is milliseconds' in hints[0]


@in_virtual_time
async def test_a_number_that_looks_like_seconds_is_hinted_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", 30)
        await step.sleep("rest", "30 seconds")

    async with Project(run, max_live=0) as project:
        await project.result()
        await project.result()
        [record] = [record for record in caplog.records if record.levelname == "WARNING"]
        assert 'step.sleep("nap", 30)' in record.getMessage()
        assert '"30 seconds"' in record.getMessage()
