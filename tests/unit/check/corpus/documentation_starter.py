"""The starter: steps without names, a sleep, a wait, a retry config, a failing step that is caught."""

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint, fetch
from workers.workflows import NonRetryableError


class PythonWorkflowStarter(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do()
        async def first_step():
            return {"files": ["doc_7392_rev3.pdf", "report_x29_final.pdf"]}

        @step.do("call an API")
        async def call_api(first_step):
            response = await fetch("https://api.cloudflare.com/client/v4/ips")
            data = await response.json()
            return {"files": first_step["files"], "ips": data}

        await call_api()
        await step.sleep("wait on something", "1 minute")

        @step.do(
            "make a call to write that could fail",
            config={
                "retries": {"limit": 5, "delay": "5 seconds", "backoff": "exponential"},
                "timeout": "15 minutes",
            },
        )
        async def write():
            result = await self.env.STORE.write(event["payload"])
            if not result["ok"]:
                raise NonRetryableError("cannot be written")

        try:
            await write()
        except NonRetryableError as error:
            return {"error": str(error)}
        return {"ok": True}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if "favicon" in request.url:
            return Response("", status=404)
        instance = await self.env.MY_WORKFLOW.create()
        status = await instance.status()
        return Response.json({"status": status})
