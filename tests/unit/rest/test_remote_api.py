"""Cloudflare's REST API: the shapes that the SDK and wrangler read, and codes that make neither of them try again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from emulator.domain.status import InstanceStatus
from tests.unit.rest.emulated import REMOTE, Emulated, download, emulated

T0 = "2026-01-01T00:00:00.000Z"
AT_REST = "2026-01-01T00:00:00.005Z"
T60 = "2026-01-01T00:01:00.000Z"

CONFIG = {
    "retries": {"limit": 1, "delay": "1 second", "backoff": "exponential"},
    "timeout": "1 minute",
}


async def codes(server: Emulated, method: str, path: str, body: Any = None) -> tuple[int, int, str]:
    """The status, code and message of a refusal."""
    status, answer = await server.send(method, REMOTE + path, body)
    assert (answer["success"], answer["result"]) == (False, None)
    [error] = answer["errors"]
    return status, error["code"], error["message"]


async def create(server: Emulated, workflow: str, instance_id: str, params: Any = None) -> Any:
    body = {"instance_id": instance_id, "params": params}
    return await server.result("POST", f"{REMOTE}/{workflow}/instances", body)


async def identity(server: Emulated, workflow: str) -> tuple[str, str]:
    """The ids of a workflow and of its version."""
    [version] = await server.result("GET", f"{REMOTE}/{workflow}/versions")
    return version["workflow_id"], version["id"]


async def test_a_workflow_is_described_with_every_status_counted() -> None:
    async with emulated() as server:
        workflow_id, _ = await identity(server, "echo")
        assert await server.result("GET", f"{REMOTE}/echo") == {
            "id": workflow_id,
            "name": "echo",
            "class_name": "Work",
            "script_name": "shop",
            "created_on": T0,
            "modified_on": T0,
            "triggered_on": None,
            "instances": {
                "queued": 0,
                "running": 0,
                "waiting": 0,
                "waitingForPause": 0,
                "paused": 0,
                "rollingBack": 0,
                "complete": 0,
                "errored": 0,
                "terminated": 0,
            },
            "script_deleted": False,
            "schedules": [],
        }
        await create(server, "echo", "e-1")
        assert (await server.result("GET", f"{REMOTE}/echo"))["triggered_on"] == T0


async def test_workflows_come_in_pages_until_an_empty_one() -> None:
    async with emulated() as server:
        pages = [
            [
                each["name"]
                for each in await server.result("GET", f"{REMOTE}?per_page=3&page={page}")
            ]
            for page in (1, 2, 3)
        ]
        assert pages == [["orders", "waits", "saga"], ["secret", "echo"], []]
        _, answer = await server.send("GET", f"{REMOTE}?search=ech")
        assert [each["name"] for each in answer["result"]] == ["echo"]
        assert answer["result_info"] == {
            "page": 1,
            "per_page": 25,
            "count": 1,
            "total_count": 1,
            "total_pages": 1,
        }


async def test_a_workflow_has_one_version_which_stays_the_same() -> None:
    async with emulated() as first, emulated() as second:
        assert await identity(first, "echo") == await identity(second, "echo")
        workflow_id, version_id = await identity(first, "echo")
        version = await first.result("GET", f"{REMOTE}/echo/versions/{version_id}")
        assert version == {
            "id": version_id,
            "workflow_id": workflow_id,
            "class_name": "Work",
            "created_on": T0,
            "modified_on": T0,
            "has_dag": False,
            "language": "python",
            "limits": {"steps": 10_000},
            "concurrency": {"limit": None},
            "default_retention": {
                "success_retention": 604_800_000,
                "error_retention": 604_800_000,
            },
        }
        graph = await first.result("GET", f"{REMOTE}/echo/versions/{version_id}/graph")
        assert (graph["id"], graph["graph"]) == (version_id, None)
        assert await codes(first, "GET", "/echo/versions/none") == (
            404,
            10300,
            "workflows.api.error.version.not_found",
        )


async def test_an_update_is_checked_and_answered_from_the_configuration() -> None:
    async with emulated() as server:
        body = {
            "class_name": "Work",
            "script_name": "shop",
            "limits": {"steps": 2048},
            "concurrency": {"limit": 7},
            "default_retention": {"success_retention": "3 days", "error_retention": 86_400_000},
            "schedules": [{"cron": "0 0 1 1 *"}],
        }
        _, version_id = await identity(server, "echo")
        updated = await server.result("PUT", f"{REMOTE}/echo", body)
        assert (updated["version_id"], updated["is_deleted"]) == (version_id, 0)
        for wrong in (
            {**body, "class_name": ""},
            {**body, "class_name": "Other"},
            {**body, "limits": {"steps": 0}},
            {**body, "default_retention": {"success_retention": "a while"}},
            {**body, "schedules": [{"cron": "0 0 * * 0"}]},
        ):
            assert (await codes(server, "PUT", "/echo", wrong))[:2] == (400, 10002)


async def test_an_instance_is_created_and_described() -> None:
    async with emulated() as server:
        workflow_id, version_id = await identity(server, "waits")
        assert await create(server, "waits", "w-1", '{"n": 1}') == {
            "id": "w-1",
            "status": "running",
            "version_id": version_id,
            "workflow_id": workflow_id,
            "trigger_source": "api",
        }
        await server.comes_to_wait("waits", "w-1")
        assert await server.result("GET", f"{REMOTE}/waits/instances/w-1") == {
            "status": "waiting",
            "params": {"n": 1},
            "trigger": {"source": "api"},
            "versionId": version_id,
            "queued": T0,
            "start": T0,
            "end": None,
            "success": None,
            "error": None,
            "output": None,
            "rollback": None,
            "step_count": 2,
            "steps": [
                {
                    "name": "first-1",
                    "start": T0,
                    "end": T0,
                    "success": True,
                    "type": "step",
                    "config": CONFIG,
                    "attempts": [{"start": T0, "end": T0, "success": True, "error": None}],
                    "output": '"one"',
                },
                {
                    "name": "answer-1",
                    "start": T0,
                    "end": T60,
                    "finished": False,
                    "type": "waitForEvent",
                    "error": None,
                    "output": None,
                    "event_type": "answer",
                },
            ],
        }


@pytest.mark.parametrize(
    ("params", "payload"),
    [('{"n": 1}', {"n": 1}), ({"n": 1}, {"n": 1}), ("not json", "not json"), (None, None), (7, 7)],
)
async def test_params_may_be_json_text_or_a_value(params: Any, payload: Any) -> None:
    async with emulated() as server:
        await create(server, "echo", "e-1", params)
        detail = await server.result("GET", f"{REMOTE}/echo/instances/e-1")
        assert detail["params"] == payload


async def test_outputs_are_json_text_that_is_cut_and_redacted() -> None:
    async with emulated() as server:
        await create(server, "secret", "s-1")
        await server.becomes("secret", "s-1", InstanceStatus.COMPLETE)
        url = f"{REMOTE}/secret/instances/s-1"
        detail = await server.result("GET", url)
        assert (detail["success"], detail["output"]) == (True, True)
        assert [step["output"] for step in detail["steps"]] == [
            '"[REDACTED]"',
            '"' + "x" * 1023 + "[truncated output]",
        ]
        whole = await server.result("GET", f"{url}/step?name=long-1&type=step")
        assert whole == {"status": "complete", "error": None, "output": "x" * 2_000}
        hidden = await server.result("GET", f"{url}/step?name=key-1")
        assert hidden["output"] == "[REDACTED]"


async def test_a_simple_detail_has_no_steps_and_a_descending_one_the_last_first() -> None:
    async with emulated() as server:
        await create(server, "waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        url = f"{REMOTE}/waits/instances/w-1"
        simple = await server.result("GET", f"{url}?simple=true")
        assert (simple["steps"], simple["step_count"]) == ([], 2)
        descending = await server.result("GET", f"{url}?order=desc&simple=false")
        assert [step["name"] for step in descending["steps"]] == ["answer-1", "first-1"]
        assert (await codes(server, "GET", "/waits/instances/w-1?order=up"))[:2] == (400, 10002)


async def test_a_rollback_and_the_termination_are_listed() -> None:
    async with emulated() as server:
        await create(server, "saga", "s-1")
        await server.comes_to_wait("saga", "s-1")
        url = f"{REMOTE}/saga/instances/s-1"
        body = {"status": "terminate", "rollback": True}
        assert (await server.result("PATCH", f"{url}/status", body))["status"] == "terminated"
        detail = await server.result("GET", url)
        assert detail["rollback"] == {"outcome": "complete", "error": None}
        assert detail["steps"][-2:] == [
            {
                "name": "reserve-1",
                "start": AT_REST,
                "end": AT_REST,
                "success": True,
                "type": "rollback",
                "config": CONFIG,
                "attempts": [{"start": AT_REST, "end": AT_REST, "success": True, "error": None}],
                "output": None,
            },
            {"type": "termination", "trigger": {"source": "unknown"}},
        ]
        assert detail["step_count"] == len(detail["steps"]) == 4


async def test_the_output_of_a_step_tells_retries_waits_and_attempts() -> None:
    async with emulated() as server:
        await create(server, "orders", "o-1")
        await server.clock.advance(500)
        url = f"{REMOTE}/orders/instances/o-1/step"
        boom = {"name": "Boom", "message": "no"}
        assert await server.result("GET", f"{url}?name=flaky-1") == {
            "status": "running",
            "error": boom,
        }
        await server.clock.advance(61_000)
        first = await server.result("GET", f"{url}?name=flaky-1&type=step&attempt=1")
        second = await server.result("GET", f"{url}?name=flaky-1&type=step&attempt=2")
        wait = await server.result("GET", f"{url}?name=approval-1&type=waitForEvent")
        assert first == {"status": "errored", "error": boom}
        assert second == {"status": "complete", "error": None, "output": 2}
        assert wait == {"status": "waiting", "error": None, "event_type": "approved"}
        for query in ("name=none-1", "name=flaky-1&attempt=3", "name=charge-1&type=waitForEvent"):
            path = f"/orders/instances/o-1/step?{query}"
            assert (await codes(server, "GET", path))[0] == 404


async def test_what_a_step_returned_as_a_stream_is_the_bytes() -> None:
    async with emulated(runs={"download": download}) as server:
        await create(server, "download", "d-1")
        await server.becomes("download", "d-1", InstanceStatus.COMPLETE)
        url = f"{REMOTE}/download/instances/d-1/step"
        for query in ("name=file-1&type=step", "name=file-1&attempt=1"):
            answer = await server.client.get(f"{url}?{query}")
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.content == b"PK\x00\xffend"
        hidden = await server.result("GET", f"{url}?name=hidden-1")
        assert hidden["output"] == "[REDACTED]"


async def test_a_batch_leaves_out_the_ids_that_are_taken() -> None:
    async with emulated() as server:
        await create(server, "echo", "b-1")
        body = [{"instance_id": "b-1"}, {"instance_id": "b-2"}, {}, {"instance_id": "b-2"}]
        made = await server.result("POST", f"{REMOTE}/echo/instances/batch", body)
        first, other = [row["id"] for row in made]
        assert first == "b-2"
        assert other not in ("b-1", "b-2")
        assert len(await server.result("GET", f"{REMOTE}/echo/instances")) == 3


async def test_a_batch_is_created_whole_or_not_at_all() -> None:
    async with emulated() as server:
        bodies: list[Any] = [[], {}, [{}] * 101, [{}, {"instance_id": "bad id!"}], [7]]
        for body in bodies:
            assert (await codes(server, "POST", "/echo/instances/batch", body))[:2] == (400, 10002)
        assert await server.result("GET", f"{REMOTE}/echo/instances") == []


async def test_pages_and_cursors_walk_the_same_list() -> None:
    async with emulated() as server:
        for number in range(5):
            await create(server, "echo", f"e-{number}")
        url = f"{REMOTE}/echo/instances?per_page=2"
        newest_first = ["e-4", "e-3", "e-2", "e-1", "e-0"]
        by_page: list[str] = []
        for page in (1, 2, 3, 4):
            by_page += [row["id"] for row in await server.result("GET", f"{url}&page={page}")]
        assert by_page == newest_first
        by_cursor: list[str] = []
        _, answer = await server.send("GET", url)
        while True:
            by_cursor += [row["id"] for row in answer["result"]]
            if "cursor" not in answer["result_info"]:
                break
            _, answer = await server.send("GET", f"{url}&cursor={answer['result_info']['cursor']}")
        assert by_cursor == newest_first
        assert answer["result_info"] == {"per_page": 2, "count": 1, "total_count": 5}
        oldest = await server.result("GET", f"{url}&direction=asc")
        assert [row["id"] for row in oldest] == ["e-0", "e-1"]
        for query in ("page=1&cursor=1", "cursor=x", "per_page=101", "date_start=never"):
            path = f"/echo/instances?{query}"
            assert (await codes(server, "GET", path))[:2] == (400, 10002)


async def test_a_row_has_the_fields_of_cloudflare_and_dates_filter_it() -> None:
    async with emulated() as server:
        await create(server, "echo", "e-1")
        await server.becomes("echo", "e-1", InstanceStatus.COMPLETE)
        workflow_id, version_id = await identity(server, "echo")
        url = f"{REMOTE}/echo/instances"
        [row] = await server.result(
            "GET", f"{url}?status=complete&date_start=2026-01-01T00:00:00%2B00:00&date_end={T0}"
        )
        assert row == {
            "id": "e-1",
            "status": "complete",
            "version_id": version_id,
            "workflow_id": workflow_id,
            "created_on": T0,
            "modified_on": T0,
            "started_on": T0,
            "ended_on": T0,
            "trigger_source": "api",
        }
        assert await server.result("GET", f"{url}?date_start={T60}") == []


async def test_many_are_terminated_by_status_or_all_of_them() -> None:
    async with emulated() as server:
        for name in ("w-1", "w-2"):
            await create(server, "waits", name)
        await server.comes_to_wait("waits", "w-2")
        await server.result("PATCH", f"{REMOTE}/waits/instances/w-1/status", {"status": "pause"})
        url = f"{REMOTE}/waits/instances/terminate"
        assert await server.result("PUT", f"{url}?status=paused") == {"status": "ok"}
        rows = await server.result("GET", f"{REMOTE}/waits/instances")
        assert [row["status"] for row in rows] == ["waiting", "terminated"]
        assert await server.result("PUT", url) == {"status": "ok"}
        rows = await server.result("GET", f"{REMOTE}/waits/instances")
        assert [row["status"] for row in rows] == ["terminated", "terminated"]


async def test_a_second_termination_of_many_is_not_begun_beside_the_first() -> None:
    async with emulated() as server:
        await create(server, "waits", "w-1")
        url = f"{REMOTE}/waits/instances/terminate"
        both = await asyncio.gather(server.result("PUT", url), server.result("PUT", url))
        assert list(both) == [{"status": "ok"}, {"status": "already_running"}]


async def test_an_event_is_answered_with_the_instance_and_the_time() -> None:
    async with emulated() as server:
        await create(server, "waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        url = f"{REMOTE}/waits/instances/w-1"
        for event_type in ("odd%20type%2Fx", "odd type/x", "answer"):
            answer = await server.result("POST", f"{url}/events/{event_type}", [1, "a"])
            assert answer == {"instanceId": "w-1", "timestamp": AT_REST}
        await server.becomes("waits", "w-1", InstanceStatus.COMPLETE)
        assert (await server.result("GET", url))["output"] == [1, "a"]


async def test_a_restart_names_a_step_without_its_number() -> None:
    async with emulated() as server:
        await create(server, "waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        url = f"{REMOTE}/waits/instances/w-1"
        body = {"status": "restart", "from": {"name": "answer", "type": "waitForEvent"}}
        assert (await server.result("PATCH", f"{url}/status", body))["status"] == "running"
        await server.comes_to_wait("waits", "w-1")
        detail = await server.result("GET", url)
        assert [step["start"] for step in detail["steps"]] == [T0, AT_REST]


async def test_an_instance_whose_id_holds_slashes_is_found_however_it_is_written() -> None:
    async with emulated() as server:
        for path in ("*%2F5%20*-17", "*/5%20*-17"):
            status, code, _ = await codes(server, "GET", f"/echo/instances/{path}")
            assert (status, code) == (404, 10400)
            _, answer = await server.send("GET", f"{REMOTE}/echo/instances/{path}")
            assert '"*/5 *-17"' in answer["messages"][0]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nope", None, (404, 10200, "workflows.api.error.workflow.not_found")),
        ("GET", "/nope/versions", None, (404, 10200, "workflows.api.error.workflow.not_found")),
        ("GET", "/nope/instances", None, (404, 10200, "workflows.api.error.workflow.not_found")),
        ("GET", "/echo/instances/x", None, (404, 10400, "workflows.api.error.instance.not_found")),
        (
            "DELETE",
            "/echo/instances/x",
            None,
            (404, 10400, "workflows.api.error.instance.not_found"),
        ),
        (
            "POST",
            "/echo/instances",
            {"instance_id": "taken"},
            (400, 10405, "workflows.api.error.instance.already_exists"),
        ),
        (
            "PATCH",
            "/echo/instances/taken/status",
            {"status": "terminate"},
            (400, 10401, "workflows.api.error.instance.cannot_terminate"),
        ),
        (
            "POST",
            "/echo/instances",
            {"instance_id": "bad id!"},
            (400, 10002, "workflows.api.error.body"),
        ),
        (
            "POST",
            "/echo/instances",
            {"instance_id": "terminate"},
            (400, 10002, "workflows.api.error.body"),
        ),
        (
            "POST",
            "/echo/instances",
            {"instance_retention": {"success_retention": "1 year"}},
            (400, 10002, "workflows.api.error.body"),
        ),
        (
            "POST",
            "/echo/instances",
            {"location_hint": "moon"},
            (400, 10002, "workflows.api.error.body"),
        ),
        (
            "PATCH",
            "/echo/instances/taken/status",
            {"status": "resume", "rollback": True},
            (400, 10002, "workflows.api.error.body"),
        ),
    ],
)
async def test_a_refusal_has_cloudflares_code_and_explains_itself(
    method: str, path: str, body: Any, expected: tuple[int, int, str]
) -> None:
    async with emulated() as server:
        await create(server, "echo", "taken")
        await server.becomes("echo", "taken", InstanceStatus.COMPLETE)
        assert await codes(server, method, path, body) == expected
        _, answer = await server.send(method, REMOTE + path, body)
        assert answer["messages"][0]["message"]


async def test_an_unknown_path_is_no_route() -> None:
    async with emulated() as server:
        status, answer = await server.send("GET", "/client/v4/zones")
        assert (status, answer["errors"][0]["code"]) == (404, 7003)
        assert "/client/v4/zones" in answer["errors"][0]["message"]


async def test_wrangler_finds_the_one_account() -> None:
    async with emulated() as server:
        [account] = await server.result("GET", "/client/v4/accounts?page=1")
        [membership] = await server.result("GET", "/client/v4/memberships?page=1")
        assert membership["account"] == account
