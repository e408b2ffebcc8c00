"""Requests as no client of good will sends them: each is refused in words, and nothing breaks."""

from __future__ import annotations

import json

import pytest

from tests.unit.rest.emulated import LOCAL, REMOTE, emulated
from wrangler_compat.rest.operations import WorkerInfo

APIS = (LOCAL, REMOTE)
NUMBERS = (
    "",
    "0",
    "-1",
    "1.5",
    "1e3",
    "x",
    "+1",
    " 1",
    "1_0",
    "\u0661",
    "9007199254740992",
    "9" * 5_000,
)
DATES = ("", "now", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00Z\x00", "99999-01-01T00:00:00Z")
BODIES = (
    b"{",
    b"\xff\xfe",
    b'"\xed\xa0\x80"',
    b"[" * 100_000,
    b"1" * 100_000,
    b"\x00",
    b"NaN",
    b"[]",
    b"null",
    b'"text"',
)
NAMES = ("%00", "%ff%fe", "%F0%9F%98%80", "..%2f..%2fetc", "%", "%zz", "a" * 5_000, "%C0%80")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("parameter", ["page", "per_page"])
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_number_that_is_none_is_refused(api: str, parameter: str, number: str) -> None:
    async with emulated() as server:
        url = f"{api}/echo/instances"
        response = await server.client.get(url, params={parameter: number})
        assert response.status_code == 400
        told = [*response.json()["errors"], *response.json()["messages"]]
        assert any(each["message"].startswith(f"{parameter}: ") for each in told)


@pytest.mark.parametrize("api", APIS)
async def test_the_last_page_there_could_be_is_empty(api: str) -> None:
    async with emulated() as server:
        url = f"{api}/echo/instances?page=9007199254740991&per_page=100"
        assert await server.result("GET", url) == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("date", DATES)
async def test_a_date_that_is_none_is_refused(api: str, date: str) -> None:
    async with emulated() as server:
        response = await server.client.get(f"{api}/echo/instances", params={"date_end": date})
        assert response.status_code == 400


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("api", APIS)
async def test_the_first_and_the_last_date_are_dates(api: str, date: str) -> None:
    async with emulated() as server:
        for parameter in ("date_start", "date_end"):
            response = await server.client.get(f"{api}/echo/instances", params={parameter: date})
            assert response.status_code == 200


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
async def test_a_body_that_is_not_wanted_is_refused(api: str, body: bytes) -> None:
    async with emulated() as server:
        response = await server.client.post(f"{api}/echo/instances", content=body)
        assert response.status_code == 400
        assert await server.result("GET", f"{api}/echo/instances") == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", NAMES)
async def test_a_name_that_nothing_has_is_not_found(api: str, name: str) -> None:
    async with emulated() as server:
        for path in (f"/{name}", f"/echo/instances/{name}"):
            response = await server.client.get(api + path)
            assert response.status_code == 404
            assert response.json()["errors"]


@pytest.mark.parametrize("api", APIS)
async def test_any_text_can_be_a_param_and_comes_back(api: str) -> None:
    params = {"\x00": "\x00\u2028\U0001f600", "": [1e308, -0.0, 2**53 - 1]}
    key = "id" if api == LOCAL else "instance_id"
    async with emulated() as server:
        body = json.dumps({key: "odd", "params": params}).encode()
        response = await server.client.post(f"{api}/echo/instances", content=body)
        assert response.status_code == 200
        assert (await server.result("GET", f"{api}/echo/instances/odd"))["params"] == params


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"status": "stop"}, '"pause", "restart", "resume" or "terminate"'),
        (
            {"status": "restart", "from": {"name": "x", "type": "y"}},
            '"do", "sleep" or "waitForEvent"',
        ),
    ],
)
@pytest.mark.parametrize("api", APIS)
async def test_a_text_that_is_none_of_some_is_answered_with_all_of_them(
    api: str, body: object, told: str
) -> None:
    async with emulated() as server:
        _, answer = await server.send("PATCH", f"{api}/echo/instances/x/status", body)
        assert told in str(answer)


UNKNOWN_KEYS = [
    ("POST", "/echo/instances", {"hok": "a"}, "hok", "hook, min_retention, minRetention, "),
    ("POST", "/echo/instances", {"hook": "a", "minRetentoin": 1}, "minRetentoin", "minRetention, "),
    ("PATCH", "/echo/instances/x/status", {"status": "terminate", "rolback": True}, "rolback", "status, rollback, from, reason"),
    ("PATCH", "/echo/instances/x/status", {"status": "restart", "form": {"name": "a"}}, "form", "from"),
    ("PATCH", "/echo/instances/x/status", {"status": "restart", "from": {"name": "a", "cuont": 1}}, "from.cuont", "name, count, type"),
    ("POST", "/echo/instances/batch/delete", {"instances": ["a"], "id": "a"}, "id", "instances"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "key", "allowed"), UNKNOWN_KEYS)
