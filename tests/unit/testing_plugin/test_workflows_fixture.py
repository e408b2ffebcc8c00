"""The fixture `workflows`: an engine of a test's own, in virtual time."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from bindings import NonRetryableError, WorkflowEntrypoint
from emulator.errors import ConfigError, InstanceNotFound, InvalidDuration
from wrangler_compat.testing import TestProject
from wrangler_compat.testing.loop import LoopThread
from wrangler_compat.worker.entrypoint import WorkerEntrypoint
from wrangler_compat.worker.http import Request, Response

calls: list[str] = []
"""What callbacks have done; each test that looks clears it first."""


class Patient(WorkflowEntrypoint):
    """Sleeps a month, waits a day in vain, and tries six times."""

    async def run(self, event: Any, step: Any) -> Any:
        retries = {"limit": 5, "delay": "10 seconds", "backoff": "exponential"}

        @step.do("flaky", config={"retries": retries})
        async def flaky(ctx: Any) -> str:
            if ctx["attempt"] < 6:
                raise ConnectionError("not yet")
            return "at last"

        await step.sleep("a month", "30 days")
        try:
            await step.wait_for_event("news", "news", timeout="24 hours")
        except TimeoutError:
            return await flaky()
        return "news"


class Sleeper(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> str:
        await step.sleep("an hour", "1 hour")
        return "awake"


class Listener(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        return (await step.wait_for_event("ask", "answer", timeout="1 day"))["payload"]


class TwiceListener(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        first = await step.wait_for_event("ask", "answer", timeout="1 day")
        second = await step.wait_for_event("ask again", "answer", timeout="1 day")
        return [first["payload"], second["payload"]]


class Careful(WorkflowEntrypoint):
    """One attempt that waits for the test, in a step of two attempts."""

    async def run(self, event: Any, step: Any) -> Any:
        @step.do("call", config={"retries": {"limit": 1, "delay": 0}})
        async def call(ctx: Any) -> int:
            calls.append(f"attempt {ctx['attempt']}")
            if ctx["attempt"] == 1:
                await asyncio.Event().wait()
            return ctx["attempt"]

        return await call()


class Keeper(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("keep")
        async def keep() -> Any:
            return self.env.KV.put(event["payload"])

        return await keep()


class Threaded(WorkflowEntrypoint):
    """A callback that blocks a thread, and one that sleeps on the loop."""

    async def run(self, event: Any, step: Any) -> Any:
        @step.do("block", config={"timeout": "1 second"})
        def block() -> bool:
            return threading.Event().wait(0.01)

        @step.do("rest")
        async def rest() -> str:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 300)
            return "rested"

        await block()
        return await rest()


class Broken(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> None:
        raise NonRetryableError("no way")


class Front(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        if request.method == "DELETE":
            await asyncio.Event().wait()
        instance = await self.env.LISTENER.create(params=await request.json())
        return Response.json({"id": instance.id}, status=202)


class FakeKV:
    def put(self, value: Any) -> str:
        calls.append(f"put {value}")
        return "kept"


class Counting(WorkflowEntrypoint):
    """Sleeps a day, many times, and counts how often it comes to each sleep."""

    async def run(self, event: Any, step: Any) -> None:
        for number in range(event["payload"]):
            calls.append(f"sleep {number}")
            await step.sleep("a day", "1 day")


async def status_of(instance: Any) -> str:
    return (await instance.status())["status"]


@pytest.mark.workflows(classes=[Patient])
async def test_months_of_patience_take_no_time(
    workflows: TestProject, record_property: Callable[[str, object], None]
) -> None:
    loop = asyncio.get_running_loop()
    await workflows.settle()  # opened
    begin_s = loop.time()
    instance = await workflows.env.PATIENT.create()
    await workflows.until(instance, "complete")
    output = (await instance.status())["output"]
    spent_s = loop.time() - begin_s
    record_property("milliseconds", round(spent_s * 1000, 1))
    assert output == "at last"
    assert spent_s < 5, "31 days, and far less than a minute of waiting"


@pytest.mark.workflows(classes=[Sleeper, Listener])
async def test_classes_are_bound_under_their_names_in_capitals(workflows: TestProject) -> None:
    instance = await workflows.env.SLEEPER.create(id="s")
    assert repr(instance) == "<WorkflowInstance sleeper/s>"
    await workflows.until(instance, "complete")


async def test_classes_can_be_added_before_anything_is_done(workflows: TestProject) -> None:
    class TwoWords(Sleeper):
        pass

    workflows.add(TwoWords)
    instance = await workflows.env.TWO_WORDS.create()
    assert repr(instance).startswith("<WorkflowInstance two-words/")
    with pytest.raises(ConfigError, match="add classes before"):
        workflows.add(Sleeper)


async def test_without_a_project_or_classes_the_text_says_what_to_do(
    workflows: TestProject,
) -> None:
    with pytest.raises(
        ConfigError, match=re.escape("@pytest.mark.workflows(classes=[MyWorkflow])")
    ):
        await workflows.request("GET", "/")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.workflows(classes=[Sleeper])
async def test_every_test_has_a_journal_of_its_own(workflows: TestProject, number: int) -> None:
    await workflows.env.SLEEPER.create(id="the-same")
    assert len(workflows.pending()) == 1  # and the next test does not wait for it


@pytest.mark.workflows(classes=[Sleeper])
def test_a_plain_test_can_run_a_loop_of_its_own(workflows: TestProject) -> None:
    async def life() -> str:
        instance = await workflows.env.SLEEPER.create(id="s")
        await workflows.advance("59 minutes")
        return await status_of(instance)

    async def rest() -> str:
        instance = await workflows.env.SLEEPER.get("s")
        await workflows.advance("1 minute")
        return await status_of(instance)

    assert (asyncio.run(life()), asyncio.run(rest())) == ("waiting", "complete")


@pytest.mark.workflows(classes=[Sleeper, Listener])
async def test_settling_parks_everything_and_lets_no_timer_fire(workflows: TestProject) -> None:
    sleeper = await workflows.env.SLEEPER.create()
    listener = await workflows.env.LISTENER.create()
    await workflows.settle()
    assert [await status_of(each) for each in (sleeper, listener)] == ["waiting", "waiting"]
    await listener.send_event(type="answer", payload=42)
    await workflows.settle()
    assert (await listener.status())["output"] == 42
    assert await status_of(sleeper) == "waiting"


@pytest.mark.workflows(classes=[TwiceListener])
async def test_settling_parks_what_has_just_taken_an_event(workflows: TestProject) -> None:
    listener = await workflows.env.TWICE_LISTENER.create()
    await listener.send_event(type="answer", payload=42)
    await workflows.settle()
    assert await status_of(listener) == "waiting"


@pytest.mark.workflows(classes=[Listener])
async def test_time_stands_still_between_the_calls_of_a_test(workflows: TestProject) -> None:
    instance = await workflows.env.LISTENER.create()
    for _ in range(20):
        await instance.status()
    await workflows.advance("23 hours")
    assert await status_of(instance) == "waiting"


@pytest.mark.workflows(classes=[Listener, Front])
async def test_a_worker_among_the_classes_answers_requests(workflows: TestProject) -> None:
    answer = await workflows.request("POST", "/", json={"n": 1})
    assert answer.status == 202
    instance = await workflows.env.LISTENER.get(answer.json()["id"])
    assert await status_of(instance) == "running"


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        ("3 dayz", "cannot be '3 dayz': there is no unit \"dayz\"; there are second, minute,"),
        ("3 Days", "cannot be '3 Days': there is no unit \"Days\"; there are second, minute,"),
        ("-3 days", "cannot be '-3 days': time does not run backwards"),
        (timedelta(days=-1), "time does not run backwards"),
        ("soon", "cannot be 'soon': a duration is"),
    ],
)
@pytest.mark.workflows(classes=[Sleeper])
async def test_time_advances_by_durations_only(
    workflows: TestProject, duration: Any, text: str
) -> None:
    with pytest.raises(InvalidDuration, match=re.escape(text)):
        await workflows.advance(duration)


@pytest.mark.workflows(classes=[Sleeper, Broken])
async def test_finished_instances_stay(workflows: TestProject) -> None:
    done = await workflows.env.SLEEPER.create()
    failed = await workflows.env.BROKEN.create()
    await workflows.advance("1 year")
    assert [await status_of(each) for each in (done, failed)] == ["complete", "errored"]


@pytest.mark.workflows(classes=[Sleeper])
async def test_finished_instances_go_when_a_retention_is_given_that_is_over(
    workflows: TestProject,
) -> None:
    retention = {"success_retention": "1 day"}
    instance = await workflows.env.SLEEPER.create(retention=retention)
    await workflows.advance("24 hours")
    assert await status_of(instance) == "complete"
    await workflows.advance("2 hours")
    with pytest.raises(InstanceNotFound):
        await instance.status()


@pytest.mark.workflows(classes=[Counting])
async def test_a_loop_over_long_sleeps_is_replayed_often_at_first_and_seldom_later(
    workflows: TestProject,
) -> None:
    calls.clear()
    await workflows.until(await workflows.env.COUNTING.create(params=400), "complete")
    assert calls.count("sleep 0") > 15
    assert calls.count("sleep 300") <= 2
    assert len(calls) < 4 * 400


@pytest.mark.workflows(classes=[Keeper], env={"KV": FakeKV()})
async def test_a_mark_puts_fakes_into_env(workflows: TestProject) -> None:
    instance = await workflows.env.KEEPER.create(params="a")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "kept"


@pytest.mark.workflows(classes=[Keeper])
async def test_a_fake_can_be_put_into_env_at_any_time_and_stays(workflows: TestProject) -> None:
    calls.clear()
    workflows.env.KV = fake = FakeKV()
    await workflows.until(await workflows.env.KEEPER.create(params="a"), "complete")
    await workflows.restart()
    await workflows.until(await workflows.env.KEEPER.create(params="b"), "complete")
    workflows.env.KV = FakeKV()
    assert workflows.env.KV is not fake
    assert calls == ["put a", "put b"]


@pytest.mark.workflows(classes=[Careful])
async def test_a_restart_is_a_crash_and_costs_the_attempt_under_way(
    workflows: TestProject,
) -> None:
    calls.clear()
    instance = await workflows.env.CAREFUL.create()
    await workflows.settle()
    assert calls == ["attempt 1"]
    await workflows.restart()
    await workflows.until(instance, "complete")  # the handle is good for the new process
    assert (await instance.status())["output"] == 2
    [tree] = workflows.trees()
    assert "attempt 1: WorkflowInternalError: Attempt failed due to internal" in tree


@pytest.mark.workflows(classes=[Sleeper])
async def test_a_restart_takes_no_time(workflows: TestProject) -> None:
    instance = await workflows.env.SLEEPER.create()
    await workflows.advance("59 minutes")
    await workflows.restart()
    await workflows.settle()
    assert await status_of(instance) == "waiting"
    await workflows.advance("1 minute")
    assert await status_of(instance) == "complete"


@pytest.mark.workflows(classes=[Careful])
async def test_waiting_for_a_status_that_is_passed_by_fails(workflows: TestProject) -> None:
    instance = await workflows.env.CAREFUL.create(id="c")
    with pytest.raises(AssertionError, match="c did not become waiting: it is complete"):
        await workflows.until(instance, "waiting")  # ten minutes later the second attempt returns


@pytest.mark.workflows(classes=[Listener])
async def test_waiting_for_a_paused_instance_fails_and_says_what_it_waits_for(
    workflows: TestProject,
) -> None:
    instance = await workflows.env.LISTENER.create(id="l")
    await instance.send_event(type="anser")
    await instance.pause()
    text = (
        'instance l will not become complete: it is paused, waits for the event "answer" in step "ask-1", '
        'the event "anser" was sent and not taken'
    )
    with pytest.raises(AssertionError, match=re.escape(text)):
        await workflows.until(instance, "complete")


@pytest.mark.workflows(classes=[Front, Listener])
async def test_a_request_that_will_never_be_answered_fails_instead_of_hanging(
    workflows: TestProject,
) -> None:
    with pytest.raises(AssertionError, match=r"no code runs and no timer is set\. Unfinished: no"):
        await workflows.request("DELETE", "/")


@pytest.mark.workflows(classes=[Threaded])
async def test_callbacks_may_block_a_thread_or_sleep_on_the_loop(workflows: TestProject) -> None:
    instance = await workflows.env.THREADED.create()
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "rested"
    [tree] = workflows.trees()
    assert tree.splitlines()[-1] == '└─ +5min complete: "rested"'


@pytest.mark.workflows(classes=[Broken])
async def test_ending_otherwise_fails_and_says_how(workflows: TestProject) -> None:
    instance = await workflows.env.BROKEN.create(id="b")
    with pytest.raises(AssertionError, match=re.escape("it is errored (NonRetryableError: no way")):
        await workflows.until(instance, "complete")


@pytest.mark.workflows(classes=[Listener])
async def test_an_instance_that_is_not_there_is_not_waited_for(workflows: TestProject) -> None:
    instance = await workflows.env.LISTENER.create(id="l")
    await instance.delete()
    with pytest.raises(InstanceNotFound):
        await workflows.until(instance, "complete")


@pytest.mark.workflows(classes=[Listener])
async def test_a_batch_gives_handles_that_a_test_can_use(workflows: TestProject) -> None:
    made = await workflows.env.LISTENER.create_batch({"count": 2})
    assert [await status_of(each) for each in made["created"]] == ["running", "running"]


@pytest.mark.workflows(classes=[Sleeper])
async def test_events_can_be_followed(workflows: TestProject) -> None:
    instance = await workflows.env.SLEEPER.create()
    types = [event["type"] async for event in instance.subscribe()]
    assert (types[0], types[-1]) == ("workflow_queued", "workflow_completed")


@pytest.mark.workflows(classes=[Patient])
async def test_a_tree_tells_what_has_happened(workflows: TestProject) -> None:
    instance = await workflows.env.PATIENT.create(id="p", params={"n": 1})
    await workflows.until(instance, "complete")
    [tree] = workflows.trees()
    assert tree.splitlines() == [
        "patient/p: complete, created 2026-01-01T00:00:00.000Z",
        'params {"n":1}',
        '├─ +0s sleep "a month-1": over at +30d',
        '├─ +30d wait "news-1" for the event "news": failed, WorkflowTimeoutError: Execution timed out after 86400000ms',
        '├─ +31d do "flaky-1": "at last"',
        "│  ├─ +31d attempt 1: ConnectionError: not yet",
        "│  ├─ +31d 10s attempt 2: ConnectionError: not yet",
        "│  ├─ +31d 30s attempt 3: ConnectionError: not yet",
        "│  ├─ +31d 1min attempt 4: ConnectionError: not yet",
        "│  ├─ +31d 2min attempt 5: ConnectionError: not yet",
        "│  └─ +31d 5min attempt 6: succeeded",
        '└─ +31d 5min complete: "at last"',
    ]


class Writer(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> None:
        writable = step.get_writable()
        for number in range(3):
            await writable.write(number)


@pytest.mark.workflows(classes=[Writer])
async def test_a_read_that_is_cancelled_when_its_answer_is_on_its_way_loses_nothing(
    workflows: TestProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has left the project's loop, and has not come to the test's."""
    call = LoopThread.call

    async def cancelled_at_last(self: LoopThread, work: Any) -> Any:
        await call(self, work)
        raise asyncio.CancelledError

    instance = await workflows.env.WRITER.create()
    await workflows.until(instance, "complete")
    readable, events = instance.readable(), instance.subscribe()
    with monkeypatch.context() as patch:
        patch.setattr(LoopThread, "call", cancelled_at_last)
        for ask in (anext(readable), events.next()):
            with pytest.raises(asyncio.CancelledError):
                await ask
    assert [chunk async for chunk in readable] == [0, 1, 2]
    assert (await anext(events)).type == "workflow_queued"
