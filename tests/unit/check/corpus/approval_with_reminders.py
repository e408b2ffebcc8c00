"""A person approves; reminders go out until they do, and a refusal or silence ends it."""

import logging

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

log = logging.getLogger(__name__)
REMINDERS = ("1 day", "2 days", "4 days")


class Approval(WorkflowEntrypoint):
    async def run(self, event, step):
        request = event.payload
        instance_id = event["instanceId"]

        async def remind(number):
            @step.do(f"reminder {number}")
            async def send():
                await self.env.MAILER.send_email(
                    to=request["approver"],
                    subject=f"Please decide on {request['title']}",
                    idempotency_key=f"{instance_id}/reminder/{number}",
                )

            await send()

        decision = None
        for number, patience in enumerate(REMINDERS):
            await remind(number)
            try:
                answer = await step.wait_for_event(
                    f"decision {number}", "approval-decision", timeout=patience
                )
            except Exception as error:
                log.info("no decision yet: %s", error)
                continue
            decision = answer["payload"]["approved"]
            break
        if decision is None:
            return {"status": "expired"}
        print(f"{request['title']}: {decision}")
        return {"status": "approved" if decision else "refused"}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        body = await request.json()
        instance = await self.env.APPROVALS.get(body["id"])
        await instance.send_event(
            {"type": "approval-decision", "payload": {"approved": body["approved"]}}
        )
        return Response.json({"ok": True})
