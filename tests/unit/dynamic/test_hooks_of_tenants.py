"""Hooks, attributes and handles to other runs in a tenant's code: the same in this process and in another one."""

from __future__ import annotations

import os
from typing import Any, Literal

import pytest

from bindings.dynamic import create_dynamic_workflow_entrypoint
from emulator.core.state import InstanceState
from emulator.domain.entries import AttemptFailed
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import HookConflictError, HookNotFoundError
from emulator.journal.port import StoredInstance
from emulator.timing.clock import SystemClock
from tests.unit.dynamic.dispatcher import NAME, Dispatcher, key, source

Isolation = Literal["none", "process"]

both = pytest.mark.parametrize("isolation", ["none", "process"])
URL = "http://localhost:8787/.well-known/workflow/v1/webhook/acme%3A"


def dispatcher(isolation: Isolation, *, max_live: int = 1_000) -> Dispatcher:
    workflow = create_dynamic_workflow_entrypoint(isolation=isolation)
    return Dispatcher(workflow, clock=SystemClock(), max_live=max_live)


TAKING = source(
    """
hook = step.create_hook(token="order", metadata={"key": b"bytes"})
taken = [await hook]
waiting = asyncio.ensure_future(hook.receive())
await step.sleep("nap", 5)
waiting.cancel()
await asyncio.wait({waiting})
if not waiting.cancelled():
    taken.append(waiting.result())
async for payload in hook:
    taken.append(payload)
    if payload == "last":
        hook.dispose()
try:
    await hook
except HookDisposedError as error:
    taken.append(f"{type(error).__name__} {error.token}")
with step.create_hook(token="nobody") as nobody:
    try:
        await nobody.receive(timeout=1)
    except TimeoutError as error:
        taken.append(type(error).__name__)
return taken
""",
    before="import asyncio\nfrom emulator.errors import HookDisposedError\n",
)


def _has_napped(state: InstanceState) -> bool | None:
    nap = state.steps.get(StepKey(StepKind.SLEEP, "nap", 1))
    return True if nap is not None and nap.finished_seq else None


@both
@pytest.mark.parametrize("max_live", [0, 1_000])
async def test_payloads_come_in_order_and_none_is_lost(isolation: Isolation, max_live: int) -> None:
    async with dispatcher(isolation, max_live=max_live) as running:
        await running.publish("acme", "v1", TAKING)
        binding = running.binding("acme")
        instance = await binding.create()
        await running.becomes("acme", instance, "waiting")
        assert (await binding.get_hook_by_token("order")).metadata == {"key": b"bytes"}
        sent = await binding.resume_hook("order", 1)
        assert (sent.run_id, sent.workflow_name) == (instance.id, NAME)
        await running.engine.until(key("acme", instance), _has_napped)
        for payload in ({"two": 2}, "last"):
            await binding.resume_hook("order", payload)
        ended = ["HookDisposedError order", "WorkflowTimeoutError"]
        status = await running.ended("acme", instance)
        assert status["output"] == [1, {"two": 2}, "last", *ended], status
        with pytest.raises(HookNotFoundError):
            await binding.resume_hook("order")


NAMING = source(
    """
hook, webhook = step.create_hook("one"), step.create_webhook()
await step.set_attributes({"token": hook.token, "gone": "x"})
await step.set_attributes({"gone": None})
value = await hook
run = get_run(event.instanceId)
return [hook.token, hook.hook_id, webhook.token, webhook.url, value, await run.attributes(), await run.status()]
""",
    before="from bindings import get_run\n",
)


