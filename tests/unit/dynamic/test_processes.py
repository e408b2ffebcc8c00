"""Tenants in processes of their own: the same workflows, and what becomes of those that misbehave."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bindings.dynamic import ProcessLimits, create_dynamic_workflow_entrypoint
from bindings.dynamic.messages import trace_of
from bindings.dynamic.processes import TenantProcesses
from emulator.domain.entries import AttemptFailed
from emulator.errors import ProgramLost
from emulator.journal.port import StoredInstance
from emulator.timing.clock import SystemClock
from tests.unit.dynamic.dispatcher import Dispatcher, key, saying, source

EVERYTHING = source(
    """
async def refund(output, error):
    if event.payload["log"]:
        open(event.payload["log"], "a").write(f"{output} {type(error).__name__} {error}\\n")

@step.do("plain", rollback=refund)
def plain():
    return b"in a thread"

@step.do("loop")
async def loop(ctx, plain):
    if ctx.attempt < 3:
        raise ValueError("not yet")
    return {plain, ctx.attempt}

found = await loop()
await step.sleep("nap", 1)
event_ = await step.wait_for_event("paid", "paid")
try:
    await step.sleep_until("never", 5)
except Exception as error:
    past = type(error).__name__

@step.do("final")
async def final():
    raise NonRetryableError("no more")

try:
    await final()
except NonRetryableError as error:
    told = str(error)
if event.payload["log"]:
    raise TypeError("rolled back")
return {"found": found, "paid": event_.payload, "past": past, "told": told, "id": event.instanceId, "env": vars(self.env)}
"""
)


def dispatcher(**limits: Any) -> Dispatcher:
    workflow = create_dynamic_workflow_entrypoint(
        isolation="process",
        limits=ProcessLimits(**limits),
        tenant_env=lambda metadata, env: {"PLAN": metadata.plan},
    )
    return Dispatcher(workflow, clock=SystemClock())


async def test_a_workflow_is_the_same_in_a_process() -> None:
    async with dispatcher() as running:
        await running.publish("acme", "v1", EVERYTHING)
        instance = await running.binding("acme", plan="free").create(id="i", params={"log": None})
        await running.becomes("acme", instance, "waiting")
        await instance.send_event(type="paid", payload={"cents": 5})
        status = await running.ended("acme", instance)
        assert status["output"] == {
            "found": {b"in a thread", 3},
            "paid": {"cents": 5},
            "past": "PastWakeTime",
            "told": "no more",
            "id": "i",
            "env": {"PLAN": "free"},
        }, status


async def test_a_rollback_calls_its_handlers_in_the_process(tmp_path: Any) -> None:
    log = tmp_path / "log"
    async with dispatcher() as running:
        await running.publish("acme", "v1", EVERYTHING)
        instance = await running.binding("acme", plan="free").create(params={"log": str(log)})
        await running.becomes("acme", instance, "waiting")
        await instance.send_event(type="paid")
        status = await running.ended("acme", instance)
        assert status["status"] == "errored"
        assert status["error"] == {"name": "TypeError", "message": "rolled back"}
        assert status["rollback"] == {"outcome": "complete", "error": None}
    assert log.read_text() == "b'in a thread' TypeError rolled back\n"


async def test_what_is_refused_is_refused_in_the_same_words() -> None:
    code = source(
        """
import asyncio
told = []
async def tell(awaitable):
    try:
        await awaitable
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")

await tell(step.sleep("nap", "400 days"))
await step.sleep("back", -1e300)
await tell(step.do("x", config={"retries": {"limit": -1, "delay": 1}})(lambda: 1)())
@step.do("tuple", config={"retries": {"limit": 3, "delay": 1}})
def tuple_():
    return (1, 2)
await tell(tuple_())
@step.do("huge", config={"retries": {"limit": 3, "delay": 1}})
async def huge():
    return "x" * 2_000_000
await tell(huge())
@step.do("computed", config={"retries": {"limit": 1, "delay": lambda context: context.error.args[0]}})
async def computed(ctx):
    if ctx.attempt == 1:
        raise ValueError(7)
    return ctx.attempt
return [*told, await computed()]
"""
    )
    outputs: list[Any] = []
    for workflow in (None, create_dynamic_workflow_entrypoint(isolation="process")):
        async with Dispatcher(workflow, clock=SystemClock()) as running:
            outputs.append(await running.result("acme", code))
    assert outputs[0] == outputs[1]
    assert outputs[0][-1] == 2


async def attempt_errors(running: Dispatcher, tenant: str, instance: Any) -> list[str]:
    stored = (await running.journal.load([key(tenant, instance)]))[key(tenant, instance)]
    assert isinstance(stored, StoredInstance)
    facts = [entry.fact for _, entry in stored.entries]
    return [each.error.message for each in facts if isinstance(each, AttemptFailed)]


ONCE = "config={'retries': {'limit': 0, 'delay': 0}}"
EXIT = f"""
import os
@step.do("exit", {ONCE})
async def leave():
    os._exit(3)
