"""The diamond: everything that is needed runs, and the shared step once."""

from wrangler_compat.testing import TestProject


async def test_both_arms_of_the_diamond_see_the_same_reading_of_the_catalogue(
    workflows: TestProject,
) -> None:
    instance = await workflows.env.REPORTS.create(params={"products": ["mug"]})
    await workflows.until(instance, "complete")
    [price, stock] = (await instance.status())["output"]["mug"]
    assert price.removeprefix("price of ") == stock.removeprefix("stock of ")


async def test_a_report_over_http_lists_every_product(workflows: TestProject) -> None:
    started = await workflows.request("POST", "/", json={"products": ["mug", "poster"]})
    instance = await workflows.env.REPORTS.get(started.json()["id"])
    await workflows.until(instance, "complete")
    shown = await workflows.request("GET", f"/{instance.id}")
    assert list(shown.json()["output"]) == ["mug", "poster"]
