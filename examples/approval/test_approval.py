"""Who answers, who refuses, and what silence does."""

from wrangler_compat.testing import TestProject

PURCHASE = {"id": "desk-7", "what": "a desk"}


async def test_two_approvals_in_any_order_place_the_purchase(workflows: TestProject) -> None:
    await workflows.request("POST", "/purchases", json=PURCHASE)
    await workflows.request("POST", "/purchases/desk-7/director", json={"approved": True})
    await workflows.request("POST", "/purchases/desk-7/manager", json={"approved": True})
    instance = await workflows.env.APPROVALS.get("desk-7")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == {
        "decision": "approved",
        "manager": "approved",
        "result": "a desk is ordered",
    }


async def test_a_silent_manager_passes_the_question_to_the_director(workflows: TestProject) -> None:
    instance = await workflows.env.APPROVALS.create(id="desk-7", params=PURCHASE)
    await workflows.advance("4 days")
    await instance.send_event({"type": "director", "payload": {"approved": False}})
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == {
        "decision": "refused by the director",
        "manager": "silent",
    }


async def test_a_purchase_that_nobody_answers_expires(workflows: TestProject) -> None:
    instance = await workflows.env.APPROVALS.create(id="desk-7", params=PURCHASE)
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == {"decision": "expired", "manager": "silent"}
