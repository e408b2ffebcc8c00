"""Pure computing between the steps: copies, sorting and counting, all of what steps have returned."""

import copy
from collections import Counter, defaultdict

from workers import WorkflowEntrypoint


class Clean(WorkflowEntrypoint):
    async def run(self, event, step):
        settings = dict(event["payload"].get("settings", {}))
        settings["threshold"] = settings.get("threshold", 3)

        @step.do("load")
        async def load():
            return await self.env.TABLE.rows(event["payload"]["table"])

        rows = await load()
        rows.sort(key=lambda row: row["name"])
        by_city = defaultdict(list)
        for row in rows:
            by_city[row["city"]].append(row["name"])
        common = Counter(row["city"] for row in rows)
        rare = {city for city, count in common.items() if count < settings["threshold"]}

        @step.do("save")
        async def save():
            kept = copy.deepcopy(rows)
            for row in kept:
                row["rare"] = row["city"] in rare
            await self.env.TABLE.replace(event["payload"]["table"], kept)
            return {"kept": len(kept), "rare": sorted(rare)}

        saved = await save()
        saved["cities"] = len(by_city)
        return saved
