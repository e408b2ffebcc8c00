"""However many requests there are for an order, it has one run, and no note is lost."""

import asyncio
from typing import Any

from wrangler_compat.testing import TestProject


async def send(workflows: TestProject, note: str, *, done: bool = False) -> Any:
    order = {"order_id": "42", "note": note, "done": done}
    return (await workflows.request("POST", "/orders", json=order)).json()


async def test_ten_requests_at_once_are_one_run_with_ten_notes(workflows: TestProject) -> None:
    answers = await asyncio.gather(*(send(workflows, f"note {n}") for n in range(10)))
    assert [answer["started"] for answer in answers].count(True) == 1
    assert len({answer["id"] for answer in answers}) == 1
    await send(workflows, "that is all", done=True)
    instance = await workflows.env.ORDERS.get(answers[0]["id"])
    await workflows.until(instance, "complete")
    notes = (await instance.status())["output"]["notes"]
    assert sorted(notes) == sorted([*(f"note {n}" for n in range(10)), "that is all"])


async def test_the_note_of_a_duplicate_survives_a_crash_before_the_run_reads_it(
    workflows: TestProject,
) -> None:
    first = await send(workflows, "one")
    await send(workflows, "two", done=True)
    await workflows.restart()
    instance = await workflows.env.ORDERS.get(first["id"])
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"]["notes"] == ["one", "two"]


async def test_a_late_duplicate_is_refused_for_a_day_and_then_begins_anew(
    workflows: TestProject,
) -> None:
    first = await send(workflows, "one", done=True)
    await workflows.until(await workflows.env.ORDERS.get(first["id"]), "complete")
    late = await send(workflows, "two")
    assert (late["id"], late["closed"]) == (first["id"], True)
    await workflows.advance("1 day")
    assert (await send(workflows, "three", done=True))["started"]
