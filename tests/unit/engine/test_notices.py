"""What the engine notices: replays that ask for other steps, and events that were probably meant for a wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import Project, in_virtual_time, pause_for

Names = list[list[str]]


def asking(names: Names) -> Any:
    """A workflow that asks for other steps in each of its lives: those of one life each, with a rest in between."""
    lives = iter(names)

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        for name in next(lives):
            if name == "wait":
                await step.wait_for_event("wait", "answer")
            else:
                await step.do(name)(one)()

    return run


async def one() -> int:
    return 1


async def told(run: Any, *, max_live: int = 0) -> list[str]:
    """What is said of a run that is told to go on when it rests."""
    async with Project(run, max_live=max_live) as project:
        instance = await project.workflow.create(id="a")
        await pause_for(60)
        await instance.send_event(type="answer", payload=None)
        await project.ended(instance)
        return project.engine.notices.divergences


@in_virtual_time
async def test_a_replay_with_another_step_in_the_place_of_one_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lives = [["pay", "wait"], ["charge", "wait", "send"]]
    [text] = await told(asking(lives))
    assert text.startswith(
        'workflow orders, instance a: the journal has the finished step "pay-1", and a replay has asked for the new step '
        '"charge-1". The code has changed, or'
    )
    assert text in caplog.messages


@in_virtual_time
async def test_a_replay_that_ends_without_a_step_is_told() -> None:
    [text] = await told(asking([["pay", "wait"], ["wait"]]))
    assert 'finished step "pay-1", and a replay has ended without it.' in text


@pytest.mark.parametrize(
    "lives",
    [
        [["pay", "wait", "send"], ["pay", "wait", "send"]],
        [["wait", "send"], ["wait", "send"]],
    ],
)
@in_virtual_time
async def test_a_replay_of_the_same_steps_is_not(lives: Names) -> None:
    assert not await told(asking(lives))


@in_virtual_time
async def test_neither_are_steps_of_callbacks_and_steps_that_end_in_another_order() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        async def outer() -> Any:
            return await step.do("inner")(one)()

        async def slow() -> None:
            await pause_for(3)

        await step.do("outer")(outer)()
        await asyncio.gather(step.do("slow")(slow)(), step.do("quick")(one)())
        await step.wait_for_event("wait", "answer")
        await step.do("last")(one)()

    assert not await told(run)


@in_virtual_time
async def test_each_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        lives.append(1)
        await step.do(f"step {'a' if len(lives) <= 3 else 'b'}")(one)()
        await step.wait_for_event("wait", "answer")

    lives: list[int] = []
    async with Project(run, max_live=0) as project:
        ids = ["one", "two", "three"]
        for each in ids:
            await project.workflow.create(id=each)
        await pause_for(60)
        for each in ids:
            await project.handle(each).send_event(type="answer")
        for each in ids:
            await project.ended(each)
        assert len(project.engine.notices.divergences) == 1


@pytest.mark.parametrize(
    ("sent", "waited", "meant"),
    [
        ("paymnt", "payment", "payment"),
        ("Payment", "payment", "payment"),
        ("payed", "paid", "paid"),
        ("padi", "paid", "paid"),
        ("sent", "paid", None),
        ("shipment", "payment", None),
        ("order_shipped", "order_paid", None),
        ("payment", "payment", None),
    ],
)
@in_virtual_time
async def test_an_event_that_is_probably_misspelt_is_told_once(
    sent: str, waited: str, meant: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.wait_for_event("wait", waited)
        await step.sleep("nap", "1 minute")

    async with Project(run) as project:
        instance = await project.workflow.create(id="a")
        await project.becomes("a", "waiting")
        await instance.send_event(type=sent)
        await instance.send_event(type=sent)
        text = (
            f'workflow orders, instance a: nobody waits for an event of type "{sent}"; it stays until somebody does. '
            f'A wait for "{meant}" is open: is that what was meant?'
        )
        said = [each for each in caplog.messages if "nobody waits for" in each]
        assert said == ([text] if meant else [])
        await instance.terminate()


@in_virtual_time
async def test_an_event_that_is_taken_at_once_is_not_said_to_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        waits = [step.wait_for_event(f"wait {each}", f"payment-{each}") for each in range(3)]
        await asyncio.gather(*waits)

    async with Project(run) as project:
        instance = await project.workflow.create(id="a")
        await project.becomes("a", "waiting")
        for each in range(3):
            await instance.send_event(type=f"payment-{each}")
        await project.ended(instance)
    assert not [each for each in caplog.messages if "nobody waits for" in each]
