"""The correct twin: both steps are awaited."""

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

        await reserve()
        await step.sleep("pick the goods", "1 hour")
        return await ship()