@pytest.mark.parametrize("api", APIS)
async def test_a_key_that_nobody_reads_is_refused_with_those_that_are(
    api: str, method: str, path: str, body: object, key: str, allowed: str
) -> None:
    async with emulated() as server:
        status, answer = await server.send(method, api + path, body)
        assert status == 400
        told = [each["message"] for each in answer["messages"] + answer["errors"]]
        [text] = [each for each in told if each.startswith("Invalid input: ")]
        before, _, after = text.partition("; expected one of: ")
        assert before == f"Invalid input: {key}: there is no such key"
        assert allowed in after
        assert await server.result("GET", f"{api}/echo/instances") == []


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", f"{LOCAL}/echo/instances", {"instance_id": "a"}, "id, params"),
        ("POST", f"{REMOTE}/echo/instances", {"id": "a"}, "instance_id, params"),
        ("POST", f"{REMOTE}/echo/instances/batch", [{}, {"id": "a"}], "[1]."),
        (
            "POST",
            f"{REMOTE}/echo/instances",
            {"instance_retention": {"sucess_retention": 1}},
            "success_retention, error_retention",
        ),
        ("PUT", f"{REMOTE}/echo", {"foo": 1}, "class_name, script_name, limits"),
        (
            "PUT",
            f"{REMOTE}/echo",
            {"class_name": "Work", "script_name": "shop", "schedules": [{"corn": "* * * * *"}]},
            "schedules[0].corn: there is no such key; expected one of: cron",
        ),
    ],
)
async def test_the_key_of_another_api_is_refused_and_so_is_one_deep_inside(
    method: str, path: str, body: object, told: str
) -> None:
    async with emulated() as server:
        status, answer = await server.send(method, path, body)
        assert status == 400
        assert told in str(answer)
        assert await server.result("GET", f"{REMOTE}/echo/instances") == []


@pytest.mark.parametrize("api", APIS)
async def test_only_a_restart_has_a_step_to_begin_with(api: str) -> None:
    async with emulated() as server:
        body = {"status": "resume", "from": {"name": "a"}}
        status, answer = await server.send("PATCH", f"{api}/echo/instances/x/status", body)
        assert status == 400
        assert "'from' is only valid when restarting." in str(answer)


async def test_a_deployment_by_wrangler_may_name_a_jurisdiction() -> None:
    async with emulated() as server:
        body = {"class_name": "Work", "script_name": "shop", "jurisdiction": "eu"}
        assert (await server.result("PUT", f"{REMOTE}/echo", body))["name"] == "echo"


@pytest.mark.parametrize("body", [{"ask": "pause", "payload": 1}, {"ask": "event", "type": "x"}])
async def test_the_binding_is_refused_what_an_ask_does_not_have(body: object) -> None:
    async with emulated() as server:
        status, answer = await server.send(
            "POST", "/cdn-cgi/workflow-emulator/echo/instances/x", body
        )
        assert status == 400
        assert "has no" in str(answer)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"hook": "a", "min_retention": True}, "min_retention cannot be true: it is a number of"),
        ({"hook": "a", "minRetention": {}}, "min_retention cannot be {}: it is a number of"),
        ({"hook": {"token": "a", "min_retention": "soon"}}, 'min_retention cannot be "soon": it'),
        ({"hook": True}, "hook cannot be true: it is a token, or {"),
    ],
)
@pytest.mark.parametrize("api", APIS)
async def test_a_hook_is_refused_in_the_words_of_json(api: str, given: object, told: str) -> None:
    async with emulated() as server:
        status, answer = await server.send("POST", f"{api}/echo/instances", given)
        assert status == 400
        assert told in json.dumps(answer).replace('\\"', '"')
        assert "timedelta" not in str(answer)


OWN = "/cdn-cgi/workflow-emulator"
METHODS = [
    # method, path, what is allowed, whether it is answered in Cloudflare's envelope
    ("DELETE", f"{OWN}/hooks", "GET, HEAD", True),
    ("GET", f"{OWN}/hooks/a/resume", "POST", True),
    ("PUT", f"{OWN}/hooks/resume", "GET, HEAD, POST", True),
    ("POST", f"{OWN}/echo/instances/x/result", "GET, HEAD", True),
    ("PUT", f"{OWN}/echo/instances/x", "GET, HEAD, POST", False),
    ("POST", "/cdn-cgi/schedules", "GET, HEAD", True),
    ("PUT", f"{REMOTE}/echo/instances/x", "DELETE, GET, HEAD", True),
]


@pytest.mark.parametrize(("method", "path", "allowed", "is_enveloped"), METHODS)
async def test_another_method_is_refused_with_those_there_are(
    method: str, path: str, allowed: str, is_enveloped: bool
) -> None:
    async with emulated() as server:
        response = await server.client.request(method, path)
        assert (response.status_code, response.headers["allow"]) == (405, allowed)
        answer = response.json()
        told = answer["errors"][0] if is_enveloped else answer["refusal"]
        assert told["message"].startswith(f"{method} is not allowed for {path}, only {allowed}")


@pytest.mark.parametrize("value", [{"$": "nonsense"}, {"$": "bytes"}, {"$": ["set"], "value": 1}])
async def test_a_value_that_the_journal_does_not_have_is_shown_as_it_was_sent(
    value: object,
) -> None:
    async with emulated() as server:
        body = {"token": ["", "x"], "payload": value}
        status, answer = await server.send("POST", f"{OWN}/resume", body)
        assert status == 400
        message = answer["refusal"]["message"]
        shown = json.dumps(value, separators=(",", ":"))
        assert message.startswith(f'the payload for the hook "x": {shown} is not a value as the')
        assert "Error(" not in message


@pytest.mark.parametrize(
    "path", [f"{LOCAL}/refund", f"{REMOTE}/refund", f"{OWN}/refund/instances/a", f"{OWN}/refund/instances/a/result"]
)  # fmt: skip
async def test_a_workflow_of_another_script_is_said_to_be_there(path: str) -> None:
    async with emulated(worker=WorkerInfo(scripts={"refund": "bank"})) as server:
        status, answer = await server.send("GET", path)
        assert status == 404
        told = '"refund" is a workflow of the script "bank", which does not run here'
        assert told in json.dumps(answer).replace('\\"', '"')
