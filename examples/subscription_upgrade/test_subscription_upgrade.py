"""An upgrade that succeeds, upgrades that are undone, and the page that shows either."""

from typing import Any

from wrangler_compat.testing import TestProject


async def upgrade(workflows: TestProject, plan: str, seats: int = 5) -> Any:
    answer = await workflows.request(
        "POST", "/upgrades", json={"account": "acme", "plan": plan, "seats": seats}
    )
    return await workflows.env.UPGRADES.get(answer.json()["id"])


async def progress(workflows: TestProject, instance: Any) -> list[str]:
    answer = await workflows.request("GET", f"/upgrades/{instance.id}/progress")
    return answer.json()["progress"]


async def test_progress_is_read_while_it_comes_and_ends_with_the_upgrade(
    workflows: TestProject,
) -> None:
    instance = await upgrade(workflows, "team")
    seen = [line.step async for line in instance.readable()]
    assert seen == ["reserve seats", "charge", "provision"]
    await workflows.until(instance, "complete")


async def test_what_was_done_is_undone_newest_first(workflows: TestProject) -> None:
    instance = await upgrade(workflows, "gold")
    await workflows.until(instance, "errored")
    assert (await progress(workflows, instance))[-3:] == [
        "provision: undone",
        "charge: undone",
        "reserve seats: undone",
    ]
    services = (await workflows.request("GET", "/services")).json()
    assert not any(instance.id in key for keys in services.values() for key in keys)


async def test_an_upgrade_that_cannot_begin_has_nothing_to_undo_but_itself(
    workflows: TestProject,
) -> None:
    instance = await upgrade(workflows, "team", seats=101)
    await workflows.until(instance, "errored")
    assert await progress(workflows, instance) == ["reserve seats: undone"]


async def test_a_page_follows_the_stream_of_its_upgrade(workflows: TestProject) -> None:
    instance = await upgrade(workflows, "team")
    page = await workflows.request("GET", f"/upgrades/{instance.id}")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert f"/upgrades/instances/{instance.id}/streams/default" in page.text()
