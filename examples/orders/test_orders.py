"""The life of an order: paid, unpaid, undeliverable, interrupted."""

from typing import Any

from wrangler_compat.testing import TestProject


def order(order_id: str, *, address: str = "1 Main Street") -> dict[str, Any]:
    return {
        "id": order_id,
        "sku": "mug",
        "quantity": 2,
        "amount_cents": 2400,
        "address": address,
    }


async def test_a_payment_that_comes_before_the_wait_ships_the_order(workflows: TestProject) -> None:
    placed = await workflows.request("POST", "/orders", json=order("1001"))
    assert (placed.status, placed.json()) == (202, {"id": "order-1001"})
    payment = {"order_id": "1001", "amount_cents": 2400}
    paid = await workflows.request("POST", "/webhooks/payment", json=payment)
    assert paid.status == 200
    await workflows.until(await workflows.env.ORDERS.get("order-1001"), "complete")
    shown = await workflows.request("GET", "/orders/1001")
    assert shown.json()["output"] == {"status": "shipped", "tracking": "TRACK-1001"}
    again = await workflows.request("POST", "/orders", json=order("1001"))
    assert again.status == 409


async def test_an_order_that_nobody_pays_gives_its_goods_back_after_a_day(
    workflows: TestProject,
) -> None:
    before = (await workflows.request("GET", "/books")).json()
    await workflows.request("POST", "/orders", json=order("1002"))
    instance = await workflows.env.ORDERS.get("order-1002")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == {"status": "unpaid"}
    assert (await workflows.request("GET", "/books")).json() == before
    payment = {"order_id": "1002", "amount_cents": 2400}
    late = await workflows.request("POST", "/webhooks/payment", json=payment)
    assert late.status == 409


async def test_a_paid_order_that_cannot_be_delivered_is_refunded_and_its_goods_go_back(
    workflows: TestProject,
) -> None:
    before = (await workflows.request("GET", "/books")).json()
    await workflows.request("POST", "/orders", json=order("1003", address=" "))
    payment = {"order_id": "1003", "amount_cents": 2400}
    await workflows.request("POST", "/webhooks/payment", json=payment)
    instance = await workflows.env.ORDERS.get("order-1003")
    await workflows.until(instance, "errored")
    assert (await instance.status())["error"]["message"] == "the parcel has no address"
    assert (await workflows.request("GET", "/books")).json() == before


async def test_an_order_goes_on_after_the_process_died_while_it_waited(
    workflows: TestProject,
) -> None:
    await workflows.request("POST", "/orders", json=order("1004"))
    await workflows.advance("1 hour")
    await workflows.restart()
    payment = {"order_id": "1004", "amount_cents": 2400}
    await workflows.request("POST", "/webhooks/payment", json=payment)
    instance = await workflows.env.ORDERS.get("order-1004")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"]["status"] == "shipped"