await leave()
"""
LOOP = f"""
@step.do("loop", {ONCE})
async def loop():
    while True:
        pass
await loop()
"""
BURN = f"""
@step.do("burn", {ONCE})
def burn():
    while True:
        pass
await burn()
"""
DEVOUR = f"""
@step.do("devour", {ONCE})
def devour():
    chunks = []
    while True:
        chunks.append(bytearray(10_000_000))
await devour()
"""
BABBLE = f"""
import os
@step.do("babble", {ONCE})
async def babble():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            os.write(fd, b"\\xff" * 16)
        except OSError:
            pass
await babble()
"""
HANG_UP = f"""
import os
@step.do("hang up", {ONCE})
async def hang_up():
    os.closerange(3, 100)
await hang_up()
"""
ESCAPE = f"""
import os
@step.do("escape", {ONCE})
async def escape():
    if os.fork() == 0:
        os.setsid()
        channel = step._context._life._process._writer.get_extra_info("socket").fileno()
        os.set_blocking(channel, True)
        while os.read(channel, 2**16):
            pass
        os._exit(0)
    while True:
        pass
await escape()
"""


@pytest.mark.parametrize(
    ("body", "limits", "name", "told"),
    [
        (EXIT, {}, "ProgramLost", 'process of tenant "mallory" ended with exit code 3'),
        (LOOP, {"patience_s": 2.0}, "ProgramLost", "has not answered for 2 s (an endless loop?)"),
        (BURN, {"cpu_s": 2}, "ProgramLost", "was killed: it has used its 2 s of CPU time"),
        (DEVOUR, {"memory_mib": 256}, "MemoryError", "over its limit of 256 MiB of memory"),
        (BABBLE, {}, "ProgramLost", "said what is no message"),
        (HANG_UP, {"patience_s": 1.0}, "ProgramLost", "of tenant"),
        (ESCAPE, {"patience_s": 2.0}, "ProgramLost", "has not answered for 2 s"),
    ],
)
async def test_who_misbehaves_gets_a_clear_error_and_harms_nobody(
    body: str, limits: dict[str, Any], name: str, told: str
) -> None:
    workflow = create_dynamic_workflow_entrypoint(
        isolation="process", limits=ProcessLimits(**limits)
    )
    async with Dispatcher(workflow, clock=SystemClock()) as running:
        await running.publish("mallory", "v1", source(body))
        await running.publish("acme", "v1", saying("done"))
        bad = await running.binding("mallory").create()
        good = [await running.binding("acme").create() for _ in range(3)]
        for each in good:
            assert (await running.ended("acme", each))["output"] == "done"
        error = (await running.ended("mallory", bad))["error"]
        assert (error["name"], told in error["message"]) == (name, True), error
        assert await attempt_errors(running, "mallory", bad) == [error["message"]]


async def test_nothing_is_begun_again_for_ever() -> None:
    async with dispatcher() as running:
        await running.publish("mallory", "v1", source("import os\nos._exit(7)"))
        instance = await running.binding("mallory", plan="free").create()
        status = await running.ended("mallory", instance)
        assert status["error"]["name"] == "ProgramLost"
        assert "ended with exit code 7" in status["error"]["message"]


async def test_the_environment_and_the_files_of_the_emulator_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "sesame")
    code = source(
        "import os\nreturn [dict(os.environ), len(os.listdir('/proc/self/fd')), os.getcwd()]"
    )
    async with dispatcher() as running:
        await running.publish("acme", "v1", code)
        instance = await running.binding("acme", plan="free").create()
        environment, files, folder = (await running.ended("acme", instance))["output"]
        # Python itself sets the locale; the files are three of nothing, the channel, the loop's own, and the listing.
        assert set(environment) <= {"LC_CTYPE"}
        assert files <= 9
        assert folder == "/"


WHERE = """
import os
@step.do("before")
async def before():
    return os.getpid()
first = await before()
await step.wait_for_event("go", "go")
@step.do("after")
async def after():
    return os.getpid()
