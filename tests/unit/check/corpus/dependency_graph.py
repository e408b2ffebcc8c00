"""Steps that depend on one another, by parameter name and by `depends`."""

import datetime

from workers import WorkflowEntrypoint


class Pipeline(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("extract")
        async def extract():
            stamp = datetime.datetime.now(datetime.timezone.utc).isoformat()
            return {"rows": [1, 2, 3], "read_at": stamp}

        @step.do("clean", depends=[extract])
        async def clean(raw):
            rows = list(raw["rows"])
            rows.append(0)
            rows.sort()
            return rows

        @step.do("enrich", depends=[extract])
        async def enrich(raw):
            enriched = {**raw, "source": "warehouse"}
            enriched["count"] = len(raw["rows"])
            return enriched

        @step.do("load", depends=[clean, enrich], concurrent=True)
        async def load(rows, enriched, ctx):
            print(f"attempt {ctx['attempt']} of {ctx['step']['name']}")
            return {"rows": rows, **enriched}

        return await load()
