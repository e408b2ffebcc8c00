"""Publishing the code of tenants over HTTP: a part of the binding's API (see docs/dynamic.md)."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bindings import wire
from bindings.dynamic.store import CodeStore
from emulator.engine.engine import Engine
from emulator.errors import InvalidInput
from wrangler_compat.bodies import MAX_BODY_BYTES, read_body
from wrangler_compat.rest.requests import segment


def dynamic_routes(engine: Engine) -> list[Route]:
    """The routes, below `wire.PREFIX`."""
    api = _DynamicApi(CodeStore(engine.journal.codes, engine.now_ms))
    versions = "/dynamic/{tenant}/{name}/versions"
    return [
        Route("/dynamic", api.list_versions, methods=["GET"]),
        Route("/dynamic/{tenant}", api.list_versions, methods=["GET"]),
        Route(versions, api.list_versions, methods=["GET"]),
        Route(versions + "/{version}", api.publish, methods=["PUT"]),
    ]


class _DynamicApi:
    """The handlers."""

    def __init__(self, store: CodeStore) -> None:
        self._store = store

    async def publish(self, request: Request) -> Response:
        code = await _code_of(request)
        tenant, name, label = (segment(request, each) for each in ("tenant", "name", "version"))
        version, is_new = await self._store.publish(tenant, name, label, code)
        return _answer(wire.Published(*version[:4]), 201 if is_new else 200)

    async def list_versions(self, request: Request) -> Response:
        named = [
            segment(request, each) if each in request.path_params else None
            for each in ("tenant", "name")
        ]
        found = await self._store.versions(*named)
        return _answer(wire.Versions([wire.ListedVersion(*each) for each in found]), 200)


async def _code_of(request: Request) -> Any:
    """The body: JSON with `modules` if its type says so, or else the text of the only module."""
    body = await read_body(request, MAX_BODY_BYTES)
    content_type = request.headers.get("content-type", "")
    try:
        if content_type.partition(";")[0].strip().lower() == "application/json":
            return msgspec.json.decode(body)
        return body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"Invalid input: {error}") from error


def _answer(content: object, status: int) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
