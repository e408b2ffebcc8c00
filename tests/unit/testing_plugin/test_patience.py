"""Waits for what may go on for ever: they end after some real time, and say how far the instance has come."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from bindings import WorkflowEntrypoint, get_run
from wrangler_compat.testing import TestProject, introspect_workflow_instance, loop
from wrangler_compat.testing.loop import HarnessLoop

TURN_S = 0.01


class MachineTime:
    """The machine's time, of which each turn of the loop takes a hundredth of a second."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def read(self) -> float:
        self.now_s += TURN_S
        return self.now_s


machine = MachineTime()


@pytest.fixture(autouse=True)
def machine_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessLoop, "real_s", staticmethod(machine.read))


class ForEver(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> None:
        number = 0
        while True:
            await step.sleep(f"day {number}", "1 day")
            number += 1


class Spinning(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> None:
        while True:  # noqa: ASYNC110 - a mistake that people make
            await asyncio.sleep(0)


class Held(WorkflowEntrypoint):
    """Somebody holds the process at a breakpoint, longer than a test waits."""

    async def run(self, event: Any, step: Any) -> str:
        @step.do("look")
        async def look() -> None:
            machine.now_s += 2 * loop.PATIENCE_S

        await look()
        return "went on"


TOO_LONG = "within 30 s of real time, and goes on: "


@pytest.mark.workflows(classes=[ForEver])
async def test_until_gives_up_on_a_loop_over_long_sleeps(workflows: TestProject) -> None:
    instance = await workflows.env.FOR_EVER.create(id="f")
    text = rf'f did not become complete {TOO_LONG}(\d+) steps done, the last "day (\d+)-1"; it is'
    with pytest.raises(AssertionError, match=text) as caught:
        await workflows.until(instance, "complete")
    [numbers] = re.findall(r'(\d+) steps done, the last "day (\d+)', str(caught.value))
    assert int(numbers[0]) == int(numbers[1]) + 1 > 10


@pytest.mark.workflows(classes=[Spinning])
async def test_until_gives_up_on_a_loop_that_never_waits(workflows: TestProject) -> None:
    instance = await workflows.env.SPINNING.create(id="s")
    with pytest.raises(AssertionError, match=f"s did not become complete {TOO_LONG}0 steps done"):
        await workflows.until(instance, "complete")
    assert (await instance.status())["status"] == "running"


@pytest.mark.workflows(classes=[ForEver])
@pytest.mark.parametrize(
    ("wait", "wanted", "what"),
    [
        ("wait_for_status", "complete", "become complete"),
        ("wait_for_step_result", "nope", 'have a result of step "nope-1"'),
        ("wait_for_sleep", "nope", "sleep"),
        ("wait_for_hook", None, "wait for a hook"),
    ],
)
async def test_introspectors_give_up_too(
    workflows: TestProject, wait: str, wanted: str | None, what: str
) -> None:
    await workflows.env.FOR_EVER.create(id="f")
    introspector = introspect_workflow_instance(workflows.env.FOR_EVER, "f")
    with pytest.raises(AssertionError, match=f"f did not {what} {TOO_LONG}"):
        await getattr(introspector, wait)(wanted)


@pytest.mark.workflows(classes=[ForEver])
async def test_what_a_run_returns_is_not_waited_for_for_ever(workflows: TestProject) -> None:
    await workflows.env.FOR_EVER.create(id="f")
    text = r"waited for 30 s of real time, and code still runs\. Unfinished: for-ever/f: \d+ steps"
    with pytest.raises(AssertionError, match=text):
        await get_run("f").return_value()


@pytest.mark.workflows(classes=[Spinning])
async def test_time_that_cannot_pass_is_given_up(workflows: TestProject) -> None:
    await workflows.env.SPINNING.create(id="s")
    text = r"waited for 30 s of real time, and code still runs\. Unfinished: spinning/s: 0 steps"
    with pytest.raises(AssertionError, match=text):
        await workflows.advance("1 day")
    with pytest.raises(AssertionError, match=text):
        await workflows.settle()


@pytest.mark.workflows(classes=[ForEver])
async def test_time_that_passes_may_take_its_time(workflows: TestProject) -> None:
    instance = await workflows.env.FOR_EVER.create(id="f")
    began_s = machine.now_s
    await workflows.advance("500 days")
    assert machine.now_s - began_s > 2 * loop.PATIENCE_S
    assert (await instance.status())["status"] in ("running", "waiting")


@pytest.mark.workflows(classes=[Held])
async def test_a_breakpoint_does_not_count(workflows: TestProject) -> None:
    instance = await workflows.env.HELD.create(id="h")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "went on"


@pytest.mark.workflows(classes=[ForEver])
async def test_a_tree_of_very_many_steps_shows_the_last(workflows: TestProject) -> None:
    await workflows.env.FOR_EVER.create(id="f")
    await workflows.advance("203 days")
    [tree] = workflows.trees()
    assert tree.splitlines()[2:4] == ["├─ … 4 steps before", '├─ +4d sleep "day 4-1": over at +5d']
