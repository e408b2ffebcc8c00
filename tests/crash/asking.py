"""Single requests to the process, for tests that need no crowd of clients."""

from __future__ import annotations

import asyncio

import httpx

from tests.crash.clients import API, TERMINAL
from tests.crash.victim import PATIENCE_S


async def create(url: str, workflow: str, instance: str, params: object = None) -> bool:
    """Create an instance; whether that was acknowledged."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
        try:
            answer = await http.post(
                f"{API}/{workflow}/instances", json={"id": instance, "params": params}
            )
        except httpx.TransportError:
            return False
        return answer.status_code == 200


async def output_of(url: str, workflow: str, instance: str) -> object:
    """Wait until an instance is complete; its output."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http, asyncio.timeout(60):
        while True:
            answer = await http.get(f"{API}/{workflow}/instances/{instance}")
            assert answer.status_code == 200, answer.text
            told = answer.json()["result"]
            if told["status"] in TERMINAL:
                assert told["status"] == "complete", told
                return told["output"]
            await asyncio.sleep(0.05)


async def statuses_of(url: str, workflow: str) -> dict[str, str]:
    """The statuses of a workflow's instances, at most 100, by id."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
        answer = await http.get(f"{API}/{workflow}/instances", params={"per_page": 100})
        assert answer.status_code == 200, answer.text
        return {row["id"]: row["status"] for row in answer.json()["result"]}
