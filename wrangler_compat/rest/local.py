"""The explorer API of `wrangler dev`, which `wrangler workflows … --local` speaks (specification http-api 3)."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from emulator.domain.instance import InstanceKey
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.port import InstanceQuery
from emulator.projection.rendering import Json, iso, local_detail
from emulator.projection.summary import local_row
from wrangler_compat.rest.answers import (
    BAD_DATE_RANGE,
    Answers,
    api_app,
    batch_deleted,
    crashed,
    failure,
    local_failure,
    success,
)
from wrangler_compat.rest.event_stream import subscribe
from wrangler_compat.rest.local_document import LISTED_STATUSES, local_document
from wrangler_compat.rest.operations import Operations, encode_payload
from wrangler_compat.rest.requests import (
    DEFAULT_PAGE_ROWS,
    MAX_PAGE_ROWS,
    LocalInstance,
    Query,
    convert,
    instance_ids,
    instance_key,
    page_count,
    read_json,
    segment,
    status_change,
)


def local_api(operations: Operations) -> Starlette:
    """Make the application, whose paths begin after the prefix and are not decoded yet."""
    api = _LocalApi(operations)
    instances = "/workflows/{workflow}/instances"
    one = instances + "/{id:path}"  # the id of a scheduled instance may hold a slash
    routes = [
        Route("/", _document, methods=["GET"]),
        Route("/local/workers", api.list_workers, methods=["GET"]),
        Route("/workflows", api.list_workflows, methods=["GET"]),
        Route("/workflows/{workflow}", api.describe_workflow, methods=["GET"]),
        Route("/workflows/{workflow}", api.delete_workflow, methods=["DELETE"]),
        Route(instances, api.list_instances, methods=["GET"]),
        Route(instances, api.create, methods=["POST"]),
        Route(instances + "/batch/delete", api.delete_batch, methods=["POST"]),
        Route(one + "/subscribe", api.subscribe, methods=["GET"]),
        Route(one + "/status", api.change_status, methods=["PATCH"]),
        Route(one + "/events/{event_type:path}", api.send_event, methods=["POST"]),
        Route(one, api.describe, methods=["GET"]),
        Route(one, api.delete, methods=["DELETE"]),
    ]
    return api_app(routes, operations.worker.scripts, Answers(local_failure, _no_route, crashed))


async def _no_route(_: Request, __: Exception) -> Response:
    return PlainTextResponse("404 Not Found", 404)


async def _document(_: Request) -> Response:
    return JSONResponse(local_document())


class _LocalApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def list_workers(self, _: Request) -> Response:
        return success([_worker(self._operations)])

    async def list_workflows(self, _: Request) -> Response:
        workflows = [_workflow(each) for each in self._operations.workflows()]
        return success(workflows, {"count": len(workflows)})

    async def describe_workflow(self, request: Request) -> Response:
        name = segment(request, "workflow")
        counts = await self._operations.status_counts(name)
        definition = self._operations.engine.definition(name)
        return success(
            {
                **_workflow(definition),
                "instances": {**dict.fromkeys(sorted(LISTED_STATUSES), 0), **counts},
            }
        )

    async def delete_workflow(self, request: Request) -> Response:
        await self._operations.delete_workflow(segment(request, "workflow"))
        return success({"status": "ok", "success": True})

    async def list_instances(self, request: Request) -> Response:
        workflow, query = segment(request, "workflow"), Query(request)
        counts = await self._operations.status_counts(workflow)
        page = query.whole("page", 1)
        per_page = query.whole("per_page", DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS)
        wanted = InstanceQuery(
            workflow,
            query.option("status", LISTED_STATUSES),
            query.instant_ms("date_start", only_utc=True),
            query.instant_ms("date_end", only_utc=True),
            offset=(page - 1) * per_page,
            limit=per_page,
            attributes=query.attributes(),
        )
        query.finish()
        start_ms, end_ms = wanted.created_from_ms, wanted.created_to_ms
        if start_ms is not None and end_ms is not None and start_ms > end_ms:
            text = (
                "'date_start' must not be after 'date_end'. Update 'date_start' or 'date_end' so "
                "'date_start' is before or equal to 'date_end'."
            )
            return failure(400, BAD_DATE_RANGE, text)
        rows, total = await self._operations.page(wanted)
        info = {
            "page": page,
            "per_page": per_page,
            "total_count": total,
            "total_pages": page_count(total, per_page),
            "status_counts": counts,
        }
        return success([local_row(row) for row in rows], info)

    async def create(self, request: Request) -> Response:
        given = convert(await read_json(request), LocalInstance)
        workflow = segment(request, "workflow")
        made = await self._operations.create(workflow, given.options())
        hook = (await self._operations.created(InstanceKey(workflow, made))).hook
        return success({"id": made} | ({} if hook is None else {"hook": hook}))

    async def describe(self, request: Request) -> Response:
        return success(local_detail(await self._operations.detail(instance_key(request))))

    async def subscribe(self, request: Request) -> Response:
        return await subscribe(self._operations, request)

    async def delete(self, request: Request) -> Response:
        await self._operations.delete(instance_key(request))
        return success({"success": True})

    async def delete_batch(self, request: Request) -> Response:
        ids = instance_ids(await read_json(request))
        outcome = await self._operations.delete_batch(segment(request, "workflow"), ids)
        return batch_deleted(outcome.deleted, outcome.missing)

    async def change_status(self, request: Request) -> Response:
        change = status_change(await read_json(request))
        status = await self._operations.change_status(instance_key(request), change)
        return success({"status": status, "timestamp": iso(self._operations.engine.now_ms())})

    async def send_event(self, request: Request) -> Response:
        payload = encode_payload(await read_json(request))
        event_type = segment(request, "event_type")
        await self._operations.send_event(instance_key(request), event_type, payload)
        return success({"success": True})


def _workflow(definition: WorkflowDefinition) -> Json:
    return {
        "name": definition.name,
        "class_name": definition.class_name,
        "script_name": definition.script_name,
    }


def _worker(operations: Operations) -> Json:
    worker = operations.worker
    workflows = [
        {
            "id": definition.name,
            "bindingName": worker.bindings[definition.name],
            "className": definition.class_name,
            "scriptName": definition.script_name,
        }
        for definition in operations.workflows()
        if definition.name in worker.bindings
    ]
    not_emulated: Json = {"kv": [], "d1": [], "r2": [], "do": [], "sendEmail": [], "flagship": []}
    return {
        "isSelf": True,
        "name": worker.name,
        "bindings": {**not_emulated, "workflows": workflows},
        "triggers": {"crons": worker.crons},
        "persistenceScope": worker.scope,
    }
