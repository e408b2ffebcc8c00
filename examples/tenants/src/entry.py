"""A platform: every customer publishes a workflow of its own, and the platform runs them all under one binding.

`TenantWorkflow` stands for the customers' classes; what an instance runs is the code that it was created with. `Default`
is the platform's HTTP face. Who the customer is stands in the path here; a real platform would know it from a key.
"""

from typing import Any
from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint

from bindings.dynamic import create_dynamic_workflow_entrypoint, wrap_workflow_binding

TenantWorkflow = create_dynamic_workflow_entrypoint()
# Code of people you do not know belongs into a process: create_dynamic_workflow_entrypoint(isolation="process")

ROUTES = """\
POST /<tenant>/<workflow>                 {"id", "params"}
GET  /<tenant>/<workflow>/<id>
POST /<tenant>/<workflow>/<id>/<event>    the payload
"""


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        path = urlparse(request.url).path.strip("/").split("/")
        try:
            match (request.method, path):
                case ("POST", [tenant, workflow]):
                    given = await request.json()
                    instance = await self.workflows_of(tenant, workflow).create(given)
                    return Response.json({"id": instance.id}, status=202)
                case ("GET", [tenant, workflow, id_]):
                    instance = await self.workflows_of(tenant, workflow).get(id_)
                    return Response.json(await instance.status())
                case ("POST", [tenant, workflow, id_, event]):
                    instance = await self.workflows_of(tenant, workflow).get(id_)
                    await instance.send_event(type=event, payload=await request.json())
                    return Response.json({"received": True})
                case _:
                    return Response(ROUTES, status=404)
        except Exception as error:
            # Errors of a binding cross Cloudflare's RPC as text, with the code in front.
            return Response.json(
                {"error": str(error)}, status=409 if "already" in str(error) else 404
            )

    def workflows_of(self, tenant: str, workflow: str) -> Any:
        """The binding in which there is only this tenant; new instances run what it has published last."""
        return wrap_workflow_binding({"tenant": tenant}, binding=self.env.TENANTS, name=workflow)
