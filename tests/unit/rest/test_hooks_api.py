"""The routes of our own about hooks, results and sleeps: their shapes, and a code for every refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from bindings import WorkflowStep
from bindings.wire import PREFIX
from emulator.domain.values import JsDict
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Journal
from emulator.journal.sqlite import SqliteJournal
from tests.unit.bindings.hosts import transport_to
from tests.unit.bindings.project import NAME, ONCE, Project, in_virtual_time, pause_for
from tests.unit.rest.emulated import LOCAL, emulated
from wrangler_compat.server import Access

TOKEN = "order:1/ä b?"
IN_PATH = "order%3A1%2F%C3%A4%20b%3F"


@dataclass
class Approval:
    """What the payloads of a hook must be."""

    approved: bool
    by: str = "nobody"


async def collects(event: JsDict, step: WorkflowStep) -> Any:
    """Opens the hook that its params name, and takes payloads until one says that it is the last."""
    hook = step.create_hook(**event.payload)
    taken: list[Any] = []
    async for payload in hook:
        taken.append(payload)
        if payload == "last" or isinstance(payload, Approval):
            break
    return taken


async def does(event: JsDict, step: WorkflowStep) -> Any:
    """Does what its params say."""
    kind = event.payload

    @step.do("work", config=ONCE)
    async def work() -> Any:
        if kind == "fail":
            raise ValueError("broken")
        return {"set": {1}, "bytes": b"ab", "none": None}

    if kind == "sleep":
        await step.sleep("nap", "1 day")
        await step.sleep("nap", "1 day")
    return await work()


class Client:
    """A client of the server of a project."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(
        self, method: str, path: str, body: Any = None, status: int = 200, **headers: str
    ) -> Any:
        """Send JSON below the prefix; the `result`, or the only error."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.http.request(
            method, f"http://localhost{PREFIX}{path}", json=body, headers=sent
        )
        envelope = answer.json()
        assert answer.status_code == status, envelope
        assert envelope["success"] is (status < 400)
        if status < 400:
            return envelope["result"]
        assert envelope["result"] is None
        [error] = envelope["errors"]
        return error

    async def code(self, method: str, path: str, body: Any = None, *, status: int) -> str:
        """The code of a refusal."""
        return (await self.ask(method, path, body, status))["code"]


@asynccontextmanager
async def client_of(project: Project, access: Access | None = None) -> AsyncGenerator[Client]:
    async with httpx.AsyncClient(transport=transport_to(project, access)) as http:
        yield Client(http)


@in_virtual_time
async def test_a_hook_is_looked_up_by_its_token() -> None:
    async with Project(collects) as project, client_of(project) as client:
        made = await project.workflow.create(
            id="a",
            params={"token": TOKEN},
            hook={"token": TOKEN, "metadata": {"raw": b"ab"}},
            min_retention="1 day",
        )
        hook = await client.ask("GET", f"/hooks/{IN_PATH}")
        created = hook.pop("createdAt")
        assert hook.pop("retainUntil") > created
        assert hook.pop("hookId").startswith("hook_")
        assert hook == {
            "token": TOKEN,
            "runId": "a",
            "workflowName": NAME,
            "status": "running",
            "metadata": {"raw": "[Uint8Array(2 bytes)]"},
            "isWebhook": False,
        }
        await client.ask("POST", f"/hooks/{IN_PATH}/resume", "last", 202)
        await project.ended(made)
        # Its token is retained: it is found, and takes nothing.
        assert (await client.ask("GET", f"/hooks/{IN_PATH}"))["status"] == "complete"
        error = await client.ask("POST", f"/hooks/{IN_PATH}/resume", 1, 404)
        assert (error["code"], error["token"]) == ("hook_not_found", TOKEN)
        await made.delete()
        assert await client.code("GET", f"/hooks/{IN_PATH}", status=404) == "hook_not_found"


@in_virtual_time
async def test_payloads_reach_the_run_by_both_forms() -> None:
    async with Project(collects) as project, client_of(project) as client:
        made = await project.workflow.create(id="a", params={"token": TOKEN}, hook=TOKEN)
        hook = await project.workflow.get_hook_by_token(TOKEN)
        answer = await client.ask("POST", f"/hooks/{IN_PATH}/resume", {"$": [1, None]}, 202)
        assert answer == {"runId": "a", "hookId": hook.hook_id, "resumeId": None}
        await client.ask("POST", f"/hooks/{IN_PATH}/resume", None, 202)
        await client.ask("POST", "/hooks/resume", {"token": TOKEN}, 202)
        await client.ask("POST", "/hooks/resume", {"token": TOKEN, "payload": "last"}, 202)
        assert (await project.ended(made)).output == [{"$": [1, None]}, None, None, "last"]


@in_virtual_time
async def test_an_idempotency_key_makes_two_requests_one() -> None:
    async with Project(collects) as project, client_of(project) as client:
        made = await project.workflow.create(params={"token": "t"}, hook="t")
        for _ in range(2):
            answer = await client.ask("POST", "/hooks/t/resume", {"n": 1}, 202, idempotency_key="k")
            assert answer["resumeId"] == "k"
        error = await client.ask("POST", "/hooks/t/resume", {"n": 2}, 409, idempotency_key="k")
        assert error["code"] == "resume_conflict"
        error = await client.ask("POST", "/hooks/t/resume", {"n": 2}, 400, idempotency_key="")
        assert error["code"] == "invalid_hook"
        await client.ask("POST", "/hooks/t/resume", "last", 202)
        assert (await project.ended(made)).output == [{"n": 1}, "last"]


@in_virtual_time
async def test_a_payload_is_checked_against_the_schema_of_the_hook() -> None:
    async with Project(schema_of_a_hook) as project, client_of(project) as client:
        made = await project.workflow.create(id="a")
        await project.becomes(made, "waiting")
        for wrong in ({"approved": "yes"}, {}, 5):
            error = await client.ask("POST", "/hooks/doc/resume", wrong, 422)
            assert error["code"] == "payload_invalid"
            assert error["message"].startswith("Hook payload did not match the defined schema:")
        await client.ask("POST", "/hooks/doc/resume", {"approved": True}, 202)
        assert (await project.ended(made)).output == {"approved": True, "by": "nobody"}


async def schema_of_a_hook(event: JsDict, step: WorkflowStep) -> Any:
    """Takes one payload that must be an approval."""
    approval = await step.create_hook(token="doc", schema=Approval)
    assert isinstance(approval, Approval)
    return vars(approval)


@in_virtual_time
async def test_nobody_takes_payloads_for_a_token_that_is_not_held() -> None:
    async def disposes(event: JsDict, step: WorkflowStep) -> None:
        with step.create_hook(token="t"):
            pass
        await step.sleep("rest", "1 day")

    async with Project(disposes) as project, client_of(project) as client:
        made = await project.workflow.create(hook="t")
        await project.becomes(made, "waiting")
        for path in ("/hooks/t/resume", "/hooks/unknown/resume"):
            assert await client.code("POST", path, 1, status=404) == "hook_not_found"
        body = {"token": "unknown", "payload": 1}
        assert await client.code("POST", "/hooks/resume", body, status=404) == "hook_not_found"


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/hooks/t/resume", "x" * 2**20 + "x", 413, "value.too_large"),
    ("POST", "/hooks/resume", {"payload": 1}, 400, "body"),
    ("POST", "/hooks/resume", {"token": 1}, 400, "body"),
    ("POST", "/hooks/resume", {"token": "t", "paylaod": 1}, 400, "body"),
    ("POST", "/hooks/resume", {"token": ""}, 400, "invalid_hook"),
    ("GET", "/hooks/%20", None, 400, "invalid_hook"),
    ("GET", "/hooks/" + "x" * 513, None, 400, "invalid_hook"),
    ("GET", "/hooks?per_page=101", None, 400, "body"),
    ("GET", "/hooks?cursor=soon", None, 400, "body"),
    ("GET", "/hooks?workflow=nothing", None, 404, "workflow.not_found"),
    ("GET", "/orders/instances/nobody/hooks", None, 404, "instance.not_found"),
    ("GET", "/nothing/instances/a/hooks", None, 404, "workflow.not_found"),
    ("GET", "/orders/instances/nobody/result", None, 404, "instance.not_found"),
    ("GET", "/nothing/instances/nobody/result", None, 404, "workflow.not_found"),
    ("GET", "/orders/instances/a/result?wait=1", None, 400, "body"),
    ("GET", "/orders/instances/a/result?wait=61s", None, 400, "body"),
    ("POST", "/orders/instances/nobody/wake-up", None, 404, "instance.not_found"),
    ("POST", "/orders/instances/a/wake-up", {"correlationIds": "nap-1"}, 400, "body"),
    ("POST", "/orders/instances/a/wake-up", {"correlation_ids": ["nap-1"]}, 400, "body"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED)
@in_virtual_time
async def test_a_refusal_has_its_status_and_code(
    method: str, path: str, body: Any, status: int, code: str
) -> None:
    async with Project(collects) as project, client_of(project) as client:
        await project.workflow.create(id="a", params={"token": "t"}, hook="t")
        assert await client.code(method, path, body, status=status) == code


@in_virtual_time
async def test_a_body_that_is_no_json_is_refused() -> None:
    async with Project(collects) as project, client_of(project) as client:
        await project.workflow.create(id="a", params={"token": "t"}, hook="t")
        for path in ("/hooks/t/resume", "/hooks/resume", "/orders/instances/a/wake-up"):
            url = f"http://localhost{PREFIX}{path}"
            answer = await client.http.post(url, content=b"{")
            assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "body")


@in_virtual_time
async def test_hooks_are_listed_page_by_page() -> None:
    async with Project(collects) as project, client_of(project) as client:
        for name in ("a", "b", "c"):
            await project.workflow.create(id=name, params={"token": name}, hook=name)
        listed: list[str] = []
        query = "per_page=2"
        while query:
            url = f"http://localhost{PREFIX}/hooks?{query}"
            answer = (await client.http.get(url)).json()
            listed += [each["token"] for each in answer["result"]]
            info = answer["result_info"]
            assert info["count"] == len(answer["result"]) <= info["per_page"] == 2
            query = f"per_page=2&cursor={info['cursor']}" if "cursor" in info else ""
        assert sorted(listed) == ["a", "b", "c"]
        of_b = await client.ask("GET", "/orders/instances/b/hooks")
        assert [each["runId"] for each in of_b] == ["b"]
        assert await client.ask("GET", "/hooks?instance_id=b&workflow=orders") == of_b
        assert await client.ask("GET", "/hooks?instance_id=x") == []


@pytest.mark.parametrize("journal", [MemoryJournal, lambda: SqliteJournal(":memory:")])
async def test_hooks_of_one_moment_are_listed_once(journal: Callable[[], Journal]) -> None:
    async with emulated(journal=journal()) as server:
        for number in range(5):
            await server.result("POST", f"{LOCAL}/waits/instances", {"hook": f"t{number}"})
        listed: list[str] = []
        query = "per_page=2"
        while query:
            answer = (await server.client.get(f"{PREFIX}/hooks?{query}")).json()
            listed += [each["token"] for each in answer["result"]]
            cursor = answer["result_info"].get("cursor")
            query = f"per_page=2&cursor={cursor}" if cursor else ""
        assert sorted(listed) == ["t0", "t1", "t2", "t3", "t4"]


@in_virtual_time
async def test_a_retention_that_is_over_is_not_listed() -> None:
    async with Project(collects) as project, client_of(project) as client:
        made = await project.workflow.create(
            id="a", params={"token": "t"}, hook="t", min_retention="1 hour"
        )
        await project.workflow.resume_hook("t", "last")
        await project.ended(made)
        assert [each["token"] for each in await client.ask("GET", "/hooks")] == ["t"]
        await pause_for(3_600)
        assert await client.ask("GET", "/hooks") == []
        assert await client.code("GET", "/hooks/t", status=404) == "hook_not_found"


@in_virtual_time
async def test_a_result_is_waited_for() -> None:
    async with Project(collects) as project, client_of(project) as client:
        made = await project.workflow.create(id="a", params={"token": "t"}, hook="t")
        path = "/orders/instances/a/result"
        assert await client.ask("GET", path, status=202) is None
        began_ms = project.now_ms()
        assert await client.ask("GET", path + "?wait=50s", status=202) is None
        assert project.now_ms() - began_ms >= 50_000
        waiting = asyncio.create_task(client.ask("GET", path + "?wait=60s"))
        await client.ask("POST", "/hooks/t/resume", "last", 202)
        assert await waiting == ["last"]
        assert await client.ask("GET", path) == ["last"]
        await made.delete()
        assert await client.code("GET", path, status=404) == "instance.not_found"


@in_virtual_time
async def test_a_result_is_shown_as_json() -> None:
    async with Project(does) as project, client_of(project) as client:
        await project.workflow.create(id="a")
        shown = await client.ask("GET", "/orders/instances/a/result?wait=5s")
        assert shown == {"set": {}, "bytes": "[Uint8Array(2 bytes)]", "none": None}


@in_virtual_time
async def test_a_run_that_failed_or_was_cancelled_has_no_result() -> None:
    async with Project(does) as project, client_of(project) as client:
        await project.workflow.create(id="a", params="fail")
        error = await client.ask("GET", "/orders/instances/a/result?wait=5s", status=409)
        assert error.pop("message")
        assert error == {
            "code": "run.failed",
            "runId": "a",
            "errorName": "ValueError",
            "errorMessage": "broken",
        }
        made = await project.workflow.create(id="b", params="sleep")
        await made.terminate()
        error = await client.ask("GET", "/orders/instances/b/result", status=409)
        assert (error["code"], error["runId"]) == ("run.cancelled", "b")


@in_virtual_time
async def test_sleeps_are_ended_before_their_time() -> None:
    async with Project(does) as project, client_of(project) as client:
        made = await project.workflow.create(id="a", params="sleep")
        await project.becomes(made, "waiting")
        began_ms = project.now_ms()
        path = "/orders/instances/a/wake-up"
        assert await client.ask("POST", path, {"correlationIds": ["nap-2"]}) == {"stoppedCount": 0}
        assert await client.ask("POST", path, {"correlationIds": ["nap-1"]}) == {"stoppedCount": 1}
        await project.becomes(made, "waiting")
        assert await client.ask("POST", path) == {"stoppedCount": 1}
        await project.ended(made)
        assert project.now_ms() - began_ms < 86_400_000
        assert await client.code("POST", path, status=409) == "conflict"


@in_virtual_time
async def test_only_who_may_ask_is_answered() -> None:
    async with Project(collects) as project:
        await project.workflow.create(id="a", params={"token": "t"}, hook="t")
        async with client_of(project, Access("secret")) as client:
            for path in ("/hooks", "/hooks/t", "/orders/instances/a/result"):
                await client.ask("GET", path, status=403)
                await client.ask("GET", path, status=403, authorization="Bearer guess")
            await client.ask("POST", "/hooks/t/resume", 1, 403)
            await client.ask("GET", "/hooks/t", authorization="Bearer secret")
        async with client_of(project) as client:
            await client.ask("POST", "/hooks/t/resume", 1, 403, origin="https://evil.example")
            await client.ask("POST", "/hooks/t/resume", 1, 403, host="evil.example")


@in_virtual_time
async def test_a_stopped_engine_is_said() -> None:
    async with Project(collects) as project, client_of(project) as client:
        await project.workflow.create(id="a", params={"token": "t"}, hook="t")
        await project.engine.close()
        for path in ("/hooks/t", "/orders/instances/a/hooks", "/orders/instances/a/result"):
            assert await client.code("GET", path, status=500) == "engine.stopped"
