"""A customer's workflow, second version: it asks first, and takes no for an answer."""

from workers import WorkflowEntrypoint


class Renewal(WorkflowEntrypoint):
    async def run(self, event, step):
        customer = event["payload"]["customer"]
        answer = await step.wait_for_event("the answer", "answer", timeout="30 days")

        @step.do("thank")
        async def thank() -> str:
            return f"Dear {customer}, thank you for your {answer['payload']}."

        return {"letter": await thank(), "asked": "first"}
