"""Who answers, who refuses, and what silence does."""

from pathlib import Path

from wrangler_compat.testing import open_project

HERE = Path(__file__).parent
PURCHASE = {"id": "desk-7", "what": "a desk"}


async def test_two_approvals_in_any_order_place_the_purchase() -> None:
    async with open_project(HERE) as project:
        await project.request("POST", "/purchases", json=PURCHASE)
        await project.request("POST", "/purchases/desk-7/director", json={"approved": True})
        await project.request("POST", "/purchases/desk-7/manager", json={"approved": True})
        instance = await project.env.APPROVALS.get("desk-7")
        await project.until(instance, "complete")
        assert (await instance.status())["output"] == {
            "decision": "approved",
            "manager": "approved",
            "result": "a desk is ordered",
        }


async def test_a_silent_manager_passes_the_question_to_the_director() -> None:
    async with open_project(HERE) as project:
        instance = await project.env.APPROVALS.create(id="desk-7", params=PURCHASE)
        await project.advance("4 days")
        await instance.send_event({"type": "director", "payload": {"approved": False}})
        await project.until(instance, "complete")
        assert (await instance.status())["output"] == {
            "decision": "refused by the director",
            "manager": "silent",
        }


async def test_a_purchase_that_nobody_answers_expires() -> None:
    async with open_project(HERE) as project:
        instance = await project.env.APPROVALS.create(id="desk-7", params=PURCHASE)
        await project.until(instance, "complete")
        assert (await instance.status())["output"] == {"decision": "expired", "manager": "silent"}
