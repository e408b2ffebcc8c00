"""What the process of a tenant says: nothing of it may be more than the engine can store, or stop anybody else."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from bindings.dynamic import (
    ProcessLimits,
    create_dynamic_workflow_entrypoint,
    messages,
    remote,
    serving,
)
from bindings.dynamic.messages import FromProcess, frame, told_of, trace_of, wish_of
from bindings.dynamic.processes import TenantProcess
from bindings.dynamic.remote import RemoteRun
from emulator.core.losses import MOST_LOSSES
from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.domain.hooks import MinRetention, check_retention
from emulator.domain.limits import MAX_HOOK_RETENTION_MS
from emulator.errors import (
    HookRetentionTooLong,
    InvalidHook,
    RetryableError,
    StepError,
    WorkflowRunFailedError,
)
from emulator.timing.clock import SystemClock
from tests.unit.dynamic.dispatcher import Dispatcher, source

NOW_MS = 1_800_000_000_000
NULL = messages.NULL
CONFIG = PRODUCTION_DEFAULTS


@pytest.mark.parametrize("given", [{"until_ms": -(10**40)}, {"until_ms": -1}, {"duration_ms": 0}])
def test_a_retention_is_a_number_that_can_be_stored(given: dict[str, int]) -> None:
    with pytest.raises(InvalidHook):
        check_retention(MinRetention(**given), NOW_MS)


@pytest.mark.parametrize("far", [MAX_HOOK_RETENTION_MS + 1, 10**40])
def test_a_retention_has_an_end(far: int) -> None:
    for given in (MinRetention(duration_ms=far), MinRetention(until_ms=NOW_MS + far)):
        with pytest.raises(HookRetentionTooLong):
            check_retention(given, NOW_MS)


def test_an_instant_may_have_passed_since_the_code_named_it() -> None:
    """A replay opens the hook again with the same words, however late."""
    given = MinRetention(until_ms=NOW_MS - 1)
    assert check_retention(given, NOW_MS) is given


EVERYTHING: list[messages.Message] = [
    messages.AskDo(1, 1, "a", CONFIG, False, None, False),
    messages.AskSleep(1, 1, "a", 1),
    messages.AskSleepUntil(1, 1, "a", 1),
    messages.AskWait(1, 1, "a", "go", 1),
    messages.AskHook(1, 1, None, None, NULL, None, False),
    messages.AskReceive(1, 1, 1, 1, 1, 1),
    messages.DisposeHook(1, 1),
    messages.AskHost(1, 1, messages.FindCall("a")),
    messages.Abandon(1, 1),
    messages.Quiet(1),
    messages.Ended(1, NULL),
    messages.Failed(1, messages.Told("Error", "no")),
    messages.Returned(1, NULL),
    messages.Raised(1, messages.Told("Error", "no"), True),
]


@pytest.mark.parametrize("said", EVERYTHING, ids=lambda said: type(said).__name__)
def test_a_number_that_no_journal_holds_is_no_message(said: messages.Message) -> None:
    numbers = [name for name in said.__struct_fields__ if type(getattr(said, name)) is int]
    assert numbers
    for name in numbers:
        for number in (2**53, -(10**40)):
            forged = msgspec.json.encode(msgspec.structs.replace(said, **{name: number}))
            with pytest.raises(msgspec.ValidationError, match=name):
                msgspec.json.decode(forged, type=FromProcess)


def test_every_message_of_a_process_is_tried() -> None:
    tried = {type(said) for said in EVERYTHING}
    assert tried == {*FromProcess.__args__} - {messages.Pong}


HUGE = "\ud800" + "x" * 20_000_000


@pytest.mark.parametrize(
    "error",
    [
        ValueError(HUGE),
        StepError(HUGE, HUGE),
        WorkflowRunFailedError(run_id="a", error_name=HUGE, error_message=HUGE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_be_said_whatever_it_says(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        raise error
    told = msgspec.structs.replace(told_of(error), trace=trace_of(raised.value))
    said = messages.Raised(1, told, retryable=True)
    size_bytes, body = messages.LENGTH_BYTES, frame(said)
    assert msgspec.json.decode(body[size_bytes:], type=FromProcess) == said


@pytest.mark.parametrize("field", ["name", "message", "kind", "trace"])
def test_a_longer_one_is_no_message(field: str) -> None:
    told = msgspec.structs.replace(messages.Told("a", "a"), **{field: "x" * 2**19})
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.json.decode(msgspec.json.encode(messages.Failed(1, told)), type=FromProcess)


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("5 minutes", "5 minutes"),
        (timedelta(seconds=2), 2_000),
        (HUGE, "?" + "x" * 255),
        (math.inf, "inf"),
        (10**400, "inf"),
    ],
    ids=["text", "timedelta", "huge text", "infinity", "huge number"],
)
def test_a_wish_to_be_tried_again_can_be_said(wish: Any, told: Any) -> None:
    assert wish_of(RetryableError("again", retry_after=wish)) == told


def dispatcher() -> Dispatcher:
    workflow = create_dynamic_workflow_entrypoint(isolation="process")
    return Dispatcher(workflow, clock=SystemClock())


LONG_CONFIG = """
await step.do("a", config={"timeout": "1" + " " * 5_000 + "second"})(lambda: 1)()
"""
LONG_DELAY = """
from bindings.dynamic import child
child.parse_duration = lambda _: "1" + " " * 5_000 + "second"

@step.do("a", config={"retries": {"limit": 1, "delay": lambda _: 1}})
def a():
    raise ValueError("no")
