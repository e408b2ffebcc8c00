"""Hooks of a `dev` process, asked by other processes over sockets."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from bindings.wire import PREFIX
from tests.unit.cli.process import PATIENCE_S, dev, write_project
from tests.unit.rest.emulated import REMOTE

PROCESSES = 4
REQUESTS = 50

ENTRY = """
from workers import WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        if event.payload:
            updates = step.create_hook(token=event.payload["token"])
            return await updates
        webhook = step.create_webhook(respond_with="manual")
        await step.set_attributes({"url": webhook.url})
        request = await webhook

        @step.do("answer")
        async def answer():
            from workers import Response

            await request.respond_with(Response(await request.text(), 201))
            return request.url

        return await answer()
"""


def create(url: str) -> tuple[int, dict[str, Any]]:
    """Create an instance that claims the one token; status and answer."""
    body = {"params": {"token": "order:1"}, "hook": "order:1"}
    answer = httpx.post(f"{url}{REMOTE}/orders/instances", json=body, timeout=PATIENCE_S)
    return answer.status_code, answer.json()


def create_many(url: str, count: int) -> list[tuple[int, dict[str, Any]]]:
    """Create at once, one thread a request."""
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(create, [url] * count))


def test_of_fifty_creations_by_four_processes_one_wins(tmp_path: Path) -> None:
    shares = [len(range(each, REQUESTS, PROCESSES)) for each in range(PROCESSES)]
    spawned = multiprocessing.get_context("spawn")
    with dev(write_project(tmp_path, ENTRY)) as server:
        with ProcessPoolExecutor(PROCESSES, mp_context=spawned) as processes:
            parts = processes.map(create_many, [server.url] * PROCESSES, shares)
            answers = [answer for part in parts for answer in part]
        assert len(answers) == REQUESTS
        [winner] = [answer["result"] for status, answer in answers if status == 200]
        refused = [answer["errors"][0] for status, answer in answers if status == 409]
        assert len(refused) == REQUESTS - 1
        assert {each["code"] for each in refused} == {"hook_conflict"}
        assert {each["conflictingRunId"] for each in refused} == {winner["id"]}
        [row] = server.get(f"{REMOTE}/orders/instances").json()["result"]
        assert row["id"] == winner["id"]
        resumed = server.post(f"{PREFIX}/hooks/order%3A1/resume", {"paid": True})
        assert resumed.json()["result"]["runId"] == winner["id"]
        result = server.get(f"{PREFIX}/orders/instances/{winner['id']}/result?wait=30s")
        assert result.json()["result"] == {"paid": True}


def test_the_address_of_a_webhook_is_where_the_process_listens(tmp_path: Path) -> None:
    with dev(write_project(tmp_path, ENTRY)) as server:
        made = server.post(f"{REMOTE}/orders/instances", {"instance_id": "a"})
        assert made.status_code == 200
        # Its hooks are there before it waits; the only one is the webhook.
        hooks: list[Any] = []
        while not hooks:
            hooks = server.get(f"{PREFIX}/orders/instances/a/hooks").json()["result"]
        address = f"{server.url}/.well-known/workflow/v1/webhook/{hooks[0]['token']}"
        answer = httpx.put(address, content="hello", headers={"host": "shop.example"})
        assert (answer.status_code, answer.text) == (201, "hello")
        result = server.get(f"{PREFIX}/orders/instances/a/result?wait=30s").json()["result"]
        assert result == address.replace(f"localhost:{server.port}", "shop.example")
        url = server.get(f"{PREFIX}/orders/instances/a").json()["attributes"]["url"]
        assert url == address
