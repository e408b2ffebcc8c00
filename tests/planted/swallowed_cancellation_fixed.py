"""The correct twin: it catches `Exception`, which cancellation is not."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("ship")
        async def ship() -> str:
            return f"{order} is shipped"

        @step.do("apologise")
        async def apologise() -> str:
            return f"{order} is late"

        try:
            await step.sleep("wait for the van", "1 hour")
            return await ship()
        except Exception:
            return await apologise()
