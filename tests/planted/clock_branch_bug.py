"""Planted bug: the clock decides outside a step, and has gone on when the workflow is replayed."""

from datetime import UTC, datetime
from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]
        hour = datetime.now(UTC).hour

        @step.do("ship today")
        async def ship_today() -> str:
            return f"{order} goes today"

        @step.do("ship tomorrow")
        async def ship_tomorrow() -> str:
            return f"{order} goes tomorrow"

        if hour < 12:
            shipped = await ship_today()
        else:
            shipped = await ship_tomorrow()
        await step.sleep("on the road", "12 hours")
        return shipped
