"""Drives the conformance worker over HTTP: performs a scenario and gives its trace.

The worker answers `POST /` with a call `{"op", "id", "args"}` by `{"ok": …}` or `{"error": {"name", "message"}}`; the log of
steps comes from the explorer API. A scenario has

- `program`: what the workflow does, which the worker interprets; without one no instance is created;
- `timeline`: the operations to perform meanwhile, each of which may wait `after` a condition;
- `until`: the statuses that end it (final ones unless it says otherwise), `limit`: how many seconds to wait for any condition;
- `settle`: how many milliseconds to let pass at the end;
- `unordered`: its branches race, so that effects and steps are sorted.

`$ID` stands for the instance's id and `$SUFFIX` for its end, which is drawn for each run.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import httpx

from emulator.timing.clock import Clock
from tests.conformance.traces import Json, step_trace, tidied

WORKFLOW = "scenario"
FINAL = "complete|errored|terminated"
GONE = "gone"
"""The status of an instance that does not exist (any more)."""

LIMIT_S = 15
POLL_MS = 20

Scenario = dict[str, Any]


class Worker:
    """The worker of a running project."""

    def __init__(self, client: httpx.AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

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
        return ((await self._client.get(path)).json()["result"] or {}).get("steps") or []

    async def comes_true(self, condition: dict[str, Any], instance_id: str, limit_s: int) -> bool:
        """Wait for a condition; whether it came in time."""
        if "ms" in condition:
            await self._pass(condition["ms"])
            return True
        try:
            async with asyncio.timeout(limit_s):
                while not await self._is_true(condition, instance_id):
                    await self._pass(POLL_MS)
        except TimeoutError:
            return False
        return True

    async def _is_true(self, condition: dict[str, Any], instance_id: str) -> bool:
        match condition:
            case {"status": statuses}:
                return (await self.status(instance_id))["status"] in statuses.split("|")
            case {"step": name}:
                return any(step["name"] == name for step in await self.steps(instance_id))
            case {"effect": effect}:
                return effect in await self.effects(instance_id)
            case _:
                raise ValueError(f"no such condition: {condition}")

    async def _pass(self, duration_ms: int) -> None:
        passed = asyncio.Event()
        self._clock.call_at(self._clock.now_ms() + duration_ms, passed.set)
        await passed.wait()


async def perform(worker: Worker, scenario: Scenario) -> Json:
    """Perform a scenario from beginning to end; its trace."""
    return tidied(await _Performance(worker, scenario).trace())


class _Performance:
    """One run of one scenario."""

    def __init__(self, worker: Worker, scenario: Scenario) -> None:
        self._worker = worker
        self._scenario = scenario
        self._suffix = uuid.uuid4().hex[:8]
        self._id = f"{scenario.get('id', 's')}-{self._suffix}"
        self._limit_s: int = scenario.get("limit", LIMIT_S)

    async def trace(self) -> dict[str, Json]:
        operations: list[Json] = []
        if "program" in self._scenario:
            params = {"program": self._scenario["program"], "input": self._scenario.get("input")}
            created = {"op": "create", "args": [{"id": "$ID", "params": params}]}
            operations.append(await self._operation(created))
        for entry in self._scenario.get("timeline", []):
            operations.append(await self._timeline_entry(entry))
        if "program" not in self._scenario:
            return {"operations": operations}
        return {"operations": operations, **await self._end()}

    async def _timeline_entry(self, entry: dict[str, Any]) -> Json:
        after = entry.get("after")
        if after and not await self._worker.comes_true(after, self._id, self._limit_s):
            return {"op": entry["call"]["op"], "never": after}
        return await self._operation(entry["call"])

    async def _operation(self, call: dict[str, Any]) -> Json:
        text = json.dumps(call.get("args", []))
        args = json.loads(text.replace("$ID", self._id).replace("$SUFFIX", self._suffix))
        # The recorded calls name their instance with `$SUFFIX` as it is: it is an id that is not allowed.
        instance_id = call.get("id", self._id).replace("$ID", self._id)
        answer = json.dumps(await self._worker.call(call["op"], instance_id, *args))
        anonymous = answer.replace(self._id, "$ID").replace(self._suffix, "$SUFFIX")
        return {"op": call["op"], **json.loads(anonymous)}

    async def _end(self) -> dict[str, Json]:
        """Wait for the end; how the instance is then."""
        until = {"status": self._scenario.get("until", FINAL)}
        await self._worker.comes_true(until, self._id, self._limit_s)
        await self._worker.comes_true({"ms": self._scenario.get("settle", 0)}, self._id, 0)
        status = await self._worker.status(self._id)
        effects = await self._worker.effects(self._id)
        steps = [step_trace(step) for step in await self._worker.steps(self._id)]
        if self._scenario.get("unordered"):
            effects.sort()
            steps.sort(key=lambda step: str(step["name"]))
        return {"status": status, "effects": [*effects], "steps": [*steps]}
