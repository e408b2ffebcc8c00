"""The greeting, with the ten seconds skipped."""

from pathlib import Path

from wrangler_compat.testing import open_project

HERE = Path(__file__).parent


async def test_a_greeting_is_the_output() -> None:
    async with open_project(HERE) as project:
        instance = await project.env.HELLO.create(params={"name": "Ada"})
        await project.until(instance, "complete")
        assert (await instance.status())["output"] == "Hello, Ada!"


async def test_a_greeting_survives_the_death_of_the_process() -> None:
    async with open_project(HERE) as project:
        started = await project.request("POST", "/", json={"name": "Ada"})
        assert started.status == 202
        await project.restart()
        instance = await project.env.HELLO.get(started.json()["id"])
        await project.until(instance, "complete")
        shown = await project.request("GET", f"/{instance.id}")
        assert shown.json()["output"] == "Hello, Ada!"


async def test_an_unknown_greeting_is_not_found() -> None:
    async with open_project(HERE) as project:
        assert (await project.request("GET", "/nobody")).status == 404
