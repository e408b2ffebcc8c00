"""The correct twin: the number is drawn in a step, and the steps have plain names."""

import random
from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("draw the number")
        async def draw() -> int:
            return random.randrange(1_000_000)

        number = await draw()

        @step.do(f"invoice {number}")
        async def invoice() -> str:
            return f"invoice of {order}"

        written = await invoice()
        await step.sleep("let it settle", "1 hour")
        return written
