"""One order, one run: whoever asks first starts it, whoever asks again is led to it.

The start claims the token `order:<id>` in the same commit, so that of two requests at one moment one starts the run and the
other is told which run it is. What the other one brings reaches the run through the token, also before its first line.
"""

from typing import Any
from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import HookConflictError, HookNotFoundError

ROUTES = """\
POST /orders         {"order_id", "note", "done"}    done: no more notes will come
GET  /orders/<id>    by the id that POST has answered
"""


class OrderWorkflow(WorkflowEntrypoint):
    async def run(self, event, step):
        order = event["payload"]
        notes = [order["note"]]

        @step.do("process order")
        async def process(ctx: Any) -> dict[str, Any]:
            # step_id is the same in every attempt: give it to services as the idempotency key.
            return {"order_id": order["order_id"], "notes": notes, "key": ctx.step_id}

        if not order.get("done"):
            async for update in step.create_hook(token=token_of(order)):
                notes.append(update["note"])
                if update.get("done"):
                    break
        processed = await process()
        return {"order_id": processed["order_id"], "notes": processed["notes"]}


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        path = urlparse(request.url).path.strip("/").split("/")
        match (request.method, path):
            case ("POST", ["orders"]):
                return await take_order(self.env.ORDERS, await request.json())
            case ("GET", ["orders", run_id]):
                return Response.json(await (await self.env.ORDERS.get(run_id)).status())
            case _:
                return Response(ROUTES, status=200 if path == [""] else 404)


async def take_order(orders: Any, order: dict[str, Any]) -> Response:
    """Start the order's run, or hand the note to the run that there is."""
    try:
        instance = await orders.create(
            params=order, hook={"token": token_of(order)}, min_retention="1 day"
        )
    except HookConflictError as conflict:
        return await add_to_order(orders, conflict, order)
    return Response.json({"id": instance.id, "started": True}, status=202)


async def add_to_order(orders: Any, conflict: HookConflictError, order: dict[str, Any]) -> Response:
    """Hand the note to the run that holds the token; for a day it is held beyond the run's end."""
    try:
        hook = await orders.resume_hook(
            conflict.token, {"note": order["note"], "done": order.get("done", False)}
        )
    except HookNotFoundError:
        closed = {"id": conflict.conflicting_run_id, "started": False, "closed": True}
        return Response.json(closed, status=409)
    return Response.json({"id": hook.run_id, "started": False}, status=202)


def token_of(order: dict[str, Any]) -> str:
    """The key under which an order has one run."""
    return f"order:{order['order_id']}"
