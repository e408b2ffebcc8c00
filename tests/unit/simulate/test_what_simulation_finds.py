"""What counts as a finding, and what does not; how a simulation is called."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bindings import WorkflowEntrypoint
from bindings.testing import Recorder, assert_replayable, simulate
from bindings.testing.episode import plan_of
from emulator.testing.faults import FaultKind

visits: list[str] = []
recorder = Recorder()


def codes(workflow: type[WorkflowEntrypoint], **options: Any) -> set[str]:
    report = simulate(workflow, seeds=24, **options)
    return {finding.code for finding in report.findings}


class CountsInAGlobal(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        visits.append("once more")

        @step.do(f"visit {len(visits)}")
        async def visit() -> None: ...

        await visit()
        await step.sleep("rest", "1 hour")


def test_a_step_named_after_a_global_that_counts_is_found() -> None:
    visits.clear()
    assert codes(CountsInAGlobal)
    assert visits == [], "each simulated process has a module of its own"


class NamesBySomethingUnique(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do(f"do {uuid.uuid4()}")
        async def work() -> None: ...

        await work()


def test_a_name_from_uuid4_depends_on_chance() -> None:
    assert codes(NamesBySomethingUnique) == {"depends-on-chance"}


class OrdersALiteralSet(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        await step.sleep("rest", "1 hour")
        return list({"a", "b", "c", "d"} | {letter.lower() for letter in "EF"})


def test_the_order_of_a_set_that_is_written_out_is_varied() -> None:
    assert codes(OrdersALiteralSet) == {"depends-on-set-order"}


class UsesAllOfItInSteps(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("look around")
        async def look() -> dict[str, Any]:
            return {
                "now": datetime.now(),
                "stamp": time.time(),
                "draw": random.random(),
                "id": str(uuid.uuid4()),
                "set": {"a", "b"},
            }

        seen = await look()
        await step.sleep("rest", "1 hour")
        assert isinstance(seen["now"], datetime)
        assert isinstance(seen["set"], set)
        return seen


def test_clock_chance_and_sets_inside_steps_are_fine() -> None:
    assert codes(UsesAllOfItInSteps) == set()


class CleansUp(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("tidy")
        async def tidy() -> None: ...

        try:
            await step.sleep("rest", "1 hour")
        finally:
            await tidy()


def test_a_step_in_a_finally_swallows_nothing() -> None:
    assert codes(CleansUp) == set()


class ReturnsWhenCancelled(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        try:
            await step.sleep("rest", "1 hour")
        except BaseException:
            return "stopped"


def test_code_that_returns_when_it_is_cancelled_is_found() -> None:
    assert codes(ReturnsWhenCancelled) == {"swallows-cancellation"}


class ChangesAParameter(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do()
        async def basket() -> list[int]:
            return [1]

        @step.do()
        async def fill(basket: list[int]) -> None:
            basket.append(2)

        @step.do()
        async def total(basket: list[int]) -> int:
            return sum(basket)

        await fill()
        await step.sleep("rest", "1 hour")
        return await total()


def test_a_step_result_that_depends_on_a_changed_parameter_is_found() -> None:
    assert codes(ChangesAParameter) == {"crash-changes-result"}


def charging(key: Callable[[Any], object]) -> type[WorkflowEntrypoint]:
    class Charges(WorkflowEntrypoint):
        async def run(self, event: Any, step: Any) -> Any:
            @step.do("charge")
            def charge() -> None:
                recorder.call("charge", key=key(event))

            await charge()

    return Charges


def no_key(_: Any) -> object:
    return None


def new_key(_: Any) -> object:
    return uuid.uuid4()


def instance_id(event: Any) -> object:
    return event["instanceId"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (no_key, {"runs-twice"}),
        (new_key, {"key-changes"}),
        (instance_id, set[str]()),
    ],
    ids=["no key", "a new key each time", "the instance's id"],
)
def test_an_effect_needs_a_key_that_stays(key: Callable[[Any], object], expected: set[str]) -> None:
    assert codes(charging(key), recorder=recorder) == expected


class WaitsForPayment(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        try:
            paid = await step.wait_for_event("payment", "payment", timeout="1 hour")
        except Exception:
            return "unpaid"
        return paid["payload"]["by"]


def test_events_come_early_and_late_without_a_finding() -> None:
    report = simulate(WaitsForPayment, events=[("payment", {"by": "Ada"})], seeds=60)
    assert report.findings == []


def test_a_finding_is_repeated_by_its_seed_alone() -> None:
    charge = charging(no_key)
    [found] = simulate(charge, recorder=recorder, seeds=24).findings
    again = simulate(charge, recorder=recorder, seeds=[found.seed])
    assert again.findings == [found]
    assert again.runs == 1


def test_the_report_reads_as_a_sentence_with_place_advice_and_seed() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_replayable(OrdersALiteralSet, seeds=3)
    text = str(raised.value)
    assert text.startswith("OrdersALiteralSet: 1 finding in 3 runs")
    assert "Use sorted(…) or a list." in text
    assert "(seed 0)" in text


class AtOnce(WorkflowEntrypoint):
    """Steps that are called in tasks of their own."""

    async def run(self, event: Any, step: Any) -> Any:
        @step.do("two", config={"timeout": 30})
        async def two() -> Any:
            return 2

        return [*await asyncio.gather(two(), two())]


def test_a_step_in_a_task_of_its_own_is_shown_where_it_is_written() -> None:
    [finding] = simulate(AtOnce, seeds=1).findings
    line = inspect.getsourcelines(AtOnce)[1] + 4
    assert str(finding.place) == f"{Path(__file__).name}:{line}"


class OfOneName(WorkflowEntrypoint):
    """Steps of one name in tasks of their own, one of them with a step inside."""

    async def run(self, event: Any, step: Any) -> Any:
        async def work(number: int) -> Any:
            @step.do("inner")
            async def inner() -> int:
                return number

            @step.do("work")
            async def outer() -> int:
                return await inner() if number == 3 else number

            return await outer()

        return await asyncio.gather(*(work(number) for number in range(4)))


def test_steps_of_one_name_at_once_are_numbered_as_their_tasks_were_made() -> None:
    assert codes(OfOneName) == set()


class CatchesAGroup(WorkflowEntrypoint):
    """A task group cancels the task that it is in when one of its tasks fails."""

    async def run(self, event: Any, step: Any) -> Any:
        async def fail() -> None:
            @step.do("fail", config={"retries": {"limit": 0, "delay": 0}})
            async def failing() -> None:
                raise ValueError("as planned")

            await failing()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                group.create_task(step.sleep("beside it", "1 hour"))
        except ExceptionGroup:
            await step.sleep("afterwards", "1 hour")


def test_a_task_group_whose_failure_is_caught_swallows_nothing() -> None:
    assert codes(CatchesAGroup) == set()


CALLS_ITSELF = """
from bindings import WorkflowEntrypoint
from bindings.testing import simulate

