"""Planted bug: a step is called and not awaited, so it never runs."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("reserve")
        async def reserve() -> str:
            return f"{order} is reserved"

        @step.do("ship")
        async def ship() -> str:
            return f"{order} is shipped"

        reserve()
        await step.sleep("pick the goods", "1 hour")
        return await ship()
