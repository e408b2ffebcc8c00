"""A trip is booked; what has been booked is cancelled when a later part fails."""

from workers import WorkflowEntrypoint
from workers.workflows import NonRetryableError

ONCE = {"retries": {"limit": 0, "delay": 0}}


class Trip(WorkflowEntrypoint):
    async def run(self, event, step):
        trip = event["payload"]
        undo = []

        async def book(part):
            @step.do(f"book {part}")
            async def booking():
                answer = await self.env.BOOKING.book(part, trip[part], key=f"{trip['id']}/{part}")
                if answer["status"] == "sold out":
                    raise NonRetryableError(f"{part} is sold out")
                return answer["reference"]

            return await booking()

        async def cancel(part, reference):
            @step.do(f"cancel {part}")
            async def cancelling():
                await self.env.BOOKING.cancel(reference)

            await cancelling()

        try:
            for part in ("flight", "hotel", "car"):
                undo.append((part, await book(part)))

            @step.do("charge", config=ONCE)
            async def charge():
                return await self.env.PAYMENTS.charge(trip["amount_cents"])

            receipt = await charge()
        except Exception as error:
            for part, reference in reversed(undo):
                await cancel(part, reference)
            return {"booked": False, "reason": str(error)}
        return {"booked": True, "receipt": receipt, "parts": dict(undo)}