class Nap(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("a moment", "5 seconds")

{guard}print(simulate(Nap, seeds=2))
"""


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ('if __name__ == "__main__": ', "Nap: no findings in 2 runs"),
        ("", "RuntimeError: simulate() is called while it runs"),
    ],
)
def test_a_script_may_simulate_its_own_workflow_where_it_is_started(
    tmp_path: Path, guard: str, said: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(CALLS_ITSELF.format(guard=guard))
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert said in ended.stdout + ended.stderr


async def test_it_can_be_called_where_an_event_loop_runs() -> None:
    assert_replayable(UsesAllOfItInSteps, seeds=2)


def test_the_real_clock_and_chance_are_back_afterwards() -> None:
    state, real = random.getstate(), time.time
    simulate(OrdersALiteralSet, seeds=1)
    assert random.getstate() == state
    assert time.time is real
    assert type(datetime.now()) is datetime


class Mail:
    def __init__(self) -> None:
        self.keys: list[object] = []

    def get(self) -> int:
        return 1

    def send(self, message: object, options: dict[str, object] | None = None) -> None: ...


class HasOneAttempt(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("try once", config={"retries": {"limit": 0, "delay": 0}})
        async def once() -> str:
            return "done"

        try:
            return await once()
        except Exception:
            return "not done"


def test_a_crash_that_uses_up_the_only_attempt_may_change_the_result() -> None:
    assert codes(HasOneAttempt) == set()


class DeclinedError(Exception):
    """What the fake of the card service raises."""


class Card:
    def charge(self, key: str) -> str:
        recorder.call("charge", key=key)
        raise DeclinedError


class Catches(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("charge", config={"retries": {"limit": 9, "delay": "1 second"}})
        async def charge() -> str:
            recorder.call("ask")
            try:
                return self.env.CARD.charge(event["instanceId"])
            except DeclinedError:
                return "declined"

        if await charge() != "declined":
            await step.sleep("never", "1 hour")


def test_a_workflow_knows_the_exceptions_and_the_recorder_that_its_fakes_share_with_it() -> None:
    report = simulate(Catches, env={"CARD": Card()}, recorder=recorder, seeds=12)
    assert [finding.sentence.partition(" ")[0] for finding in report.findings] == ["ask"]


class Sends(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        @step.do("send")
        async def send() -> int:
            self.env.MAIL.send("hello", {"Idempotency-Key": event["instanceId"]})
            return self.env.MAIL.get()

        return await send()


def test_a_key_in_a_dictionary_of_options_counts_and_reading_is_no_effect() -> None:
    assert codes(Sends, env={"MAIL": Mail()}) == set()


def test_the_first_seeds_crash_before_and_after_every_commit() -> None:
    plans = [plan_of(seed, commits=3, events=0) for seed in range(7)]
    assert not plans[0].keeps, "the first is unloaded at every park"
    faults = {(fault.kind, fault.commit) for plan in plans for fault in plan.faults}
    kinds = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER)
    assert faults == {(kind, commit) for kind in kinds for commit in (1, 2, 3)}


def never_ending() -> type[WorkflowEntrypoint]:
    async def wait_for_nothing() -> None:
        import asyncio

        await asyncio.get_running_loop().create_future()

    class Waits(WorkflowEntrypoint):
        async def run(self, event: Any, step: Any) -> Any:
            waiting: Awaitable[None] = wait_for_nothing()
            await waiting

    return Waits


def test_code_that_waits_for_what_never_comes_is_found() -> None:
    assert codes(never_ending()) == {"never-ends"}


class Notes(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        notes: list[str] = []
        async for note in step.create_hook(token="notes:1"):
            notes.append(note["text"])
            if note["text"] == "done":
                break

        @step.do("store")
        async def store() -> list[str]:
            return notes

        return await store()


def test_payloads_of_a_hook_come_in_order_through_every_crash() -> None:
    payloads = [("notes:1", {"text": text}) for text in ("one", "two", "done")]
    report = simulate(Notes, payloads=payloads, seeds=60)
    assert not report.findings, str(report)


class Duplicate(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        hook = step.create_hook(token="notes:1")
        again = step.create_hook(token="notes:1")
        conflict = await again.get_conflict()
        hook.dispose()
        return [conflict.run_id, await conflict.status()]


def test_what_is_asked_of_another_run_is_the_same_in_every_replay() -> None:
    report = simulate(Duplicate, seeds=40)
    assert not report.findings, str(report)
