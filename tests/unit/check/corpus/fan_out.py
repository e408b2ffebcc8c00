"""One step for each of many parts, side by side; the results are collected from what the steps return."""

import asyncio
import time

from workers import WorkflowEntrypoint


class Thumbnails(WorkflowEntrypoint):
    async def run(self, event, step):
        keys = event["payload"]["keys"]
        sizes = event["payload"].get("sizes", [64, 256])
        wanted = sorted({(key, size) for key in keys for size in sizes})
        began = time.monotonic()

        async def resize(key, size):
            @step.do(f"resize {key} to {size}", config={"timeout": "1 minute"})
            async def callback():
                image = await self.env.IMAGES.get(key)
                small = await self.env.RESIZER.resize(image, width=size)
                target = f"{key}@{size}"
                await self.env.IMAGES.put(target, small)
                return target

            return await callback()

        stored = await asyncio.gather(*(resize(key, size) for key, size in wanted))
        outcomes = await asyncio.gather(
            *[resize(key, 1024) for key in keys], return_exceptions=True
        )
        failed = [str(one) for one in outcomes if isinstance(one, Exception)]
        print(f"took {time.monotonic() - began:.1f} s in this process")
        seen = set(stored)
        missing = [key for key in keys if f"{key}@64" not in seen]
        return {"stored": stored, "failed": failed, "missing": missing}
