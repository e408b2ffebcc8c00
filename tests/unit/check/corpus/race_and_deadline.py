"""An event or a deadline, whichever comes first; the deadline is an instant from the event."""

import asyncio
from datetime import datetime, timedelta, timezone

from workers import WorkflowEntrypoint


class Auction(WorkflowEntrypoint):
    async def run(self, event, step):
        closes = datetime.fromisoformat(event["payload"]["closes"])
        best = {"amount": 0, "bidder": None}
        while True:
            try:
                bid = await step.wait_for_event("bid", "bid", timeout=timedelta(hours=1))
            except Exception:
                break
            offer = bid["payload"]
            if offer["amount"] > best["amount"]:
                best = {"amount": offer["amount"], "bidder": offer["bidder"]}
            if bid["timestamp"] >= closes:
                break

        await step.sleep_until("cool down", datetime.now(timezone.utc) + timedelta(minutes=5))

        @step.do("decide")
        def decide():
            now = datetime.now(timezone.utc)
            return {"decided_at": now, **best}

        @step.do("tell the winner")
        async def tell():
            await asyncio.sleep(0)
            await self.env.MAILER.send(to=best["bidder"], message_id=event["instanceId"])

        outcome = await decide()
        if outcome["bidder"]:
            await tell()
        return outcome
