"""One step, one sleep: a greeting that survives `kill -9`."""

from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint


class Hello(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("compose the greeting")
        async def compose() -> str:
            return f"Hello, {event['payload']['name']}!"

        greeting = await compose()
        await step.sleep("let it sink in", "10 seconds")
        return greeting


class Default(WorkerEntrypoint):
    """`POST /` with a name starts an instance; `GET /<id>` tells how it is."""

    async def fetch(self, request: Request) -> Response:
        if request.method == "POST":
            instance = await self.env.HELLO.create(params=await request.json())
            return Response.json({"id": instance.id}, status=202)
        try:
            instance = await self.env.HELLO.get(urlparse(request.url).path.strip("/"))
        except Exception as error:
            return Response.json({"error": str(error)}, status=404)
        return Response.json(await instance.status())
