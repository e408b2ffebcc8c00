"""Planted bug: the name of a step has a random part, so no replay finds its result."""

import random
from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]
        suffix = random.randrange(1_000_000)

        @step.do(f"invoice {suffix}")
        async def invoice() -> str:
            return f"invoice of {order}"

        written = await invoice()
        await step.sleep("let it settle", "1 hour")
        return written
