"""DBOS on SQLite, on asyncio; who waits for a message polls once a second, as is its default."""

import asyncio
import contextlib

import protocol
from dbos import DBOS, SetWorkflowID

HOUR_S = 3600


@DBOS.step()
async def nothing(seconds):
    if seconds:
        await asyncio.sleep(seconds)
    return {"done": True}


@DBOS.workflow()
async def work(steps, seconds):
    for _ in range(steps):
        await nothing(seconds)


@DBOS.workflow()
async def waiter():
    return await DBOS.recv_async("answer", timeout_seconds=HOUR_S)


class Engine:
    def __init__(self):
        self.results = []

    async def create(self, ids, steps, seconds):
        await asyncio.gather(*(self.start(identity, work, steps, seconds) for identity in ids))

    async def start(self, identity, workflow, *arguments):
        with SetWorkflowID(identity):
            handle = await DBOS.start_workflow_async(workflow, *arguments)
        self.results.append(asyncio.create_task(handle.get_result()))

    async def park(self, identity):
        await self.start(identity, waiter)

    async def send(self, identity):
        await DBOS.send_async(identity, {"n": 1}, "answer")

    async def finished(self, ids):
        if self.results:
            return sum(each.done() and not each.exception() for each in self.results)
        return len(
            await DBOS.list_workflows_async(status="SUCCESS", load_input=False, load_output=False)
        )


@contextlib.asynccontextmanager
async def opened(folder):
    DBOS(config={"name": "peer", "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}"})
    DBOS.launch()
    yield Engine()


if __name__ == "__main__":
    protocol.main(opened)
