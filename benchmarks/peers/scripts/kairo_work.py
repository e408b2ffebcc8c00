"""Kairo on SQLite, in its process."""

import asyncio
import contextlib

import protocol
from kairo_sdk import EmbeddedBackend, Kairo, SQLiteStore


async def nothing(params, ctx):
    if params["seconds"]:
        await asyncio.sleep(params["seconds"])
    return {"done": True}


async def steps(ctx, params):
    for number in range(params["steps"]):
        await ctx.call("nothing", {"number": number, "seconds": params["seconds"]})


async def waiter(ctx, params):
    return await ctx.wait_for("answer", timeout=3600)


class Engine:
    def __init__(self, kairo):
        self.kairo = kairo
        self.results = []

    async def create(self, ids, steps, seconds):
        params = {"steps": steps, "seconds": seconds}
        await asyncio.gather(*(self.start(identity, "steps", params) for identity in ids))

    async def start(self, identity, workflow, params):
        await self.kairo.submit(workflow, params, id=identity)
        self.results.append(asyncio.create_task(self.kairo.result(identity)))

    async def park(self, identity):
        await self.start(identity, "waiter", {})

    async def send(self, identity):
        await self.kairo.signal(identity, "answer", {"n": 1})

    async def finished(self, ids):
        if self.results:
            return sum(each.done() and not each.exception() for each in self.results)
        return len(await self.kairo.list(status="completed"))


@contextlib.asynccontextmanager
async def opened(folder):
    kairo = Kairo(backend=await EmbeddedBackend.open(SQLiteStore(str(folder / "kairo.db"))))
    kairo.action("nothing", effect="unprotected")(nothing)  # may run again after a crash
    kairo.workflow("steps")(steps)
    kairo.workflow("waiter")(waiter)
    await kairo.start()
    yield Engine(kairo)


if __name__ == "__main__":
    protocol.main(opened)
