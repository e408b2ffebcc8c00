"""A job elsewhere is started once and asked about until it is done; the state is passed along, not kept."""

import httpx
from workers import WorkflowEntrypoint


class Render(WorkflowEntrypoint):
    async def run(self, event, step):
        scene = event["payload"]["scene"]

        @step.do("start the job")
        async def start():
            async with httpx.AsyncClient() as client:
                response = await client.post(
                    "https://render.example/jobs",
                    json={"scene": scene},
                    headers={"Idempotency-Key": event["instanceId"]},
                )
                response.raise_for_status()
                return response.json()["job"]

        async def poll(job, round_number):
            @step.do(f"poll {round_number}")
            async def ask():
                async with httpx.AsyncClient() as client:
                    response = await client.get(f"https://render.example/jobs/{job}")
                    return response.json()

            return await ask()

        job = await start()
        pause = 500
        for round_number in range(100):
            state = await poll(job, round_number)
            if state["status"] == "done":
                return state["url"]
            await step.sleep(f"pause {round_number}", pause)
            pause = min(pause * 2, 60_000)
        return None
