"""The OpenAPI documents of both APIs, and whether an answer is what they say."""

from __future__ import annotations

import re
from typing import Any

import httpx
import jsonschema_rs

from wrangler_compat.rest.local_document import PREFIX as LOCAL_PREFIX
from wrangler_compat.rest.local_document import local_document
from wrangler_compat.rest.remote_document import PREFIX as REMOTE_PREFIX
from wrangler_compat.rest.remote_document import remote_document

DOCUMENTS: dict[str, dict[str, Any]] = {
    LOCAL_PREFIX: local_document(),
    REMOTE_PREFIX: remote_document(),
}
NO_SUCH_ROUTE = {403, 404, 405}
BODILESS = {"HEAD", "OPTIONS"}


async def hold_against_document(response: httpx.Response) -> None:
    """Check an answer of an API; that of anything else passes."""
    path = re.sub("//+", "/", response.request.url.raw_path.decode().partition("?")[0])
    for prefix, document in DOCUMENTS.items():
        if path.startswith(prefix + "/") and response.request.method not in BODILESS:
            operation = operation_of(document, response.request.method, path.removeprefix(prefix))
            if operation is not None:
                await _hold(document, operation, response)
            elif path.removeprefix(prefix) != "/openapi.json":
                assert response.status_code in NO_SUCH_ROUTE, f"{path} is not documented"


def operation_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """The operation that answers a request; of several the one that says most about the path."""
    paths: dict[str, dict[str, Any]] = document["paths"]
    found = [
        (template.count("{"), -len(template), template)
        for template, operations in paths.items()
        if method.lower() in operations and _pattern(template).fullmatch(path.rstrip("/"))
    ]
    return paths[min(found)[-1]][method.lower()] if found else None


def _pattern(template: str) -> re.Pattern[str]:
    # Ids and types of events may hold slashes that are not encoded.
    loose = re.sub(r"\\{(instance_id|event_type)\\}", ".+", re.escape(template))
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", loose))


async def _hold(
    document: dict[str, Any], operation: dict[str, Any], response: httpx.Response
) -> None:
    answers: dict[str, Any] = operation["responses"]
    where = f"{response.request.method} {response.request.url}: {response.status_code}"
    assert str(response.status_code) in answers, f"{where} is not documented"
    contents: dict[str, Any] = answers[str(response.status_code)]["content"]
    media_type = response.headers["content-type"].partition(";")[0]
    assert media_type in contents, where
    content = contents[media_type]
    if media_type == "application/json":
        schema = {**content["schema"], "components": document["components"]}
        await response.aread()
        jsonschema_rs.validate(schema, response.json())
