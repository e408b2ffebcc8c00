"""A purchase asks two people in turn, and does not wait for ever.

The manager has three days; silence passes the question on. The director has a week; silence closes it. A refusal ends it
at once.
"""

from typing import Any
from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint

ROUTES = """\
POST /purchases                          {"id", "what"}
POST /purchases/<id>/<manager|director>  {"approved"}
GET  /purchases/<id>
"""


class ApprovalWorkflow(WorkflowEntrypoint):
    async def run(self, event, step):
        purchase = event["payload"]

        async def ask(role: str, timeout: str) -> str:
            try:
                answer = await step.wait_for_event(f"ask the {role}", role, timeout=timeout)
            except Exception:
                # Cloudflare's SDK has no class for a timeout, and a wait fails in no other way.
                return "silent"
            return "approved" if answer["payload"]["approved"] else "refused"

        @step.do("order it")
        async def place() -> str:
            return f"{purchase['what']} is ordered"

        manager = await ask("manager", "3 days")
        if manager == "refused":
            return {"decision": "refused by the manager"}
        director = await ask("director", "7 days")
        if director == "silent":
            return {"decision": "expired", "manager": manager}
        if director == "refused":
            return {"decision": "refused by the director", "manager": manager}
        return {"decision": "approved", "manager": manager, "result": await place()}


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        try:
            return await answer(self.env.APPROVALS, request)
        except (
            Exception
        ) as error:  # no such purchase, an id that is taken, a decision after the end
            return Response.json({"error": str(error)}, status=400)


async def answer(approvals: Any, request: Request) -> Response:
    """Start a purchase, pass a decision on, or tell how it stands."""
    path = urlparse(request.url).path.strip("/").split("/")
    match (request.method, path):
        case ("POST", ["purchases"]):
            purchase = await request.json()
            instance = await approvals.create(id=purchase["id"], params=purchase)
            return Response.json({"id": instance.id}, status=202)
        case ("POST", ["purchases", purchase_id, ("manager" | "director") as role]):
            instance = await approvals.get(purchase_id)
            await instance.send_event({"type": role, "payload": await request.json()})
            return Response.json({"received": True})
        case ("GET", ["purchases", purchase_id]):
            instance = await approvals.get(purchase_id)
            return Response.json(await instance.status())
        case _:
            return Response(ROUTES, status=404)
