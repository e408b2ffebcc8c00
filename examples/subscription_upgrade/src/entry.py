"""A saga with progress: an upgrade of a subscription, undone newest first when a later step fails.

Each step says what it does on the instance's output stream, so that a page shows it as it happens: `GET /upgrades/<id>` is
that page. A compensation is the `rollback` of its step: the engine calls it, whatever became of the process meanwhile.
"""

import json
from typing import Any
from urllib.parse import urlparse

from services import ProvisioningError, SeatsTakenError, billing, provisioning, seats
from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

PATIENT = {"retries": {"limit": 3, "delay": "2 seconds", "backoff": "exponential"}}
ROUTES = """\
POST /upgrades                 {"account", "plan", "seats"}
GET  /upgrades/<id>            a page that shows each step as it happens
GET  /upgrades/<id>/progress   what has happened so far
GET  /services                 what is done, and not undone
"""
STREAM = "/cdn-cgi/workflow-emulator/upgrades/instances/{id}/streams/default"
PAGE = """\
<!doctype html>
<title>Upgrade</title>
<h1>Upgrade</h1>
<ol id="progress"></ol>
<script>
  const events = new EventSource(STREAM);
  events.addEventListener("chunk", (event) => {
    const { value } = JSON.parse(event.data);
    const line = document.createElement("li");
    line.textContent = `${value.step}: ${value.state}`;
    document.getElementById("progress").append(line);
  });
  events.addEventListener("end", () => events.close());
</script>
"""


class UpgradeWorkflow(WorkflowEntrypoint):
    async def run(self, event, step):
        upgrade = event["payload"]
        key = f"{upgrade['account']}/{event['instanceId']}"
        progress = step.get_writable()

        async def say(name: str, state: str) -> None:
            await progress.write({"step": name, "state": state})

        def undone(name: str, undo: Any) -> Any:
            async def compensate() -> None:
                undo(key)
                await say(name, "undone")

            return compensate

        @step.do("reserve seats", config=PATIENT, rollback=undone("reserve seats", seats.undo))
        async def reserve_seats() -> str:
            try:
                held = seats.reserve(key, upgrade["seats"])
            except SeatsTakenError as error:
                raise NonRetryableError(str(error)) from error
            await say("reserve seats", held)
            return held

        @step.do("charge", config=PATIENT, rollback=undone("charge", billing.undo))
        async def charge() -> str:
            charged = billing.do(key, f"plan {upgrade['plan']}")
            await say("charge", charged)
            return charged

        @step.do("provision", config=PATIENT, rollback=undone("provision", provisioning.undo))
        async def provision() -> str:
            try:
                plan = provisioning.provision(key, upgrade["plan"])
            except ProvisioningError as error:
                await say("provision", f"failed: {error}")
                raise NonRetryableError(str(error)) from error
            await say("provision", plan)
            return plan

        return {
            "seats": await reserve_seats(),
            "charged": await charge(),
            "plan": await provision(),
        }


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        path = urlparse(request.url).path.strip("/").split("/")
        match (request.method, path):
            case ("POST", ["upgrades"]):
                instance = await self.env.UPGRADES.create(params=await request.json())
                return Response.json({"id": instance.id}, status=202)
            case ("GET", ["upgrades", upgrade_id]):
                return page(upgrade_id)
            case ("GET", ["upgrades", upgrade_id, "progress"]):
                return await show_progress(self.env.UPGRADES, upgrade_id)
            case ("GET", ["services"]):
                services = {"seats": seats, "billing": billing, "provisioning": provisioning}
                return Response.json({name: list(each.done) for name, each in services.items()})
            case _:
                return Response(ROUTES, status=200 if path == [""] else 404)


def page(upgrade_id: str) -> Response:
    """The page that follows the stream. A browser that loses the connection goes on where it was."""
    address = json.dumps(STREAM.format(id=upgrade_id)).replace("<", "\\u003c")
    html = PAGE.replace("STREAM", address)
    return Response(html, headers={"content-type": "text/html; charset=utf-8"})


async def show_progress(upgrades: Any, upgrade_id: str) -> Response:
    """What has been said so far, and how the upgrade is."""
    instance = await upgrades.get(upgrade_id)
    stream = instance.readable()
    length = await stream.tail_index() + 1
    lines: list[str] = []
    async for line in stream:
        lines.append(f"{line['step']}: {line['state']}")
        if len(lines) == length:
            break
    status = await instance.status()
    return Response.json({"status": status["status"], "progress": lines})
