"""The workflows that clients drive."""

from __future__ import annotations

from typing import Any

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint


class Billing(WorkflowEntrypoint):
    """Charges, then waits for an approval."""

    async def run(self, event: Any, step: Any) -> Any:
        """Run once for each instance."""

        @step.do("charge")
        async def charge() -> object:
            return {"charged": event["payload"]}

        await charge()
        approval = await step.wait_for_event("approve", "approval", timeout="1 hour")
        return approval["payload"]


class Echo(WorkflowEntrypoint):
    """Ends at once, with its params."""

    async def run(self, event: Any, step: Any) -> Any:
        """Run once for each instance."""
        return event["payload"]


class Default(WorkerEntrypoint):
    """Creates an instance on every request, as the first example of Cloudflare's documentation does."""

    async def fetch(self, request: Request) -> Response:
        """Answer with the id."""
        instance = await self.env.ECHO.create(params={"method": request.method})
        return Response(instance.id)
