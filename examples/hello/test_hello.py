"""The greeting, with the ten seconds skipped."""

from wrangler_compat.testing import TestProject


async def test_a_greeting_is_the_output(workflows: TestProject) -> None:
    instance = await workflows.env.HELLO.create(params={"name": "Ada"})
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "Hello, Ada!"


async def test_a_greeting_survives_the_death_of_the_process(workflows: TestProject) -> None:
    started = await workflows.request("POST", "/", json={"name": "Ada"})
    assert started.status == 202
    await workflows.restart()
    instance = await workflows.env.HELLO.get(started.json()["id"])
    await workflows.until(instance, "complete")
    shown = await workflows.request("GET", f"/{instance.id}")
    assert shown.json()["output"] == "Hello, Ada!"


async def test_an_unknown_greeting_is_not_found(workflows: TestProject) -> None:
    assert (await workflows.request("GET", "/nobody")).status == 404
