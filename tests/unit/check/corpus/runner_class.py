"""The steps of a workflow in a class of their own, which holds `step`, and in functions that take it."""

import asyncio
from dataclasses import asdict, dataclass

from workers import WorkflowEntrypoint


@dataclass
class Page:
    url: str
    links: list


class Crawler:
    def __init__(self, env, step):
        self.env = env
        self.step = step
        self.visited = set()
        self.failed = []

    async def visit(self, url):
        if url in self.visited:
            return []
        self.visited.add(url)

        @self.step.do(f"visit {url}", config={"retries": {"limit": 2, "delay": "10 seconds"}})
        async def load():
            html = await self.env.BROWSER.render(url)
            links = []
            for line in html.splitlines():
                if line.startswith("http"):
                    links.append(line)
            return asdict(Page(url, links))

        try:
            page = await load()
        except Exception:
            self.failed.append(url)
            return []
        return page["links"]


async def settle(step, minutes):
    await step.sleep("settle", f"{minutes} minutes")


class Crawl(WorkflowEntrypoint):
    async def run(self, event, step):
        crawler = Crawler(self.env, step)
        frontier = [event["payload"]["start"]]
        for depth in range(3):
            found = await asyncio.gather(*map(crawler.visit, frontier))
            frontier = sorted({link for links in found for link in links})
            await settle(step, depth + 1)
        return {"visited": sorted(crawler.visited), "failed": crawler.failed}
