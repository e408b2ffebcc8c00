"""A nightly report: the scheduled time comes with the event, and the next run is computed from it."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from workers import WorkerEntrypoint, WorkflowEntrypoint


class NightlyReport(WorkflowEntrypoint):
    async def run(self, event, step):
        started = event["timestamp"]
        day = started.astimezone(ZoneInfo("Europe/Vienna")).date().isoformat()

        @step.do(f"query {day}")
        async def rows():
            result = await self.env.DB.prepare("SELECT * FROM sales WHERE day = ?").bind(day).all()
            totals = {}
            for row in result["results"]:
                totals[row["shop"]] = totals.get(row["shop"], 0) + row["amount_cents"]
            return totals

        @step.do(f"store {day}")
        async def store():
            totals = await_totals
            key = f"reports/{day}.json"
            await self.env.REPORTS.put(key, str(totals))
            return key

        await_totals = await rows()
        key = await store()
        if started.weekday() == 6:
            await step.sleep_until("until Monday noon", started + timedelta(hours=12))

            @step.do("publish the week")
            async def publish():
                await self.env.QUEUE.send({"id": f"week-{day}", "report": key})

            await publish()
        return {"key": key, "shops": len(await_totals)}


class Default(WorkerEntrypoint):
    async def scheduled(self, controller, env, ctx):
        await self.env.NIGHTLY.create(params={"cron": controller.cron})
