"""`PUT /cdn-cgi/workflow-emulator/dynamic/…`: publishing over HTTP, and the listings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from bindings import wire
from emulator.domain.instance import Creation
from emulator.testing.clock import EPOCH_MS
from tests.unit.rest.emulated import LOCAL, REMOTE, Emulated, emulated

ROOT = f"{wire.PREFIX}/dynamic"
V1 = f"{ROOT}/acme/billing/versions/v1"


@pytest.fixture
async def emulator() -> AsyncIterator[Emulated]:
    async with emulated() as running:
        yield running


async def put(emulator: Emulated, path: str, code: str) -> httpx.Response:
    return await emulator.client.put(path, content=code)


def refusal(answer: httpx.Response) -> Any:
    return answer.json()["refusal"]


async def test_a_version_is_made_once(emulator: Emulated) -> None:
    first = await put(emulator, V1, "x = 1")
    assert first.status_code == 201
    published = first.json()
    assert published == {
        "tenant": "acme",
        "name": "billing",
        "version": "v1",
        "hash": published["hash"],
    }
    await emulator.clock.advance(5)
    again = await put(emulator, V1, "x = 1")
    assert (again.status_code, again.json()) == (200, published)
    listed = (await emulator.client.get(ROOT)).json()["versions"]
    assert listed == [{**published, "created_ms": EPOCH_MS}]
    other = await put(emulator, V1, "x = 2")
    assert other.status_code == 409
    assert refusal(other)["type"] == "DynamicCodeConflictError"
    assert refusal(other)["code"] == "dynamic.version_taken"


async def test_a_code_of_several_modules_comes_as_json(emulator: Emulated) -> None:
    body = {"main": "shop", "modules": {"shop": "import rates", "rates": "x = 1"}}
    made = await emulator.client.put(V1, json=body)
    assert made.status_code == 201
    alone = await emulator.client.put(f"{ROOT}/acme/a/versions/1", json={"modules": {"main": "x"}})
    text = await put(emulator, f"{ROOT}/acme/b/versions/1", "x")
    assert alone.json()["hash"] == text.json()["hash"]


async def test_what_does_not_compile_is_refused_with_line_and_column(emulator: Emulated) -> None:
    answer = await put(emulator, V1, "x = 1\ny = = 2\n")
    assert answer.status_code == 422
    assert refusal(answer)["message"] == "main.py, line 2, column 5: invalid syntax"
    assert answer.json()["place"] == {"file": "main.py", "line": 2, "column": 5}
    assert (await emulator.client.get(ROOT)).json() == {"versions": []}


@pytest.mark.parametrize(
    ("path", "content", "content_type", "status"),
    [
        (V1, b"{", "application/json", 400),
        (V1, b"\xff", "text/x-python", 400),
        (V1, b"7", "application/json; charset=utf-8", 422),
        (V1, b'{"modules": {"a": ""}}', "application/json", 422),
        (f"{ROOT}/a%2Fb/billing/versions/v1", b"", "text/plain", 400),
        (f"{ROOT}/acme/billing/versions/-1", b"", "text/plain", 400),
    ],
)
async def test_what_is_no_code_is_refused(
    emulator: Emulated, path: str, content: bytes, content_type: str, status: int
) -> None:
    answer = await emulator.client.put(
        path, content=content, headers={"content-type": content_type}
    )
    assert answer.status_code == status, answer.text
    assert refusal(answer)["message"]


async def test_what_is_published_is_listed(emulator: Emulated) -> None:
    for workflow in ("acme/billing", "acme/shipping", "zenith/billing"):
        await put(emulator, f"{ROOT}/{workflow}/versions/v1", "x = 1")

    async def listed(path: str) -> list[str]:
        versions = (await emulator.client.get(ROOT + path)).json()["versions"]
        return [f"{each['tenant']}/{each['name']}" for each in versions]

    assert await listed("") == ["acme/billing", "acme/shipping", "zenith/billing"]
    assert await listed("/acme") == ["acme/billing", "acme/shipping"]
    assert await listed("/acme/billing/versions") == ["acme/billing"]
    assert await listed("/nobody") == []


async def test_the_operator_reaches_the_instances_of_all_tenants(emulator: Emulated) -> None:
    creation = Creation("waits", "acme:1", msgspec.Raw(b"{}"), emulator.engine.now_ms())
    await emulator.engine.create([creation], may_be_taken=True)
    for api in (LOCAL, REMOTE):
        listed = await emulator.result("GET", f"{api}/waits/instances")
        assert [each["id"] for each in listed] == ["acme:1"]
        shown = await emulator.result("GET", f"{api}/waits/instances/acme:1")
        assert shown["params"] == {}
    status, _ = await emulator.send("POST", f"{LOCAL}/waits/instances", {"id": "acme:2"})
    assert status != 200, "nobody creates one by hand"
