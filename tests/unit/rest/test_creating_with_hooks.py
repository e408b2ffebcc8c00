"""Both of Cloudflare's APIs create an instance together with a token, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DAY_MS
from tests.unit.rest.emulated import LOCAL, REMOTE, Emulated, emulated

both_apis = pytest.mark.parametrize("api", [LOCAL, REMOTE])


def named(api: str, instance_id: str) -> dict[str, Any]:
    return {"id" if api == LOCAL else "instance_id": instance_id}


async def ids(server: Emulated, workflow: str = "waits") -> set[str]:
    return {each["id"] for each in await server.result("GET", f"{LOCAL}/{workflow}/instances")}


async def hooks_of(server: Emulated, instance_id: str) -> list[tuple[str, int | None]]:
    def held(state: InstanceState) -> list[tuple[str, int | None]]:
        return [
            (hook.token, hook.retain_until_ms and hook.retain_until_ms - hook.created_ms)
            for hook in state.hooks.values()
        ]

    return await server.engine.read(InstanceKey("waits", instance_id), held)


@both_apis
@pytest.mark.parametrize(
    ("body", "retention_ms"),
    [
        ({"hook": "order:1"}, None),
        ({"hook": {"token": "order:1", "metadata": {"by": "me"}}}, None),
        ({"experimental_hook": {"token": "order:1"}, "experimental_minRetention": "1 day"}, DAY_MS),
        ({"hook": "order:1", "min_retention": "1 day"}, DAY_MS),
        ({"hook": "order:1", "minRetention": 5_000}, 5_000),
        ({"hook": {"token": "order:1", "min_retention": 1}, "minRetention": 1}, 1),
        ({"hook": None, "experimental_hook": "order:1", "min_retention": None}, None),
    ],
)
async def test_an_instance_is_created_with_its_token(
    api: str, body: dict[str, Any], retention_ms: int | None
) -> None:
    async with emulated() as server:
        made = await server.result("POST", f"{api}/waits/instances", body | named(api, "a"))
        assert made["id"] == "a"
        assert made["hook"]["token"] == "order:1"
        assert made["hook"]["hookId"].startswith("hook_")
        assert await hooks_of(server, "a") == [("order:1", retention_ms)]


@both_apis
async def test_without_a_hook_the_answer_names_none(api: str) -> None:
    async with emulated() as server:
        made = await server.result("POST", f"{api}/waits/instances", {"attributes": {"who": "me"}})
        assert "hook" not in made
        key = InstanceKey("waits", made["id"])
        assert await server.engine.read(key, lambda state: dict(state.attributes)) == {"who": "me"}


@both_apis
async def test_a_taken_token_is_a_conflict_that_names_its_holder(api: str) -> None:
    async with emulated() as server:
        body = {"hook": "order:1/ä"}
        await server.result("POST", f"{LOCAL}/waits/instances", body | {"id": "first"})
        # B9: with a taken id, too, it is the token that is told.
        for given in (body, body | named(api, "first"), body | named(api, "second")):
            for workflow in ("waits", "echo"):
                status, answer = await server.send("POST", f"{api}/{workflow}/instances", given)
                assert status == 409
                [error] = answer["errors"]
                assert error.pop("message")
                assert error == {
                    "code": "hook_conflict",
                    "token": "order:1/ä",
                    "conflictingRunId": "first",
                    "conflictingWorkflow": "waits",
                }
        assert await ids(server) == {"first"}
        assert await ids(server, "echo") == set()


@both_apis
async def test_a_taken_id_is_what_it_is_without_hooks(api: str) -> None:
    async with emulated() as server:
        await server.result("POST", f"{api}/waits/instances", named(api, "a"))
        given = named(api, "a") | {"hook": "order:1"}
        status, answer = await server.send("POST", f"{api}/waits/instances", given)
        assert (status, answer["errors"][0]["code"]) == (
            (500, 10001) if api == LOCAL else (400, 10405)
        )
        # Nothing was claimed.
        await server.result("POST", f"{api}/waits/instances", {"hook": "order:1"})


BAD: dict[str, dict[str, Any]] = {
    "empty": {"hook": ""},
    "blank": {"hook": {"token": " \t"}},
    "no text": {"hook": {"token": 5}},
    "no token": {"hook": {}},
    "no hook": {"hook": 5},
    "list": {"hook": ["order:1"]},
    "too long": {"hook": "ä" * 257},
    "unknown key": {"hook": {"token": "a", "is_webhook": True}},
    "two hooks": {"hook": "a", "experimental_hook": "b"},
    "retention without hook": {"min_retention": "1 day"},
    "zero retention": {"hook": "a", "min_retention": 0},
    "negative retention": {"hook": "a", "minRetention": -1},
    "unparsable retention": {"hook": "a", "min_retention": "soon"},
    "retention as an object": {"hook": "a", "min_retention": {}},
    "long retention": {"hook": "a", "experimental_minRetention": "31 days"},
    "two retentions": {"hook": {"token": "a", "min_retention": 1}, "min_retention": 2},
    "both spellings": {"hook": "a", "min_retention": 1, "minRetention": 1},
}


@both_apis
@pytest.mark.parametrize("case", BAD)
async def test_a_hook_that_is_none_is_refused(api: str, case: str) -> None:
    async with emulated() as server:
        status, answer = await server.send("POST", f"{api}/waits/instances", BAD[case])
        assert (status, answer["errors"][0]["code"]) == (400, "invalid_hook")
        assert await ids(server) == set()


@both_apis
@pytest.mark.parametrize(
    "attributes", ["text", {"$x": "a"}, {"a": 1}, {"a": "x" * 257}, {"": "a"}, []]
)
async def test_attributes_that_are_none_are_refused(api: str, attributes: object) -> None:
    async with emulated() as server:
        body = {"attributes": attributes}
        status, answer = await server.send("POST", f"{api}/waits/instances", body)
        assert (status, answer["success"]) == (400, False)
        assert await ids(server) == set()


async def test_a_batch_with_a_taken_token_is_refused_as_a_whole() -> None:
    async with emulated() as server:
        await server.result("POST", f"{LOCAL}/echo/instances", {"id": "first", "hook": "order:1"})
        await server.result("POST", f"{LOCAL}/waits/instances", {"id": "there", "hook": "order:9"})
        url = f"{REMOTE}/waits/instances/batch"
        made = await server.result(
            "POST", url, [{"instance_id": "a", "hook": "order:2"}, {"instance_id": "there"}]
        )
        assert [(each["id"], each["hook"]["token"]) for each in made] == [("a", "order:2")]
        for index, batch in (
            (1, [{"instance_id": "b"}, {"hook": "order:9"}]),
            (2, [{"hook": "x"}, {"hook": "y"}, {"hook": "x"}]),
        ):
            status, answer = await server.send("POST", url, batch)
            [error] = answer["errors"]
            assert (status, error["code"], error["index"]) == (409, "hook_conflict", index)
        assert await ids(server) == {"there", "a"}


@both_apis
async def test_a_termination_can_say_why(api: str) -> None:
    async with emulated() as server:
        for instance_id in ("a", "b"):
            await server.create("waits", instance_id)
        url = f"{api}/waits/instances/a/status"
        for refused in (
            {"status": "pause", "reason": "no"},
            {"status": "terminate", "reason": "x" * 513},
            {"status": "terminate", "reason": "\U0001f600" * 257},
            {"status": "terminate", "reason": 5},
        ):
            assert (await server.send("PATCH", url, refused))[0] == 400
        await server.result("PATCH", url, {"status": "terminate", "reason": "superseded"})
        stored = (await server.engine.journal.load([InstanceKey("waits", "a")])).popitem()[1]
        assert not isinstance(stored, Exception)
        assert "superseded" in repr(stored.entries[-1])
