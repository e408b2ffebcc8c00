"""The correct twin: the unit is written."""

from typing import Any

from workers import WorkflowEntrypoint


class Planted(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        order = event["payload"]["order"]

        @step.do("ask for the report")
        async def ask() -> str:
            return f"report of {order}"

        report = await ask()
        await step.sleep("give it time", "30 seconds")
        return report
