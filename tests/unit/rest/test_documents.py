"""The OpenAPI documents are served, whole and valid. That they are true, every test here checks (see `documented`)."""

from __future__ import annotations

import re
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.unit.rest.documented import DOCUMENTS, hold_against_document
from tests.unit.rest.emulated import LOCAL, emulated
from wrangler_compat.rest.local import local_api
from wrangler_compat.rest.operations import Operations, WorkerInfo
from wrangler_compat.rest.remote import remote_api

URLS = {
    "/cdn-cgi/local/explorer/api": "/cdn-cgi/local/explorer/api",
    "/client/v4": "/client/v4/openapi.json",
}
UNDOCUMENTED = {"/", "/openapi.json"}


@pytest.mark.parametrize("prefix", URLS)
async def test_each_api_serves_its_document(prefix: str) -> None:
    async with emulated() as server:
        response = await server.client.get(URLS[prefix])
        document = response.json()
        assert document == DOCUMENTS[prefix]
        assert document["servers"] == [{"url": prefix}]


@pytest.mark.parametrize("prefix", URLS)
def test_every_schema_is_one_and_every_reference_leads_somewhere(prefix: str) -> None:
    document = DOCUMENTS[prefix]
    schemas: dict[str, Any] = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema_rs.meta.validate(schema)
    referred = set(re.findall(r"#/components/schemas/(\w+)", repr(document)))
    assert referred <= set(schemas)


@pytest.mark.parametrize("prefix", URLS)
async def test_every_route_is_documented_and_nothing_else(prefix: str) -> None:
    async with emulated() as server:
        api = (local_api if "explorer" in prefix else remote_api)(Operations(server.engine, 0))
    served: set[tuple[str, str]] = set()
    for route in api.routes:
        template = re.sub(r"\{(\w+)(:path)?\}", "{}", getattr(route, "path"))  # noqa: B009
        methods: set[str] = getattr(route, "methods")  # noqa: B009
        if template not in UNDOCUMENTED:
            served |= {(method.lower(), template) for method in methods - {"HEAD"}}
    documented = {
        (method, re.sub(r"\{\w+\}", "{}", template))
        for template, operations in DOCUMENTS[prefix]["paths"].items()
        for method in operations
    }
    assert documented == served


async def test_an_answer_that_is_not_as_documented_is_noticed() -> None:
    request = httpx.Request("GET", f"http://localhost{LOCAL}")
    answer: dict[str, Any] = {
        "success": True,
        "errors": [],
        "messages": [],
        "result_info": {"count": 1},
    }
    result = [{"name": "orders", "class_name": "Orders", "script_name": "shop"}]
    await hold_against_document(
        httpx.Response(200, json={**answer, "result": result}, request=request)
    )
    for wrong in ([{"name": "orders"}], [{**result[0], "more": 1}], None):
        with pytest.raises(jsonschema_rs.ValidationError):
            await hold_against_document(
                httpx.Response(200, json={**answer, "result": wrong}, request=request)
            )


async def test_the_worker_is_listed_with_its_bindings() -> None:
    worker = WorkerInfo("shop", {"orders": "ORDERS"}, ("0 * * * *",), "abc")
    async with emulated(worker=worker) as server:
        [listed] = await server.result("GET", "/cdn-cgi/local/explorer/api/local/workers")
        assert listed == {
            "isSelf": True,
            "name": "shop",
            "bindings": {
                "kv": [],
                "d1": [],
                "r2": [],
                "do": [],
                "sendEmail": [],
                "flagship": [],
                "workflows": [
                    {
                        "id": "orders",
                        "bindingName": "ORDERS",
                        "className": "Work",
                        "scriptName": "shop",
                    }
                ],
            },
            "triggers": {"crons": ["0 * * * *"]},
            "persistenceScope": "abc",
        }
