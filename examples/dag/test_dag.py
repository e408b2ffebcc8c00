"""The diamond: everything that is needed runs, and the shared step once."""

from pathlib import Path

from wrangler_compat.testing import open_project

HERE = Path(__file__).parent


async def test_both_arms_of_the_diamond_see_the_same_reading_of_the_catalogue() -> None:
    async with open_project(HERE) as project:
        instance = await project.env.REPORTS.create(params={"products": ["mug"]})
        await project.until(instance, "complete")
        [price, stock] = (await instance.status())["output"]["mug"]
        assert price.removeprefix("price of ") == stock.removeprefix("stock of ")


async def test_a_report_over_http_lists_every_product() -> None:
    async with open_project(HERE) as project:
        started = await project.request("POST", "/", json={"products": ["mug", "poster"]})
        instance = await project.env.REPORTS.get(started.json()["id"])
        await project.until(instance, "complete")
        shown = await project.request("GET", f"/{instance.id}")
        assert list(shown.json()["output"]) == ["mug", "poster"]