@both
async def test_made_up_tokens_are_known_at_once_and_stay(isolation: Isolation) -> None:
    async with dispatcher(isolation, max_live=0) as running:
        await running.publish("acme", "v1", NAMING)
        binding = running.binding("acme")
        instances = [await binding.create() for _ in range(2)]
        outputs: list[Any] = []
        for instance in instances:
            await running.becomes("acme", instance, "waiting")
            [hook, webhook] = (await running.state("acme", instance)).hooks.values()
            await binding.resume_hook(hook.token, 7)
            output = (await running.ended("acme", instance))["output"]
            token, hook_id, webhook_token, url, value, attributes, status = output
            assert (token, hook_id, webhook_token) == (hook.token, hook.hook_id, webhook.token)
            assert (url, value, status) == (URL + webhook_token, 7, "running")
            assert attributes == {"token": token}
            outputs.append(output)
        assert len({*outputs[0][:3], *outputs[1][:3]}) == 6, "each instance has tokens of its own"


CONTENDING = source(
    """
hook = step.create_hook(token="room")
run = await hook.get_conflict()
if run is None:
    return await hook
try:
    await hook
except HookConflictError as error:
    told = [error.token, error.conflicting_run_id, error.conflicting_workflow, str(error)]
before = await run.status()
await run.cancel("make room")
await run.cancel()
try:
    await run.return_value()
except WorkflowRunCancelledError as error:
    return [run.run_id, run.workflow_name, told, before, await run.status(), error.run_id]
""",
    before="from emulator.errors import HookConflictError, WorkflowRunCancelledError\n",
)