return [first, await after()]
"""


async def test_an_instance_whose_process_was_killed_goes_on_in_a_new_one() -> None:
    async with dispatcher() as running:
        await running.publish("acme", "v1", source(WHERE))
        binding = running.binding("acme", plan="free")
        killed, other = await binding.create(), await binding.create()
        for each in (killed, other):
            await running.becomes("acme", each, "waiting")
        process = await running.process_of("acme")
        assert process.pid is not None
        os.kill(process.pid, 9)
        for each in (killed, other):
            await each.send_event(type="go")
            first, second = (await running.ended("acme", each))["output"]
            assert first == process.pid
            assert second != first


async def test_a_process_that_has_used_half_of_its_time_is_replaced_when_nobody_notices() -> None:
    burn = """
import os, time
@step.do("burn")
def burn():
    while time.process_time() < 1.2:
        pass
    return os.getpid()
return await burn()
"""
    async with dispatcher(cpu_s=2, patience_s=2.0) as running:
        await running.publish("acme", "v1", source(burn))
        binding = running.binding("acme", plan="free")
        pids = [(await running.ended("acme", await binding.create()))["output"] for _ in range(2)]
        assert pids[0] != pids[1]


async def test_a_process_is_not_blamed_for_time_in_which_the_emulator_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with dispatcher() as running:
        await running.publish("acme", "v1", source(WHERE))
        instance = await running.binding("acme", plan="free").create()
        await running.becomes("acme", instance, "waiting")
        process = await running.process_of("acme")
        loop = asyncio.get_running_loop()
        time = loop.time
        # The clock jumps, as it does for a loop that was held up: all timers are due, and late.
        monkeypatch.setattr(loop, "time", lambda: time() + 25)
        await instance.send_event(type="go")
        first, second = (await running.ended("acme", instance))["output"]
        assert first == second == process.pid


RACES = """
import asyncio
winners = []
for number in range(12):
    @step.do(f"a {number}")
    async def a():
        await asyncio.sleep(0.002 * (number % 3))
        return "a"

    @step.do(f"b {number}")
    async def b():
        await asyncio.sleep(0.002)
        return "b"

    done, _ = await asyncio.wait({asyncio.ensure_future(a()), asyncio.ensure_future(b())}, return_when="FIRST_COMPLETED")
    winners.append(sorted(each.result() for each in done))
    await step.sleep(f"nap {number}", 1)

@step.do("winners")
async def note():
    return winners
noted = await note()
await step.sleep("last nap", 1)
return [noted, winners]
"""


async def test_a_race_has_the_same_winner_in_every_replay() -> None:
    workflow = create_dynamic_workflow_entrypoint(isolation="process")
    async with Dispatcher(workflow, clock=SystemClock(), max_live=0) as running:
        noted, replayed = await running.result("acme", source(RACES))
        assert [len(each) for each in noted] == [1] * 12, "one outcome at a time"
        assert noted == replayed


async def test_processes_end_with_the_emulator() -> None:
    async with dispatcher() as running:
        await running.publish("acme", "v1", source(WHERE))
        instance = await running.binding("acme", plan="free").create()
        await running.becomes("acme", instance, "waiting")
        pid = (await running.process_of("acme")).pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_process_that_cannot_be_started_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    processes = TenantProcesses(ProcessLimits())
    opened = open_files()
    with pytest.raises(ProgramLost, match="cannot be started") as lost:
        await processes.of("acme")
    assert open_files() == opened, lost


FAILS = source(
    """
def divide(number):
    return number / 0

@step.do("share", config={"retries": {"limit": 0, "delay": 0}})
async def share():
    try:
        return divide(1)
    except ZeroDivisionError as error:
        raise ValueError("no share") from error

await share()
"""
)


async def test_the_log_shows_where_in_the_tenants_code_an_error_comes_from(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with dispatcher() as running:
        await running.publish("acme", "v1", FAILS)
        instance = await running.binding("acme", plan="free").create()
        assert (await running.ended("acme", instance))["status"] == "errored"
    [attempt] = [each for each in caplog.records if 'step "share-1" failed' in each.getMessage()]
    assert attempt.exc_info is not None
    assert attempt.exc_info[1] is not None
    [note] = attempt.exc_info[1].__notes__
    assert note.startswith("In the process of the tenant:\n")
    assert re.findall(r"dynamic\.\w{16}/main\.py\", line \d+, in (\w+)", note) == [
        "share",
        "divide",
        "share",
    ]
    assert note.endswith("ValueError: no share")


def test_what_a_process_tells_for_the_log_is_short_and_plain_text() -> None:
    def told(text: str) -> str:
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - its text is the test's own
            raise ValueError(text)
        return trace_of(raised.value)

    assert told("\x1b[31mred\r").endswith("ValueError: ?[31mred?\n")
    long = told("long " * 2_000 + "end")
    assert len(long) == 4_000
    assert long.endswith("end\n")
    assert trace_of(ValueError("never raised")) == ""