await a()
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (LONG_CONFIG, 'The config for "a" has over 4096 bytes'),
        (LONG_DELAY, "returned an invalid delay value"),
    ],
)
async def test_a_duration_is_not_a_text_of_any_length(body: str, told: str) -> None:
    """What a text means is remembered: a thousand of them would be in the memory of the emulator."""
    async with dispatcher() as running:
        assert told in (await running.outcome("acme", source(body)))["error"]["message"]


FORGED_TRACE = """
from bindings.dynamic import child
child.trace_of = lambda _: "\\x1b[31m" + "x" * 100_000
raise ValueError("no")
"""


async def test_what_a_process_says_for_the_log_is_short_and_plain_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with dispatcher() as running:
        await running.outcome("acme", source(FORGED_TRACE))
    [raised] = [each for each in caplog.records if "run() raised" in each.getMessage()]
    assert raised.exc_info is not None
    assert raised.exc_info[1] is not None
    [note] = raised.exc_info[1].__notes__
    assert "\x1b" not in note
    assert len(note) < 5_000


FLOOD = """
from bindings.dynamic import messages
life = step._context._life
say = life._process.say
for _ in range(50):
    {flood}
await step.sleep("nap", "1 hour")
"""
AGAIN = 'say(messages.AskSleep(life.number, 7, "nap", 1_000_000))'
ASKED_AGAIN = 'say(messages.AskHost(life.number, 7, messages.EndCall("tenants", event.instanceId)))'
LONG_NAMES = 'say(messages.AskWait(life.number, 100 + _, "x" * 2_000_000, "go", 1_000_000))'
LONG_IDS = 'say(messages.AskHost(life.number, 100 + _, messages.FindCall("x" * 2_000_000)))'


@pytest.mark.parametrize(
    ("flood", "told"),
    [
        (AGAIN, "has asked twice under one number and was killed"),
        (ASKED_AGAIN, "has asked twice under one number and was killed"),
        (LONG_NAMES, "has said more than 64 MiB"),
        (LONG_IDS, "has said more than 64 MiB"),
    ],
    ids=["again", "asked again", "long names", "long ids"],
)
async def test_what_waits_for_an_answer_is_counted(
    flood: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    if "MiB" in told:  # the journal is too quick for the rest to pile up
        monkeypatch.setattr(RemoteRun, "_step_of", never)
        monkeypatch.setattr(serving, "_ask", never)
    async with dispatcher() as running:
        error = (await running.outcome("mallory", source(FLOOD.format(flood=flood))))["error"]
        assert (error["name"], told in error["message"]) == ("ProgramLost", True), error


MANY_SLEEPS = 'say(messages.AskSleep(life.number, 100 + _, "nap", 1_000_000))'
MANY_QUESTIONS = 'say(messages.AskHost(life.number, 100 + _, messages.FindCall("x")))'


@pytest.mark.parametrize("flood", [MANY_SLEEPS, MANY_QUESTIONS], ids=["steps", "questions"])
async def test_what_is_too_much_is_not_taken_in(
    flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[object] = []

    async def never(who: object, what: object) -> None:
        taken.append(what)
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(RemoteRun, "_step_of", never)
    monkeypatch.setattr(serving, "_ask", never)
    monkeypatch.setattr(remote, "MOST_ASKS", 9)
    monkeypatch.setattr(serving, "MOST_QUESTIONS", 9)
    async with dispatcher() as running:
        error = (await running.outcome("mallory", source(FLOOD.format(flood=flood))))["error"]
        assert "has asked" in error["message"]
        assert "more than 9" in error["message"]
    assert len(taken) == 9 * (MOST_LOSSES + 1), "as much as is allowed in each run"


async def test_whatever_goes_wrong_with_what_a_process_says_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise UnicodeError("what nobody has thought of")

    monkeypatch.setattr(RemoteRun, "_asked", fail)
    async with dispatcher() as running:
        error = (await running.outcome("mallory", source("await step.sleep('nap', 1)")))["error"]
        assert "said what is no message (what nobody has thought of)" in error["message"]


DEAF = """
import os, time
from bindings.dynamic import messages
life = step._context._life
channel = life._process._writer.get_extra_info("socket").fileno()
os.set_blocking(channel, True)
asked = 1_000
while True:
    os.write(channel, messages.frame(messages.Pong(0.0, 7)))
    if asked < 1_100:
        call = messages.StatusCall("tenants", event.payload)
        os.write(channel, messages.frame(messages.AskHost(life.number, asked, call)))
    asked += 1
    time.sleep(0.002)
"""


async def test_a_process_that_never_reads_fills_no_memory_and_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unread_bytes: list[int] = []
    say = TenantProcess.say

    def measured(self: TenantProcess, message: messages.Message) -> None:
        say(self, message)
        assert self._writer is not None  # pyright: ignore[reportPrivateUsage]
        unread_bytes.append(self._writer.transport.get_write_buffer_size())  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(TenantProcess, "say", measured)
    workflow = create_dynamic_workflow_entrypoint(
        isolation="process", limits=ProcessLimits(patience_s=1.0)
    )
    async with Dispatcher(workflow, clock=SystemClock()) as running:
        await running.publish("mallory", "v1", source("return 'x' * 1_000_000"))
        large = await running.binding("mallory").create()
        await running.ended("mallory", large)
        await running.publish("mallory", "v2", source(DEAF))
        deaf = await running.binding("mallory").create(params=large.id)
        error = (await running.ended("mallory", deaf))["error"]
        assert "has not answered for 1 s" in error["message"]
    assert max(unread_bytes) < 3_000_000
