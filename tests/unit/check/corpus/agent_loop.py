"""An agent: a model is asked in turns, its tools run in steps, the conversation is kept in a list of step results."""

import json

from workers import WorkflowEntrypoint, fetch
from workers.workflows import NonRetryableError

MAX_TURNS = 8
MODEL = "gpt-4o-mini"


class ResearchAgent(WorkflowEntrypoint):
    async def run(self, event, step):
        messages = [{"role": "user", "content": event["payload"]["question"]}]

        async def ask_model(turn):
            @step.do(
                f"ask the model, turn {turn}",
                config={
                    "retries": {"limit": 3, "delay": "5 seconds", "backoff": "exponential"},
                    "timeout": "2 minutes",
                },
            )
            async def completion():
                response = await fetch(
                    "https://api.openai.com/v1/chat/completions",
                    method="POST",
                    headers={"Authorization": f"Bearer {self.env.OPENAI_API_KEY}"},
                    body=json.dumps({"model": MODEL, "messages": messages}),
                )
                if response.status == 401:
                    raise NonRetryableError("the key is wrong")
                body = await response.json()
                return body["choices"][0]["message"]

            return await completion()

        async def run_tool(turn, call):
            @step.do(f"tool {call['name']} {turn}")
            async def tool():
                if call["name"] == "search":
                    found = await self.env.VECTORIZE.query(call["arguments"]["query"])
                    return [match["id"] for match in found["matches"]]
                if call["name"] == "read":
                    return await self.env.DOCUMENTS.get(call["arguments"]["key"])
                return f"there is no tool {call['name']}"

            return await tool()

        for turn in range(MAX_TURNS):
            reply = await ask_model(turn)
            messages.append(reply)
            calls = reply.get("tool_calls") or []
            if not calls:
                return {"answer": reply["content"], "turns": turn + 1}
            for call in calls:
                result = await run_tool(turn, call)
                messages.append({"role": "tool", "content": json.dumps(result)})
        return {"answer": None, "turns": MAX_TURNS}
