"""Planted bug: a step that may run twice charges without an idempotency key (`env.PAYMENTS`)."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]

        @step.do("charge the card", config={"retries": {"limit": 3, "delay": "10 seconds"}})
        async def charge() -> str:
            return await self.env.PAYMENTS.charge(amount_cents=order["amount_cents"])

        receipt = await charge()
        await step.sleep("let it settle", "1 hour")
        return {"receipt": receipt}
