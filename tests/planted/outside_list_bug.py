"""Planted bug: a step fills a list outside it, which a replay leaves empty."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        packed: list[str] = []

        async def pack(item: str) -> None:
            @step.do(f"pack {item}")
            async def put_in_the_box() -> None:
                packed.append(item)

            await put_in_the_box()

        for item in event["payload"]["items"]:
            await pack(item)
        await step.sleep("wait for the van", "1 hour")
        return {"packed": packed}
