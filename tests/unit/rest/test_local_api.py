"""The explorer API: its shapes, texts and codes are those of `wrangler dev`."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.domain.status import InstanceStatus
from tests.unit.rest.emulated import LOCAL, Emulated, emulated

T0 = "2026-01-01T00:00:00.000Z"
T1 = "2026-01-01T00:00:01.000Z"
T61 = "2026-01-01T00:01:01.000Z"
AT_REST = "2026-01-01T00:00:00.005Z"
AFTER_T61 = "2026-01-01T00:01:01.005Z"

CONFIG = {
    "retries": {"limit": 1, "delay": "1 second", "backoff": "exponential"},
    "timeout": "1 minute",
}
TRIED = {"start": T0, "end": T0, "success": True, "error": None}
PARAMS = {"n": [1, 2.5, None]}


def error(code: int, message: str) -> dict[str, Any]:
    """A refusal without what is said beside it."""
    return {
        "success": False,
        "errors": [{"code": code, "message": message}],
        "result": None,
    }


async def refusal(server: Emulated, method: str, url: str, body: Any = None) -> tuple[int, Any]:
    """Send what is refused; the status and the answer, without what is said beside it."""
    status, answer = await server.send(method, url, body)
    del answer["messages"]
    return status, answer


async def run_until_it_waits(server: Emulated) -> None:
    """An instance of `orders` that waits for its event."""
    await server.create("orders", "o-1", PARAMS)
    await server.clock.advance(1_000)
    await server.clock.advance(60_000)
    await server.comes_to_wait("orders", "o-1")


async def test_the_detail_of_a_waiting_instance_is_that_of_wrangler_dev() -> None:
    async with emulated() as server:
        await run_until_it_waits(server)
        assert await server.result("GET", f"{LOCAL}/orders/instances/o-1") == {
            "status": "waiting",
            "params": PARAMS,
            "queued": T0,
            "start": T0,
            "end": None,
            "output": None,
            "error": None,
            "steps": [
                {
                    "name": "charge-1",
                    "start": T0,
                    "end": T0,
                    "success": True,
                    "type": "step",
                    "output": {"params": PARAMS},
                    "config": CONFIG,
                    "attempts": [TRIED],
                },
                {
                    "name": "nothing-1",
                    "start": T0,
                    "end": T0,
                    "success": True,
                    "type": "step",
                    "config": CONFIG,
                    "attempts": [TRIED],
                },
                {
                    "name": "flaky-1",
                    "start": T0,
                    "end": T1,
                    "success": True,
                    "type": "step",
                    "output": 2,
                    "config": CONFIG,
                    "attempts": [
                        {
                            "start": T0,
                            "end": T0,
                            "success": False,
                            "error": {"name": "Boom", "message": "no"},
                        },
                        {"start": T1, "end": T1, "success": True, "error": None},
                    ],
                },
                {
                    "name": "nap-1",
                    "start": T1,
                    "end": T61,
                    "finished": True,
                    "type": "sleep",
                    "error": None,
                },
                {
                    "name": "approval-1",
                    "start": T61,
                    "end": None,
                    "finished": False,
                    "type": "waitForEvent",
                    "error": None,
                    "output": None,
                },
            ],
            "step_count": 5,
        }


async def test_a_finished_wait_shows_its_event_and_the_output_is_plain_json() -> None:
    async with emulated() as server:
        await run_until_it_waits(server)
        url = f"{LOCAL}/orders/instances/o-1"
        assert await server.result("POST", f"{url}/events/approved", {"by": "me"}) == {
            "success": True
        }
        await server.becomes("orders", "o-1", InstanceStatus.COMPLETE)
        detail = await server.result("GET", url)
        assert detail["output"] == {"charge": {"params": PARAMS}, "approval": {"by": "me"}}
        assert detail["end"] == AFTER_T61
        assert detail["steps"][-1]["output"] == {
            "type": "approved",
            "payload": {"by": "me"},
            "timestamp": AFTER_T61,
        }


async def test_a_wait_that_timed_out_has_lost_its_message() -> None:
    async with emulated() as server:
        await server.create("waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        await server.clock.advance(60_000)
        await server.becomes("waits", "w-1", InstanceStatus.ERRORED)
        detail = await server.result("GET", f"{LOCAL}/waits/instances/w-1")
        assert detail["error"] == {
            "name": "WorkflowTimeoutError",
            "message": "Execution timed out after 60000ms",
        }
        wait = detail["steps"][-1]
        assert (wait["finished"], wait["output"]) == (True, None)
        assert wait["error"] == {"name": "WorkflowTimeoutError", "message": ""}


async def test_neither_rollbacks_nor_the_termination_are_listed() -> None:
    async with emulated() as server:
        await server.create("saga", "s-1")
        await server.comes_to_wait("saga", "s-1")
        url = f"{LOCAL}/saga/instances/s-1"
        answer = await server.result(
            "PATCH", f"{url}/status", {"status": "terminate", "rollback": True}
        )
        assert answer == {"status": "terminated", "timestamp": AT_REST}
        detail = await server.result("GET", url)
        assert [step["type"] for step in detail["steps"]] == ["step", "waitForEvent"]
        assert detail["step_count"] == 2


async def test_the_output_of_a_sensitive_step_is_redacted() -> None:
    async with emulated() as server:
        await server.create("secret", "k-1")
        await server.becomes("secret", "k-1", InstanceStatus.COMPLETE)
        [key, _] = (await server.result("GET", f"{LOCAL}/secret/instances/k-1"))["steps"]
        assert key["output"] == "[REDACTED]"
        assert key["config"]["sensitive"] == "output"


async def test_workflows_are_listed_and_described_with_their_counts() -> None:
    async with emulated() as server:
        status, answer = await server.send("GET", LOCAL)
        assert status == 200
        assert answer["result"][0] == {
            "name": "orders",
            "class_name": "Work",
            "script_name": "shop",
        }
        assert answer["result_info"] == {"count": 5}
        await server.create("echo", "e-1")
        await server.becomes("echo", "e-1", InstanceStatus.COMPLETE)
        assert await server.result("GET", f"{LOCAL}/echo") == {
            "name": "echo",
            "class_name": "Work",
            "script_name": "shop",
            "instances": {
                "complete": 1,
                "errored": 0,
                "paused": 0,
                "queued": 0,
                "running": 0,
                "terminated": 0,
                "waiting": 0,
                "waitingForPause": 0,
            },
        }


async def test_a_list_is_newest_first_in_pages_with_the_counts_of_all() -> None:
    async with emulated() as server:
        for number in (1, 2, 3):
            await server.create("echo", f"e-{number}")
            await server.becomes("echo", f"e-{number}", InstanceStatus.COMPLETE)
        url = f"{LOCAL}/echo/instances"
        _, first = await server.send("GET", f"{url}?page=1&per_page=2")
        _, second = await server.send("GET", f"{url}?page=2&per_page=2")
        _, beyond = await server.send("GET", f"{url}?page=9&per_page=2")
        assert first["result"] == [
            {"id": "e-3", "status": "complete", "created_on": T0},
            {"id": "e-2", "status": "complete", "created_on": T0},
        ]
        assert [row["id"] for row in second["result"]] == ["e-1"]
        assert beyond["result"] == []
        assert beyond["result_info"] == {
            "page": 9,
            "per_page": 2,
            "total_count": 3,
            "total_pages": 2,
            "status_counts": {"complete": 3},
        }
        _, none = await server.send("GET", f"{url}?status=errored&date_start={T0}&date_end={T1}")
        assert none["result_info"]["total_count"] == 0


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("per_page=1000", 10001, "per_page: Too big: expected number to be <=100"),
        ("page=0", 10001, "page: Too small: expected number to be >=1"),
        ("page=x", 10001, 'page: Expected query param to be number but received "x"'),
        (
            "date_start=yesterday",
            10001,
            'date_start: Invalid ISO datetime: got "yesterday"; expected one such as 2026-11-30T12:00:00Z',
        ),
        (
            "date_start=2026-01-01T00:00:00%2B00:00",
            10001,
            'date_start: Invalid ISO datetime: got "2026-01-01T00:00:00+00:00"; expected one such as 2026-11-30T12:00:00Z',
        ),
        (
            "status=bogus",
            10001,
            'status: Invalid option: expected one of "queued"|"running"|"paused"|"errored"|"terminated"|"complete"|"waitingForPause"|"waiting"',
        ),
        (
            "date_start=2026-02-01T00:00:00.000Z&date_end=2026-01-02T00:00:00.000Z",
            10502,
            "'date_start' must not be after 'date_end'. Update 'date_start' or 'date_end' so 'date_start' is before or equal to 'date_end'.",
        ),
    ],
)
async def test_a_query_that_is_not_valid_is_refused_in_words(
    query: str, code: int, message: str
) -> None:
    async with emulated() as server:
        url = f"{LOCAL}/echo/instances?{query}"
        assert await refusal(server, "GET", url) == (400, error(code, message))


async def test_every_problem_of_a_query_is_told() -> None:
    async with emulated() as server:
        _, answer = await server.send("GET", f"{LOCAL}/echo/instances?page=0&per_page=x")
        assert [each["message"].partition(":")[0] for each in answer["errors"]] == [
            "page",
            "per_page",
        ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("GET", "/nope", None, 404, error(10501, "Workflow 'nope' not found.")),
        ("DELETE", "/nope", None, 404, error(10501, "Workflow 'nope' not found.")),
        ("GET", "/nope/instances", None, 404, error(10501, "Workflow 'nope' not found.")),
        ("POST", "/nope/instances", {}, 404, error(10501, "Workflow 'nope' not found.")),
        (
            "POST",
            "/nope/instances/x/events/y",
            {},
            404,
            error(10501, "Workflow 'nope' not found."),
        ),
        (
            "GET",
            "/echo/instances/no%2Fone",
            None,
            404,
            error(10501, "Workflow instance 'no/one' not found."),
        ),
        (
            "DELETE",
            "/echo/instances/none",
            None,
            404,
            error(10501, "Workflow instance 'none' not found."),
        ),
        (
            "PATCH",
            "/echo/instances/none/status",
            {"status": "pause"},
            404,
            error(10501, "Workflow instance 'none' not found."),
        ),
        (
            "POST",
            "/echo/instances",
            {"id": "bad id!"},
            500,
            error(10001, "WorkflowError: Workflow instance has invalid id"),
        ),
        (
            "POST",
            "/echo/instances",
            {"id": "taken"},
            500,
            error(
                10001,
                'WorkflowError: (instance.already_exists) Workflow instance with id "taken" already exists',
            ),
        ),
        (
            "PATCH",
            "/echo/instances/taken/status",
            {"status": "terminate"},
            500,
            error(
                10001,
                "WorkflowError: (instance.cannot_terminate) Cannot terminate instance since its on a finite state",
            ),
        ),
        (
            "PATCH",
            "/echo/instances/taken/status",
            {"status": "restart", "from": {"name": "no such"}},
            409,
            error(
                10001,
                'WorkflowError: (instance.cannot_restart) Step "no such" not found in execution history',
            ),
        ),
        (
            "PATCH",
            "/echo/instances/taken/status",
            {"status": "pause", "rollback": True},
            400,
            error(10001, "'rollback' is only valid when terminating."),
        ),
        (
            "POST",
            "/echo/instances/batch/delete",
            {},
            400,
            error(10001, "instances: Invalid input: expected array, received undefined"),
        ),
        (
            "POST",
            "/echo/instances/batch/delete",
            {"instances": []},
            400,
            error(10001, "instances: Too small: expected array to have >=1 items"),
        ),
        (
            "POST",
            "/echo/instances/batch/delete",
            {"instances": ["a!"]},
            400,
            error(
                10001,
                r"instances.0: Invalid string: must match pattern /^[a-zA-Z0-9, *\/#_-]+$/",
            ),
        ),
    ],
)
async def test_a_refusal_has_the_text_and_code_of_wrangler_dev(
    method: str, path: str, body: Any, status: int, expected: Any
) -> None:
    async with emulated() as server:
        await server.create("echo", "taken")
        await server.becomes("echo", "taken", InstanceStatus.COMPLETE)
        assert await refusal(server, method, LOCAL + path, body) == (status, expected)


async def test_what_the_texts_of_wrangler_dev_leave_out_is_said_beside_them() -> None:
    async with emulated() as server:
        _, unknown = await server.send("GET", f"{LOCAL}/nope")
        assert "There are: echo, orders" in unknown["messages"][0]["message"]
        _, invalid = await server.send("POST", f"{LOCAL}/echo/instances", {"id": "bad id!"})
        assert "1 to 100 letters" in invalid["messages"][0]["message"]


@pytest.mark.parametrize(
    "body", [{"status": "explode"}, {"action": "pause"}, {}, {"status": "restart", "from": {}}, []]
)
async def test_a_change_of_status_of_another_shape_is_invalid_input(body: Any) -> None:
    async with emulated() as server:
        await server.create("echo", "e-1")
        status, answer = await server.send("PATCH", f"{LOCAL}/echo/instances/e-1/status", body)
        assert status == 400
        assert answer["errors"][0]["message"].startswith("Invalid input: ")


@pytest.mark.parametrize("path", ["/echo/instances", "/echo/instances/e-1/events/x"])
async def test_a_body_that_is_not_json_is_refused_with_the_place(path: str) -> None:
    async with emulated() as server:
        response = await server.client.post(LOCAL + path, content='{"a": bad')
        message = response.json()["errors"][0]["message"]
        assert response.status_code == 400
        assert message.startswith("Invalid JSON request body: ")
        assert message.endswith("(byte 6)")


async def test_a_body_that_is_too_large_is_refused_unread() -> None:
    async with emulated() as server:
        response = await server.client.post(
            f"{LOCAL}/echo/instances", content=b"{}", headers={"content-length": str(2**40)}
        )
        assert response.status_code == 413
        assert "too large" in response.json()["errors"][0]["message"]


async def test_params_that_are_too_large_are_refused() -> None:
    async with emulated() as server:
        body = {"params": "x" * (2**20 + 1)}
        status, answer = await server.send("POST", f"{LOCAL}/echo/instances", body)
        assert (status, answer["errors"][0]["code"]) == (413, 10001)


async def test_params_default_to_an_empty_object() -> None:
    async with emulated() as server:
        made = (await server.client.post(f"{LOCAL}/echo/instances")).json()["result"]["id"]
        await server.becomes("echo", made, InstanceStatus.COMPLETE)
        detail = await server.result("GET", f"{LOCAL}/echo/instances/{made}")
        assert (detail["params"], detail["output"]) == ({}, {})


async def test_params_that_look_like_a_stored_value_are_only_params() -> None:
    async with emulated() as server:
        await server.create("echo", "e-1", {"$": "bytes", "value": "AA=="})
        detail = await server.result("GET", f"{LOCAL}/echo/instances/e-1")
        assert detail["params"] == {"$": "bytes", "value": "AA=="}


async def test_pause_and_resume_answer_the_status_and_leave_a_finished_instance_alone() -> None:
    async with emulated() as server:
        await server.create("waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        url = f"{LOCAL}/waits/instances/w-1/status"
        assert (await server.result("PATCH", url, {"status": "pause"}))["status"] == "paused"
        assert (await server.result("PATCH", url, {"status": "resume"}))["status"] == "running"
        assert (await server.result("PATCH", url, {"status": "terminate"}))["status"] == (
            "terminated"
        )
        assert (await server.result("PATCH", url, {"status": "pause"}))["status"] == "terminated"
        assert (await server.result("PATCH", url, {"status": "restart"}))["status"] == "running"


async def test_an_event_to_a_finished_instance_is_no_error() -> None:
    async with emulated() as server:
        await server.create("echo", "e-1")
        await server.becomes("echo", "e-1", InstanceStatus.COMPLETE)
        url = f"{LOCAL}/echo/instances/e-1/events"
        for event_type in ("approval", "bad%20type!", "odd%20type/x"):
            assert await server.result("POST", f"{url}/{event_type}", {}) == {"success": True}


async def test_an_encoded_slash_belongs_to_the_event_type() -> None:
    async with emulated() as server:
        await server.create("waits", "w-1")
        await server.comes_to_wait("waits", "w-1")
        await server.result("POST", f"{LOCAL}/waits/instances/w-1/events/answer%2Fno", 1)
        await server.result("POST", f"{LOCAL}/waits/instances/w-1/events/ans%77er", 2)
        await server.becomes("waits", "w-1", InstanceStatus.COMPLETE)
        detail = await server.result("GET", f"{LOCAL}/waits/instances/w-1")
        assert detail["output"] == 2


async def test_a_batch_is_deleted_with_an_answer_for_every_position() -> None:
    async with emulated() as server:
        await server.create("echo", "r1")
        answer = await server.result(
            "POST", f"{LOCAL}/echo/instances/batch/delete", {"instances": ["r1", "missing9", "r1"]}
        )
        assert answer == {
            "deleted": [{"id": "r1"}, {"id": "r1"}],
            "errors": [
                {
                    "id": "missing9",
                    "code": 10400,
                    "message": "workflows.api.error.instance.not_found",
                }
            ],
        }


async def test_deleting_a_workflow_removes_its_instances_and_keeps_it_listed() -> None:
    async with emulated() as server:
        await server.create("waits", "w-1")
        await server.create("echo", "e-1")
        assert await server.result("DELETE", f"{LOCAL}/waits") == {"status": "ok", "success": True}
        assert await server.result("GET", f"{LOCAL}/waits/instances") == []
        assert len(await server.result("GET", f"{LOCAL}/echo/instances")) == 1
        assert "waits" in [each["name"] for each in await server.result("GET", LOCAL)]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/echo/nonsense"), ("GET", "/echo/versions"), ("PUT", "/echo"), ("POST", "")],
)
async def test_what_the_api_has_not_is_a_plain_404(method: str, path: str) -> None:
    async with emulated() as server:
        response = await server.client.request(method, LOCAL + path)
        assert (response.status_code, response.text) == (404, "404 Not Found")


async def test_the_old_prefix_a_trailing_slash_and_double_slashes_reach_the_same() -> None:
    async with emulated() as server:
        await server.create("echo", "e-1")
        for url in (
            "/cdn-cgi/explorer/api/workflows/echo/instances",
            f"{LOCAL}/echo/instances/",
            f"{LOCAL}//echo///instances?",
        ):
            [row] = await server.result("GET", url)
            assert row["id"] == "e-1"