@both
async def test_a_conflict_names_the_run_and_gives_a_handle_to_it(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        await running.publish("acme", "v1", CONTENDING)
        binding = running.binding("acme")
        holder = await binding.create(id="holder")
        await running.becomes("acme", holder, "waiting")
        output = (await running.ended("acme", await binding.create(id="other")))["output"]
        told = str(HookConflictError(token="room", conflicting_run_id="holder"))
        assert output == [
            "holder",
            NAME,
            ["room", "holder", NAME, told],
            "running",
            "cancelled",
            "holder",
        ]
        assert (await holder.status()).status == "terminated"


RESUMING = source(
    """
@step.do("send", config={"retries": {"limit": 0, "delay": 0}})
async def send():
    told = []
    for token in event.payload:
        try:
            assert (await get_hook_by_token(token)).token == token
            info = await resume_hook(token, {"to": token}, resume_id=event.instanceId)
            told.append([info.token, info.run_id, info.workflow_name])
        except HookNotFoundError as error:
            told.append(f"nobody has {error.token}")
    return told

sent = await send()
runs = [await get_run(event.instanceId).wake_up()]
for run_id in ("target", "only"):
    run = get_run(run_id)
    runs.append(await run.exists())
    try:
        runs.append(await run.status())
    except WorkflowRunNotFoundError as error:
        runs.append(f"no {error.run_id}")
try:
    await resume_hook("target")
except WorkflowContextError as error:
    runs.append(type(error).__name__)
return [sent, runs]
""",
    before="from bindings import get_hook_by_token, get_run, resume_hook\n"
    "from emulator.errors import *\n",
)
HOLDING = source("return await step.create_hook(token=event.payload)")


@both
async def test_a_tenant_reaches_its_own_runs_and_nobody_elses(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        for tenant in ("acme", "zenith"):
            await running.publish(tenant, "hold", HOLDING)
        await running.publish("acme", "send", RESUMING)
        target = await running.binding("acme", "hold").create(id="target", params="target")
        foreign = [
            await running.binding("zenith", "hold").create(id=each, params=each)
            for each in ("target", "only")
        ]
        for tenant, instance in (("acme", target), *(("zenith", each) for each in foreign)):
            await running.becomes(tenant, instance, "waiting")
        sender = await running.binding("acme", "send").create(id="s", params=["target", "only"])
        sent, runs = (await running.ended("acme", sender))["output"]
        assert sent == [["target", "target", NAME], "nobody has only"]
        assert (await running.ended("acme", target))["output"] == {"to": "target"}
        assert runs[2] in ("running", "completed")
        assert runs == [0, True, runs[2], False, "no only", "WorkflowContextError"]
        for each in foreign:
            assert (await each.status()).status == "waiting"


DECORATED = source(
    """
hook = step.create_hook(token="own")
await hook.get_conflict()

def decorated(function):
    return lambda: function()

@step.do("send")
@decorated
async def send():
    return (await resume_hook("own", "a payload")).run_id

return [await send() == event.instanceId, await hook]
""",
    before="from bindings import resume_hook\n",
)


@both
async def test_a_decorated_step_means_its_own_tenant(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        assert await running.result("acme", DECORATED) == [True, "a payload"]


ON_ANOTHER_LOOP = source(
    """
def refusal_of(make):
    async def call():
        try:
            await make()
        except WorkflowContextError as error:
            return "on an event loop of its own" in str(error)
    return asyncio.run(call())

run = get_run(event.instanceId)

@step.do("plain")
def plain():
    return [refusal_of(run.status), refusal_of(lambda: step.sleep("nap", "1 day"))]

return await plain()
""",
    before="import asyncio\nfrom bindings import get_run\nfrom emulator.errors import WorkflowContextError\n",
)


@both
async def test_what_a_thread_asks_on_a_loop_of_its_own_is_refused(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        assert await running.result("acme", ON_ANOTHER_LOOP) == [True, True]


@both
async def test_a_token_of_another_tenant_is_no_conflict(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        for tenant in ("acme", "zenith"):
            await running.publish(tenant, "v1", HOLDING)
            instance = await running.binding(tenant).create(id="i", params="same", hook="same")
            await running.becomes(tenant, instance, "waiting")
            with pytest.raises(HookConflictError) as conflict:
                await running.binding(tenant).create(hook="same")
            assert conflict.value.conflicting_run_id == "i"
        for tenant in ("acme", "zenith"):
            await running.binding(tenant).resume_hook("same", tenant)
            instance = await running.binding(tenant).get("i")
            assert (await running.ended(tenant, instance))["output"] == tenant
            with pytest.raises(HookNotFoundError):
                await running.binding(tenant).resume_hook("same", tenant)


WISHING = source(
    """
from datetime import timedelta
from emulator.errors import RetryableError

@step.do("work", config={"retries": {"limit": 3, "delay": "1 hour"}})
async def work(ctx):
    if ctx.attempt <= 3:
        raise RetryableError("again", retry_after=[7, "0.002 seconds", timedelta(milliseconds=3)][ctx.attempt - 1])
    return ctx.attempt

return await work()
"""
)


@both
async def test_an_error_says_when_it_wants_to_be_tried_again(isolation: Isolation) -> None:
    async with dispatcher(isolation) as running:
        await running.publish("acme", "v1", WISHING)
        instance = await running.binding("acme").create()
        assert (await running.ended("acme", instance))["output"] == 4
        stored = (await running.journal.load([key("acme", instance)]))[key("acme", instance)]
        assert isinstance(stored, StoredInstance)
        facts = [entry.fact for _, entry in stored.entries]
        assert [each.retry_delay_ms for each in facts if isinstance(each, AttemptFailed)] == [
            7,
            2,
            3,
        ]


async def test_a_hook_outlives_the_process_that_opened_it() -> None:
    async with dispatcher("process") as running:
        await running.publish("acme", "v1", NAMING)
        instance = await running.binding("acme").create()
        await running.becomes("acme", instance, "waiting")
        pid = (await running.process_of("acme")).pid
        assert pid is not None
        os.kill(pid, 9)
        token = next(iter((await running.state("acme", instance)).hooks.values())).token
        await running.binding("acme").resume_hook(token, "still there")
        output = (await running.ended("acme", instance))["output"]
        assert (output[0], output[4]) == (token, "still there")


FORGING = source(
    """
life = step._context._life
say = life._process.say
told = []

async def forge(make):
    life._last_ask += 1
    future = asyncio.get_running_loop().create_future()
    message = make(life._last_ask)
    if isinstance(message, messages.AskHost):
        life._questions[life._last_ask] = future
    else:
        life._asked[life._last_ask] = StepKey(StepKind.HOOK, "", 1), future
    say(message)
    try:
        answer = await future
        told.append(bytes(answer).decode() if isinstance(answer, msgspec.Raw) else answer)
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
    return life._last_ask

def hook(token, metadata=b"null", retention=None, webhook=False):
    return lambda ask: messages.AskHook(life.number, ask, None, token, msgspec.Raw(metadata), retention, webhook)

def asking(call):
    return lambda ask: messages.AskHost(life.number, ask, call)

await forge(hook("\\0"))
await forge(hook("x" * 600))
await forge(hook("b", retention=MinRetention(duration_ms=2**50)))
await forge(hook("c", retention=MinRetention()))
await forge(hook(None, b'{"respond_with": 7, "metadata": null}', webhook=True))
opened = await forge(hook("mine"))
for number, turn, timeout in ((99, 1, None), (opened, 0, None), (opened, 1, -5)):
    await forge(lambda ask: messages.AskReceive(life.number, ask, number, turn, timeout, 0))
for workflow, id, body in (
    ("tenants", event.instanceId, '{"ask": "delete"}'),
    ("tenants", event.instanceId, '{"ask": "attributes", "changes": {"$": "x"}}'),
    ("tenants", event.instanceId, '{"ask": "terminate", "reason": "' + "x" * 600 + '"}'),
    ("tenants", "zenith:target", '{"ask": "terminate"}'),
    ("tenants", event.instanceId, "no"),
    ("others", event.instanceId, '{"ask": "terminate"}'),
    ("tenants", "x" * 10_000, '{"ask": "terminate"}'),
):
    await forge(asking(messages.InputCall(workflow, id, body)))
await forge(asking(messages.FindCall("x" * 10_000)))
await forge(asking(messages.ResumeCall("target", msgspec.Raw(b"1"), None)))
await forge(asking(messages.ResumeCall("mine", msgspec.Raw(b"1"), "")))
await forge(asking(messages.ResumeCall("mine", msgspec.Raw(b'"' + b"x" * 2**21 + b'"'), None)))
return [str(each) for each in told]
""",
    before="import asyncio, msgspec\nfrom bindings.dynamic import messages\n"
    "from emulator.domain.hooks import MinRetention\nfrom emulator.domain.steps import StepKey, StepKind\n",
)


FORGED = (
    "must have no control characters",
    "at most 512 bytes",
    "cannot exceed 30 days",
    "a duration or an instant",
    "respond_with is not valid",
    "None",
    "no such hook",
    "no such turn",
    "InvalidDuration",
    "cannot ask for DeleteRequested",
    "is reserved",
    "at most 512 characters",
    'Instance "zenith:target" does not exist',
    "Invalid input",
    'Workflow "others" does not exist',
    "No instance has an id of 10000 characters",
    '{"key":null}',
    'the token "target"',
    "A resume_id is a text",
    "PayloadTooLarge",
)
"""What is said of each of them; only the hook that follows the rules is opened."""


async def test_what_a_process_asks_is_checked() -> None:
    async with dispatcher("process") as running:
        await running.publish("zenith", "v1", HOLDING)
        target = await running.binding("zenith").create(id="target", params="target")
        await running.becomes("zenith", target, "waiting")
        told = await running.result("mallory", FORGING, id="forger")
        for line, expected in zip(told, FORGED, strict=True):
            assert expected in line
        assert (await target.status()).status == "waiting"


BY_HAND = 'step.create_webhook(respond_with="manual")'
STREAM = "step.get_writable()"
ITERATOR = """
@step.do("bytes")
async def bytes_():
    yield b"piece"
await bytes_()
"""


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        (BY_HAND, "no webhooks that a step answers by hand"),
        (STREAM, "no streams"),
        (ITERATOR, "no steps that return streams"),
    ],
)
async def test_what_a_process_has_not_is_refused_by_name(body: str, missing: str) -> None:
    async with dispatcher("process") as running:
        error = (await running.outcome("acme", source(body)))["error"]
        assert error["name"] == "WorkflowContextError"
        assert missing in error["message"]
