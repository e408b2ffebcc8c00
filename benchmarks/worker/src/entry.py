"""What the benchmarks run: steps that do nothing, and a wait."""

import asyncio
import time

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Steps(WorkflowEntrypoint):
    spans = []  # how long each run took, in seconds

    async def run(self, event, step):
        pause_s = event.payload.get("seconds", 0)
        began = time.perf_counter()
        for number in range(event.payload["steps"]):

            @step.do(f"step {number}")
            async def nothing():
                if pause_s:
                    await asyncio.sleep(pause_s)
                return {"done": True}

            await nothing()
        self.spans.append(time.perf_counter() - began)
        return "ok"


class Waiter(WorkflowEntrypoint):
    async def run(self, event, step):
        answer = await step.wait_for_event("answer", "answer", timeout="1 hour")
        return answer.payload


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        instance = await self.env.STEPS.create(params={"steps": 1})
        while True:
            status = await instance.status()
            if status.status == "complete":
                return Response.json(status)
