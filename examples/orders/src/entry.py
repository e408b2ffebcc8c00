"""An order: put the goods aside, wait a day for the payment, ship. What fails is undone.

`OrderWorkflow` is the life of one order; `Default` is the shop's HTTP face, with the webhook that the payment provider
calls. Every effect goes through a step, and every step gives the order's id to the service as its idempotency key.
"""

from typing import Any
from urllib.parse import urlparse

from shop import OutOfStockError, UndeliverableError, carrier, ledger, warehouse
from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

PATIENT = {
    "retries": {"limit": 3, "delay": "10 seconds", "backoff": "exponential"},
    "timeout": "30 seconds",
}
ORDER_KEYS = {"id", "sku", "quantity", "amount_cents", "address"}
ROUTES = """\
POST /orders              {"id", "sku", "quantity", "amount_cents", "address"}
GET  /orders/<id>
POST /webhooks/payment    {"order_id", "amount_cents"}
GET  /books               what is in stock, and the ledger's balance
"""


class OrderWorkflow(WorkflowEntrypoint):
    async def run(self, event, step):
        order = event["payload"]
        key = order["id"]

        # By key, not by the step's output: the attempt that reserved may have died before it could return.
        async def release() -> None:
            warehouse.release(key)

        async def refund() -> None:
            ledger.record(f"{key}/refund", -order["amount_cents"])

        @step.do("reserve stock", config=PATIENT, rollback=release)
        async def reserve() -> None:
            try:
                warehouse.reserve(key, order["sku"], order["quantity"])
            except OutOfStockError as error:
                raise NonRetryableError(str(error)) from error

        @step.do("release stock", config=PATIENT)
        async def release_unpaid() -> None:
            warehouse.release(key)

        @step.do("record payment", config=PATIENT, rollback=refund)
        async def record_payment() -> None:
            ledger.record(f"{key}/payment", order["amount_cents"])

        @step.do("fulfil order", config=PATIENT)
        async def fulfil() -> str:
            try:
                return carrier.ship(key, order["address"])
            except UndeliverableError as error:
                raise NonRetryableError(str(error)) from error

        await reserve()
        try:
            await step.wait_for_event("payment", "payment", timeout="24 hours")
        except Exception:
            # Cloudflare's SDK has no class for a timeout, and a wait fails in no other way.
            await release_unpaid()
            return {"status": "unpaid"}
        await record_payment()
        return {"status": "shipped", "tracking": await fulfil()}


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        path = urlparse(request.url).path.strip("/").split("/")
        match (request.method, path):
            case ("POST", ["orders"]):
                return await place_order(self.env.ORDERS, await request.json())
            case ("GET", ["orders", order_id]):
                return await show_order(self.env.ORDERS, order_id)
            case ("POST", ["webhooks", "payment"]):
                return await take_payment(self.env.ORDERS, await request.json())
            case ("GET", ["books"]):
                books = {"stock": warehouse.stock, "balance_cents": ledger.balance_cents}
                return Response.json(books)
            case ("GET", [""]):
                return Response(ROUTES)
            case _:
                return Response(ROUTES, status=404)


async def place_order(orders: Any, order: dict[str, Any]) -> Response:
    """Start the order's instance. The id makes a second request for the same order harmless."""
    if missing := ORDER_KEYS - order.keys():
        return refusal(400, f"missing: {', '.join(sorted(missing))}")
    try:
        instance = await orders.create(id=f"order-{order['id']}", params=order)
    except Exception as error:
        # Errors of a binding cross Cloudflare's RPC as text, with the code in front.
        return refusal(409 if "already_exists" in str(error) else 400, str(error))
    return Response.json({"id": instance.id}, status=202)


async def show_order(orders: Any, order_id: str) -> Response:
    """Tell the instance's status."""
    try:
        instance = await orders.get(f"order-{order_id}")
    except Exception as error:
        return refusal(404, str(error))
    return Response.json(await instance.status())


async def take_payment(orders: Any, payment: dict[str, Any]) -> Response:
    """Hand the payment to its order, which need not be waiting yet: events are kept.

    A provider that gets no 2xx calls again. A real one signs its calls: verify the signature first.
    """
    try:
        instance = await orders.get(f"order-{payment['order_id']}")
    except Exception as error:
        return refusal(404, str(error))
    try:
        await instance.send_event({"type": "payment", "payload": payment})
    except Exception as error:  # the order is closed; somebody has to send the money back
        return refusal(409, str(error))
    return Response.json({"received": True})


def refusal(status: int, reason: str) -> Response:
    """Say why not."""
    return Response.json({"error": reason}, status=status)
