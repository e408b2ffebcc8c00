"""A file is imported page by page; children do the work, created in a step under ids that no second one can have."""

import csv
import io

from workers import WorkflowEntrypoint

PAGE = 100
RETRYING = {"retries": {"limit": 10, "delay": 1000, "backoff": "linear"}, "timeout": 60_000}


def pages(rows):
    for start in range(0, len(rows), PAGE):
        yield rows[start : start + PAGE]


class Import(WorkflowEntrypoint):
    async def run(self, event, step):
        key = event["payload"]["key"]

        @step.do("read the file", config=RETRYING)
        async def read():
            stored = await self.env.UPLOADS.get(key)
            text = await stored.text()
            return [dict(row) for row in csv.DictReader(io.StringIO(text))]

        rows = await read()
        children = []
        for number, page in enumerate(pages(rows)):

            async def start_page(number, page):
                @step.do(f"start page {number}", config=RETRYING)
                async def start():
                    batch = [
                        {"id": f"{event['instanceId']}-{number}-{at}", "params": row}
                        for at, row in enumerate(page)
                    ]
                    made = await self.env.ROWS.create_batch(batch)
                    return [child.id for child in made]

                return await start()

            children.extend(await start_page(number, page))
            await step.sleep(f"breathe {number}", "1 second")

        for child_id in children:
            child = await self.env.ROWS.get(child_id)
            if (await child.status())["status"] == "errored":
                return {"imported": False, "failed": child_id}
        return {"imported": True, "rows": len(children)}


class Row(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("insert")
        async def insert():
            statement = self.env.DB.prepare("INSERT OR IGNORE INTO rows VALUES (?, ?)")
            await statement.bind(event["instanceId"], str(event["payload"])).run()

        await insert()
