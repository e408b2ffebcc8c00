"""A subscription: webhooks become events, periods are months, the end is an event as well."""

import hashlib
import hmac
from urllib.parse import urlparse

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Subscription(WorkflowEntrypoint):
    async def run(self, event, step):
        customer = event["payload"]["customer"]
        state = {"period": 0, "paid": []}
        while state["period"] < 12:
            period = state["period"]

            @step.do(f"charge period {period}")
            async def charge():
                answer = await self.env.STRIPE.charge(
                    customer["id"],
                    amount=customer["price"],
                    headers={"Idempotency-Key": f"{event['instanceId']}-{period}"},
                )
                return {"charge": answer["id"], "ok": answer["paid"]}

            result = await charge()
            state["paid"].append(result["charge"])
            if not result["ok"]:
                break
            try:
                await step.wait_for_event(f"cancel {period}", "cancelled", timeout="30 days")
                break
            except Exception:
                state["period"] += 1
        return state


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        text = await request.text()
        expected = hmac.new(self.env.SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, request.headers["x-signature"]):
            return Response("bad signature", status=401)
        subscription = await self.env.SUBSCRIPTIONS.get(urlparse(request.url).path.strip("/"))
        await subscription.sendEvent({"type": "cancelled", "payload": text})
        return Response("ok")
