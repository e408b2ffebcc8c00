"""The correct twin: a step creates the child, under an id that no second one can have (`env.CHILDREN`)."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("create the child")
        async def create() -> str:
            child_id = f"child-{order}"
            try:
                child = await self.env.CHILDREN.create(id=child_id, params={"order": order})
            except Exception as error:
                # An attempt that died after the creation has created it.
                if "already_exists" not in str(error):
                    raise
                return child_id
            return child.id

        child_id = await create()
        await step.sleep("give it time", "1 hour")
        return child_id
