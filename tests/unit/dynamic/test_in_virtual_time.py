"""The test harness with dynamic workflows: virtual time waits for no process, so there is none."""

from __future__ import annotations

import os
from typing import Any

import pytest

from bindings.dynamic import code_store, create_dynamic_workflow_entrypoint, wrap_workflow_binding
from tests.unit.dynamic.dispatcher import source
from wrangler_compat.testing import TestProject
from wrangler_compat.worker.entrypoint import WorkerEntrypoint
from wrangler_compat.worker.http import Request, Response

TenantWorkflow = create_dynamic_workflow_entrypoint(isolation="process")
PATH = "/cdn-cgi/workflow-emulator/dynamic/acme/nap/versions/v1"


class Dispatching(WorkerEntrypoint):
    async def fetch(self, request: Request) -> Response:
        binding: Any = self.env.DYNAMIC_WORKFLOW
        instance = await wrap_workflow_binding(
            {"tenant": "acme"}, binding=binding, name="nap"
        ).create(id="i")
        return Response.json({"id": instance.id})


async def test_a_tenants_month_is_over_at_once(workflows: TestProject) -> None:
    workflows.add(TenantWorkflow, Dispatching)
    code = source("import os\nawait step.sleep('nap', '30 days')\nreturn os.getpid()")
    assert (await workflows.request("PUT", PATH, body=code)).status == 201
    assert (await workflows.request("POST", "/")).json() == {"id": "i"}
    instance = await workflows.env.DYNAMIC_WORKFLOW.get("acme:i")
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == os.getpid()


async def test_a_request_reaches_the_webhook_of_a_tenant(workflows: TestProject) -> None:
    workflows.add(TenantWorkflow, Dispatching)
    code = source(
        "webhook = step.create_webhook()\n"
        "await step.set_attributes({'url': webhook.url})\n"
        "return await (await webhook).text()"
    )
    assert (await workflows.request("PUT", PATH, body=code)).status == 201
    await workflows.request("POST", "/")
    instance = await workflows.env.DYNAMIC_WORKFLOW.get("acme:i")
    await workflows.settle()
    url = (await instance.run.attributes())["url"]
    foreign = url.replace("acme%3A", "")
    assert (await workflows.request("POST", foreign, body="mine")).status == 404
    assert (await workflows.request("POST", url, body="hello")).status == 202
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "hello"


async def test_a_test_publishes_from_outside(workflows: TestProject) -> None:
    workflows.add(TenantWorkflow, Dispatching)
    with pytest.raises(
        TypeError, match="or in the project that a test runs: publish code over HTTP"
    ):
        code_store(workflows.env.DYNAMIC_WORKFLOW)
