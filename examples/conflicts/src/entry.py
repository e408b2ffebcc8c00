"""Five ways to deal with a duplicate, in the run itself.

Each run opens the hook `report:<name>`. The first one holds the token; `get_conflict()` gives the others the run that does.
What they make of that is ordinary code. What they ask of the other run is a durable step: a replay gets the same answer.
"""

from typing import Any
from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

ATTEMPTS = 3
ROUTES = """\
POST /<strategy>         {"name", "by"}     reject, adopt, inspect, signal or supersede
GET  /<strategy>/<id>
POST /finish             {"name"}           let the run that holds the report go on
"""


class Report(WorkflowEntrypoint):
    """What all of them do once they have the token: wait until somebody says go on, and write."""

    async def write(self, event: Any, step: Any, hook: Any) -> str:
        authors = [event["payload"]["by"]]
        async for update in hook:
            if update.get("finish"):
                break
            authors.append(update["by"])

        @step.do("write report")
        async def write() -> str:
            return f"{event['payload']['name']} by {', '.join(authors)}"

        return await write()


class Reject(Report):
    """A duplicate ends at once, and names the run that counts."""

    async def run(self, event, step):
        hook = step.create_hook(token=token_of(event["payload"]))
        if conflict := await hook.get_conflict():
            return {"duplicate_of": conflict.run_id}
        return await self.write(event, step, hook)


class Adopt(Report):
    """A duplicate waits for the other run, and has the same result."""

    async def run(self, event, step):
        hook = step.create_hook(token=token_of(event["payload"]))
        if conflict := await hook.get_conflict():
            return await conflict.return_value()
        return await self.write(event, step, hook)


class Inspect(Report):
    """A duplicate takes the result if there is one, and does not wait for it."""

    async def run(self, event, step):
        hook = step.create_hook(token=token_of(event["payload"]), min_retention="1 day")
        if conflict := await hook.get_conflict():
            if await conflict.status() == "completed":
                return await conflict.return_value()
            return {"duplicate_of": conflict.run_id}
        return await self.write(event, step, hook)


class Signal(Report):
    """A duplicate hands what it brings to the other run."""

    async def run(self, event, step):
        hook = step.create_hook(token=token_of(event["payload"]))
        if conflict := await hook.get_conflict():

            @step.do("signal")
            async def signal() -> str:
                sent = await self.env.SIGNAL.resume_hook(hook.token, {"by": event["payload"]["by"]})
                return sent.run_id

            if await conflict.status() in ("pending", "running"):
                return {"added_to": await signal()}
            return {"duplicate_of": conflict.run_id}
        return await self.write(event, step, hook)


class Supersede(Report):
    """The newest run counts: it cancels the one before. (Not with a minimum retention, which would outlive that.)"""

    async def run(self, event, step):
        for _ in range(ATTEMPTS):
            hook = step.create_hook(token=token_of(event["payload"]))
            conflict = await hook.get_conflict()
            if conflict is None:
                return await self.write(event, step, hook)
            await conflict.cancel("a newer run has begun")
        raise NonRetryableError(f"others were faster {ATTEMPTS} times")


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        path = urlparse(request.url).path.strip("/").split("/")
        match (request.method, path):
            case ("POST", ["finish"]):
                token = token_of(await request.json())
                hook = await self.env.REJECT.resume_hook(token, {"finish": True})
                return Response.json({"finished": hook.workflow_name})
            case ("POST", [("reject" | "adopt" | "inspect" | "signal" | "supersede") as strategy]):
                instance = await self.binding(strategy).create(params=await request.json())
                return Response.json({"id": instance.id}, status=202)
            case ("GET", [strategy, instance_id]):
                instance = await self.binding(strategy).get(instance_id)
                return Response.json(await instance.status())
            case _:
                return Response(ROUTES, status=200 if path == [""] else 404)

    def binding(self, strategy: str) -> Any:
        """The workflow of a strategy."""
        return getattr(self.env, strategy.upper())


def token_of(report: dict[str, Any]) -> str:
    """The key of a report."""
    return f"report:{report['name']}"
