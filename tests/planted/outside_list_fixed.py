"""The correct twin: the list is made of what the steps return."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        async def pack(item: str) -> str:
            @step.do(f"pack {item}")
            async def put_in_the_box() -> str:
                return item

            return await put_in_the_box()

        packed = [await pack(item) for item in event["payload"]["items"]]
        await step.sleep("wait for the van", "1 hour")
        return {"packed": packed}
