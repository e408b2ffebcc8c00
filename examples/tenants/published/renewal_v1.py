"""A customer's workflow, first version: a reminder after a month, then the customer's answer."""

from workers import WorkflowEntrypoint


class Renewal(WorkflowEntrypoint):
    async def run(self, event, step):
        customer = event["payload"]["customer"]
        await step.sleep("the first month", "30 days")

        @step.do("remind")
        async def remind() -> str:
            return f"Dear {customer}, your month is over."

        return {"letter": await remind(), "asked": "nothing"}
