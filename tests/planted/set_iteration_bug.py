"""Planted bug: a set is gone through to make steps, and its order differs between processes."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        async def pack(item: str) -> str:
            @step.do(f"pack {item}")
            async def put_in_the_box() -> str:
                return f"{item} is packed"

            return await put_in_the_box()

        results: list[str] = []
        for item in set(event["payload"]["items"]):
            results.append(await pack(item))
            await step.sleep("rest", "1 minute")
        return results
