"""What the log tells of code that fails: where it is, and of the user's lines only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from bindings import WorkflowStep
from bindings.hints import Hints
from emulator.domain.values import JsDict
from emulator.errors import NonRetryableError, WorkflowTimeoutError
from tests.unit.bindings.project import AT_ONCE, Project, in_virtual_time

ONCE = {"retries": {"limit": 0, "delay": 0}}
OURS = ("emulator/", "bindings/", "asyncio/", "concurrent/")


def told(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level of each record, and its text without the names of workflow and instance."""
    return [
        (each.levelname, each.getMessage().partition(": ")[2])
        for each in log.records
        if each.name == "workflow_emulator"
    ]


def lines_of(record: logging.LogRecord) -> list[str]:
    """The lines of the traceback that say where code is."""
    formatted = logging.Formatter().format(record).replace("tests/unit/bindings/", "")
    return [line.strip() for line in formatted.splitlines() if line.strip().startswith("File ")]


def divide(number: int) -> float:
    return number / 0


async def on_the_loop() -> float:
    return divide(1)


def in_a_thread() -> float:
    return divide(1)


def code_of_one(callback: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return await step.do("one", config=ONCE, **options)(callback)()

    return run


@pytest.mark.parametrize("callback", [on_the_loop, in_a_thread])
@in_virtual_time
async def test_a_failed_attempt_is_told_with_the_users_lines(
    callback: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with Project(code_of_one(callback)) as project:
        await project.error()
    assert told(caplog) == [
        ("WARNING", 'attempt 1 of step "one-1" failed: ZeroDivisionError: division by zero'),
        ("ERROR", "run() raised ZeroDivisionError: division by zero"),
    ]
    attempt, end = caplog.records
    assert [line.rpartition(" ")[2] for line in lines_of(attempt)] == [callback.__name__, "divide"]
    assert not any(ours in line for line in lines_of(attempt) for ours in OURS)
    assert lines_of(end) == []  # the attempt has told where it comes from


@in_virtual_time
async def test_a_refusal_is_told_with_the_users_line_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refused(step: WorkflowStep) -> None:
        await step.do("one", config={"retries": 3})(on_the_loop)()

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await refused(step)

    async with Project(run) as project:
        await project.error()
    [record] = caplog.records
    assert [line.rpartition(" ")[2] for line in lines_of(record)] == ["run", "run", "refused"]
    assert "retries must be a dictionary, not 3" in logging.Formatter().format(record)


@in_virtual_time
async def test_what_run_itself_raises_is_told_with_the_users_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        divide(1)

    async with Project(run) as project:
        await project.error()
    [record] = caplog.records
    assert told(caplog) == [("ERROR", "run() raised ZeroDivisionError: division by zero")]
    assert [line.rpartition(" ")[2] for line in lines_of(record)][-2:] == ["run", "divide"]


@in_virtual_time
async def test_the_engines_own_refusals_have_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def unstorable() -> Any:
        return object()

    async with Project(code_of_one(unstorable)) as project:
        await project.error()
    attempt, _ = caplog.records
    assert attempt.exc_info is None
    assert 'SerializationError: the result of step "one-1"' in attempt.getMessage()


@in_virtual_time
async def test_a_rollback_handler_that_fails_is_told_as_such(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def release() -> None:
        divide(1)

    run = code_of_one(on_the_loop, rollback=release, rollback_config=ONCE)
    async with Project(run) as project:
        await project.error()
    texts = [text for _, text in told(caplog)]
    assert 'attempt 1 of the rollback of step "one-1" failed: ZeroDivisionError' in " ".join(texts)


@in_virtual_time
async def test_a_text_that_cannot_be_written_down_is_told_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise ValueError("half \ud800")

    async with Project(code_of_one(fails)) as project:
        await project.error()
    for record in caplog.records:
        logging.Formatter().format(record).encode()
    assert told(caplog)[0][1].endswith("failed: ValueError: half \ufffd")


@in_virtual_time
async def test_an_exception_that_cannot_be_put_into_words_fails_its_step_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def fails() -> None:
        raise Speechless

    async with Project(code_of_one(fails)) as project:
        assert await project.error() == ("Speechless", "<exception str() failed>")
    assert "Speechless: <exception str() failed>" in caplog.text


@in_virtual_time
async def test_an_exception_without_a_text_is_told_by_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise RuntimeError

    async with Project(code_of_one(fails)) as project:
        await project.error()
    assert told(caplog)[0][1] == 'attempt 1 of step "one-1" failed: RuntimeError'


@in_virtual_time
async def test_numbers_of_a_config_that_look_like_seconds_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        config = {"timeout": 30, "retries": {"limit": 1, "delay": 1}}
        for _ in range(2):
            await step.do("one", config=config)(lambda: 1)()
        plain = {"timeout": "30 seconds", "retries": {"limit": 1, "delay": 100}}
        await step.do("two", config=plain)(lambda: 2)()

    async with Project(run) as project:
        await project.result()
    assert [each.getMessage() for each in caplog.records] == [
        f'step.do("one"), {name}={number}: a bare number is milliseconds. '
        f'Write "{meant}" if seconds are meant.'
        for name, number, meant in (("timeout", 30, "30 seconds"), ("delay", 1, "1 second"))
    ]


@in_virtual_time
async def test_an_exception_that_is_raised_again_shows_each_time_for_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    busy = ConnectionError("the bank is busy")

    async def charge() -> None:
        raise busy

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.do("charge", config=AT_ONCE)(charge)()

    async with Project(run) as project:
        await project.error()
    *attempts, _ = caplog.records
    assert len(attempts) == 3
    for attempt in attempts:
        assert [line.rpartition(" ")[2] for line in lines_of(attempt)] == ["charge"]


@in_virtual_time
async def test_a_subclass_that_does_not_stop_the_retries_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Declined(NonRetryableError):
        pass

    async def charge() -> None:
        raise Declined("no cover")

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.do("charge", config=AT_ONCE)(charge)()

    async with Project(run) as project:
        await project.error()
        await project.error()
    told = [each for each in caplog.messages if each.startswith("Declined is a subclass of")]
    assert len(told) == 1


@in_virtual_time
async def test_a_loop_is_hinted_at_once_whatever_it_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for turn in range(1, 20):
            await step.sleep(f"poll {turn}", turn)
            await step.sleep("again", f"{turn} mins")

    async with Project(run) as project:
        await project.result()
    assert [each.partition(": ")[0] for each in caplog.messages] == [
        'step.sleep("poll 1", 1)',
        """step.sleep("again", '1 mins')""",
    ]


@in_virtual_time
async def test_numbers_of_hooks_that_look_like_seconds_are_told_without_the_token(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bindings.workflow", "bindings.hooks"):
        # What is told once in a process may have been told in another test.
        monkeypatch.setattr(f"{module}._hints", Hints())

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token="secret", min_retention=61)
        with pytest.raises(WorkflowTimeoutError):
            await hook.receive(timeout=7)

    async with Project(run) as project:
        hook = {"token": "other secret", "min_retention": 62}
        instance = await project.workflow.create(hook=hook)
        await project.ended(instance)
    told = sorted(each.getMessage().partition(": a bare number")[0] for each in caplog.records)
    assert told == [
        "create(), min_retention=62",
        "receive(timeout=7) of a hook",
        "step.create_hook(), min_retention=61",
    ]
