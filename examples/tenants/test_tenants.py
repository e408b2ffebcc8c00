"""Customers with workflows of their own: pinned to what they had published, and alone in their world."""

from pathlib import Path
from typing import Any

from wrangler_compat.testing import TestProject

PUBLISHED = Path(__file__).with_name("published")
API = "/cdn-cgi/workflow-emulator/dynamic"


async def publish(workflows: TestProject, tenant: str, version: str) -> int:
    code = (PUBLISHED / f"renewal_{version}.py").read_text("utf-8")
    path = f"{API}/{tenant}/renewal/versions/{version}"
    return (await workflows.request("PUT", path, body=code)).status


async def start(workflows: TestProject, tenant: str, id_: str) -> int:
    body = {"id": id_, "params": {"customer": "Ada"}}
    return (await workflows.request("POST", f"/{tenant}/renewal", json=body)).status


async def output(workflows: TestProject, tenant: str, id_: str) -> Any:
    # The operator sees all tenants, under ids with their names in front.
    await workflows.until(await workflows.env.TENANTS.get(f"{tenant}:{id_}"), "complete")
    return (await workflows.request("GET", f"/{tenant}/renewal/{id_}")).json()["output"]


async def test_an_old_instance_finishes_under_the_old_version(workflows: TestProject) -> None:
    assert await publish(workflows, "acme", "v1") == 201
    assert await start(workflows, "acme", "old") == 202
    await workflows.advance("10 days")
    assert await publish(workflows, "acme", "v2") == 201
    assert await start(workflows, "acme", "new") == 202
    await workflows.restart()
    answer = await workflows.request("POST", "/acme/renewal/new/answer", json="trust")
    assert answer.status == 200
    assert await output(workflows, "acme", "new") == {
        "letter": "Dear Ada, thank you for your trust.",
        "asked": "first",
    }
    assert await output(workflows, "acme", "old") == {
        "letter": "Dear Ada, your month is over.",
        "asked": "nothing",
    }


async def test_customers_do_not_see_each_other(workflows: TestProject) -> None:
    for tenant, version in (("acme", "v1"), ("zenith", "v2")):
        assert await publish(workflows, tenant, version) == 201
        assert await start(workflows, tenant, "same") == 202
    await workflows.request("POST", "/zenith/renewal/same/answer", json="trust")
    assert (await output(workflows, "zenith", "same"))["asked"] == "first"
    assert (await output(workflows, "acme", "same"))["asked"] == "nothing"
    await start(workflows, "acme", "only")
    assert (await workflows.request("GET", "/zenith/renewal/only")).status == 404
    assert await start(workflows, "acme", "only") == 409
    assert await start(workflows, "nobody", "same") == 404
