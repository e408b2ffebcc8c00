"""Unhinged: one asynchronous worker, which polls every 0.25 s as is its default."""

import asyncio
import contextlib
import sqlite3

import protocol
from unhinged import AsyncUnhinged

CONCURRENCY = 100


class Engine:
    def __init__(self, folder):
        self.app = AsyncUnhinged(str(folder / "unhinged.db"))
        self.app.register_task("steps")(self.steps)
        self.app.register_task("waiter")(self.waiter)
        self.db = sqlite3.connect(folder / "unhinged.db")

    async def steps(self, params, ctx):
        async def nothing():
            if params["seconds"]:
                await asyncio.sleep(params["seconds"])
            return {"done": True}

        for number in range(params["steps"]):
            await ctx.step(f"step {number}", nothing)

    async def waiter(self, params, ctx):
        return await ctx.await_event(params["event"], timeout=3600)

    async def create(self, ids, steps, seconds):
        for number, identity in enumerate(ids):
            self.app.spawn("steps", {"steps": steps, "seconds": seconds}, idempotency_key=identity)
            if number % 20 == 0:
                await asyncio.sleep(0)  # the calls do not yield, and the worker is on this loop

    async def park(self, identity):
        task = self.app.spawn("waiter", {"event": identity})
        while self.app.fetch_task_result(task["task_id"]).state != "sleeping":
            await asyncio.sleep(0.001)

    async def send(self, identity):
        self.app.emit_event(identity, {"n": 1})

    async def finished(self, ids):
        # The SDK's own count goes over every step.
        counted = "SELECT count(*) FROM t_default WHERE state = 'completed'"
        return self.db.execute(counted).fetchone()[0]


@contextlib.asynccontextmanager
async def opened(folder):
    engine = Engine(folder)
    worker = asyncio.create_task(engine.app.start_worker(concurrency=CONCURRENCY))
    yield engine
    worker.cancel()


if __name__ == "__main__":
    protocol.main(opened)
