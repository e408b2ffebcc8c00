"""Planted bug: a child is created outside a step, so every replay creates one more (`env.CHILDREN`)."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]
        child = await self.env.CHILDREN.create(params={"order": order})
        await step.sleep("give it time", "1 hour")

        @step.do("note the child")
        async def note() -> str:
            return child.id

        return await note()
