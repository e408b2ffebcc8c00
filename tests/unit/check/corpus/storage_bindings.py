"""R2, KV, D1 and a queue, each used in a step; variables of `env` are read where they are needed."""

import json
import random
import uuid

from workers import WorkflowEntrypoint


def jittered(failure):
    return 1000 * failure["ctx"]["attempt"] + random.randrange(500)


class Archive(WorkflowEntrypoint):
    async def run(self, event, step):
        base = self.env.API_BASE.rstrip("/")
        bucket = self.env.BUCKET

        @step.do("choose an id")
        async def choose():
            return str(uuid.uuid4())

        document_id = await choose()
        url = f"{base}/documents/{document_id}"

        @step.do("store", config={"retries": {"limit": 5, "delay": jittered}})
        async def store():
            body = json.dumps(event["payload"])
            await bucket.put(f"documents/{document_id}", body)
            await self.env.INDEX.put(document_id, url)
            await self.env.DB.prepare("INSERT INTO documents VALUES (?)").bind(document_id).run()
            return len(body)

        @step.do("announce")
        async def announce():
            await self.env.EVENTS.send({"document_id": document_id, "url": url})

        size = await store()
        if size > 1_000_000:
            return {"id": document_id, "big": True}
        await announce()
        return {"id": document_id, "big": False}
