"""The correct twin: the second step returns a basket of its own."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]

        @step.do("make the basket")
        async def make_basket() -> dict[str, Any]:
            return {"items": list(order["items"]), "total_cents": order["amount_cents"]}

        basket = await make_basket()

        @step.do("add the postage")
        async def add_postage() -> dict[str, Any]:
            return {**basket, "total_cents": basket["total_cents"] + 500}

        basket = await add_postage()
        await step.sleep("wait for the payment", "1 hour")
        return basket["total_cents"]
