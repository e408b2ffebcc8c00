"""The correct twin: a step reads the clock, so every replay decides alike."""

from datetime import UTC, datetime
from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("read the clock")
        async def read_clock() -> int:
            return datetime.now(UTC).hour

        @step.do("ship today")
        async def ship_today() -> str:
            return f"{order} goes today"

        @step.do("ship tomorrow")
        async def ship_tomorrow() -> str:
            return f"{order} goes tomorrow"

        if await read_clock() < 12:
            shipped = await ship_today()
        else:
            shipped = await ship_tomorrow()
        await step.sleep("on the road", "12 hours")
        return shipped
