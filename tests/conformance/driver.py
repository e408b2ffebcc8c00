"""Drives the conformance worker: performs a scenario on a project of its own, in virtual time, and gives its trace.

The project is assembled as `workflow-emulator dev` does it; requests reach its application without a socket, and the
journal is in memory. In virtual time a scenario's milliseconds mean the same on every machine.

The worker answers `POST /` with a call `{"op", "id", "args"}` by `{"ok": …}` or `{"error": {"name", "message"}}`; the log of
steps comes from the explorer API. A scenario has

- `program`: what the workflow does, which the worker interprets; without one no instance is created;
- `timeline`: the operations to perform meanwhile, each of which may wait `after` a condition;
- `until`: the statuses that end it (final ones unless it says otherwise), `limit`: how many seconds to wait for a condition;
- `settle`: how many milliseconds to let pass at the end;
- `unordered`: its branches race, so that effects and steps are sorted.

`$ID` stands for the instance's id, which ends in `$SUFFIX`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import LoopClock
from emulator.testing.loop import run
from emulator.timing.clock import SystemClock
from tests.conformance.traces import Json, step_trace, tidied
from wrangler_compat.config import load_config
from wrangler_compat.project import open_project

Scenario = dict[str, Any]

WORKER = Path(__file__).with_name("worker")
WORKFLOW = "scenario"
SUFFIX = "6b1f0c2e"
FINAL = "complete|errored|terminated"
GONE = "gone"
"""The status of an instance that does not exist (any more)."""
LIMIT_S = 15
POLL_S = 0.02


def perform(scenario: Scenario) -> Json:
    """Perform a scenario from beginning to end; its trace."""
    return tidied(run(_perform(scenario)))


async def _perform(scenario: Scenario) -> dict[str, Json]:
    # The worker reads the machine's clock for `sleepUntil`: virtual time begins where that is.
    clock = LoopClock(SystemClock().now_ms())
    opening = open_project(load_config(WORKER), MemoryJournal(), clock, fast_retries=True)
    async with opening as project:
        transport = httpx.ASGITransport(project.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await _Performance(scenario, Worker(client)).trace()


class Worker:
    """The worker of a running project."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def call(self, op: str, instance_id: str, *args: Json) -> dict[str, Any]:
        """Have the worker perform an operation; its answer."""
        body = {"op": op, "id": instance_id, "args": args}
        return (await self._client.post("/", json=body)).json()

    async def status(self, instance_id: str) -> dict[str, Any]:
        """The status of an instance with its output and error."""
        return (await self.call("status", instance_id)).get("ok") or {"status": GONE}

    async def effects(self, instance_id: str) -> list[str]:
        """What the callbacks of an instance did, in order."""
        return (await self.call("effects", instance_id))["ok"]

    async def steps(self, instance_id: str) -> list[dict[str, Any]]:
        """The log of steps of an instance; empty when there is no instance."""
        path = f"/cdn-cgi/explorer/api/workflows/{WORKFLOW}/instances/{instance_id}"
        result: dict[str, Any] | None = (await self._client.get(path)).json()["result"]
        return result["steps"] if result else []


class _Performance:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, worker: Worker) -> None:
        self._scenario = scenario
        self._worker = worker
        self._id = f"{scenario.get('id', 's')}-{SUFFIX}"

    async def trace(self) -> dict[str, Json]:
        operations: list[Json] = []
        if "program" in self._scenario:
            params = {"program": self._scenario["program"], "input": self._scenario.get("input")}
            created = {"op": "create", "args": [{"id": "$ID", "params": params}]}
            operations.append(await self._operation(created))
        operations += [await self._entry(entry) for entry in self._scenario.get("timeline", [])]
        if "program" not in self._scenario:
            return {"operations": operations}
        return {"operations": operations, **await self._end()}

    async def _entry(self, entry: dict[str, Any]) -> Json:
        """Perform an entry of the timeline, unless what it waits for never comes."""
        if "after" in entry and not await self._comes_true(entry["after"]):
            return {"op": entry["call"]["op"], "never": entry["after"]}
        return await self._operation(entry["call"])

    async def _operation(self, call: dict[str, Any]) -> Json:
        text = json.dumps(call.get("args", []))
        args = json.loads(text.replace("$ID", self._id).replace("$SUFFIX", SUFFIX))
        # As it was recorded: a `$SUFFIX` in the id of a call stays, and makes the id one that is not allowed.
        instance_id = call.get("id", self._id).replace("$ID", self._id)
        answer = json.dumps(await self._worker.call(call["op"], instance_id, *args))
        anonymous = answer.replace(self._id, "$ID").replace(SUFFIX, "$SUFFIX")
        return {"op": call["op"], **json.loads(anonymous)}

    async def _end(self) -> dict[str, Json]:
        """Wait for the end; how the instance is then."""
        await self._comes_true({"status": self._scenario.get("until", FINAL)})
        await self._comes_true({"ms": self._scenario.get("settle", 0)})
        status = await self._worker.status(self._id)
        effects = await self._worker.effects(self._id)
        steps = [step_trace(step) for step in await self._worker.steps(self._id)]
        if self._scenario.get("unordered"):
            effects.sort()
            steps.sort(key=lambda step: str(step["name"]))
        return {"status": status, "effects": [*effects], "steps": [*steps]}

    async def _comes_true(self, condition: dict[str, Any]) -> bool:
        """Wait for a condition; whether it came in time."""
        if "ms" in condition:
            await asyncio.sleep(condition["ms"] / 1000)
            return True
        try:
            async with asyncio.timeout(self._scenario.get("limit", LIMIT_S)):
                while not await self._is_true(condition):  # noqa: ASYNC110 - HTTP does not notify
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return False
        return True

    async def _is_true(self, condition: dict[str, Any]) -> bool:
        match condition:
            case {"status": statuses}:
                return (await self._worker.status(self._id))["status"] in statuses.split("|")
            case {"step": name}:
                return any(step["name"] == name for step in await self._worker.steps(self._id))
            case {"effect": effect}:
                return effect in await self._worker.effects(self._id)
            case _:
                raise ValueError(f"no such condition: {condition}")
