"""Cloudflare's REST API for Workflows, which the `cloudflare` SDK and `wrangler workflows` speak (specification http-api 2).

Any account id will do. A workflow has one version: the code as it is. What a deployment would change (`PUT`) is checked
and answered from the configuration, which stays what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_URL, uuid5

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from emulator.domain.cron import parse_cron
from emulator.domain.duration import retention_ms
from emulator.domain.instance import InstanceKey, TriggerSource
from emulator.domain.limits import MAX_BATCH_INSTANCES
from emulator.domain.status import InstanceStatus
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.reading import read_output
from emulator.errors import InvalidInput
from emulator.journal.port import InstanceQuery
from emulator.projection.rendering import Json, iso, remote_detail
from emulator.projection.summary import remote_row
from wrangler_compat.rest.answers import (
    VERSION_NOT_FOUND,
    Answers,
    api_app,
    batch_deleted,
    crashed,
    failure,
    no_route,
    remote_failure,
    success,
)
from wrangler_compat.rest.chunk_stream import BareStream
from wrangler_compat.rest.event_stream import subscribe
from wrangler_compat.rest.operations import Operations, encode_payload, version_id, workflow_id
from wrangler_compat.rest.remote_document import remote_document
from wrangler_compat.rest.requests import (
    DEFAULT_PAGE_ROWS,
    MAX_PAGE_ROWS,
    Query,
    RemoteInstance,
    WorkflowUpdate,
    convert,
    instance_ids,
    instance_key,
    page_count,
    read_json,
    segment,
    status_change,
)
from wrangler_compat.rest.step_output import step_output, streamed_output

ACCOUNT: Final = {"id": uuid5(NAMESPACE_URL, "account").hex, "name": "workflow-emulator"}

T = TypeVar("T")


def remote_api(operations: Operations) -> Starlette:
    """Make the application, whose paths begin after `/client/v4` and are not decoded yet."""
    api = _RemoteApi(operations)
    workflows = "/accounts/{account}/workflows"
    workflow = workflows + "/{workflow}"
    instances = workflow + "/instances"
    one = (
        instances + "/{id:path}"
    )  # wrangler does not encode the slash in the id of a scheduled instance
    version = workflow + "/versions/{version}"
    routes = [
        Route("/openapi.json", _document, methods=["GET"]),
        Route("/accounts", _accounts, methods=["GET"]),
        Route("/memberships", _memberships, methods=["GET"]),
        Route(workflows, api.list_workflows, methods=["GET"]),
        Route(workflow, api.describe_workflow, methods=["GET"]),
        Route(workflow, api.update_workflow, methods=["PUT"]),
        Route(workflow, api.delete_workflow, methods=["DELETE"]),
        Route(workflow + "/versions", api.list_versions, methods=["GET"]),
        Route(version, api.describe_version, methods=["GET"]),
        Route(version + "/graph", api.describe_graph, methods=["GET"]),
        Route(instances, api.list_instances, methods=["GET"]),
        Route(instances, api.create, methods=["POST"]),
        Route(instances + "/batch", api.create_batch, methods=["POST"]),
        Route(instances + "/batch/delete", api.delete_batch, methods=["POST"]),
        Route(instances + "/terminate", api.terminate_all, methods=["PUT"]),
        Route(one + "/step", api.describe_step, methods=["GET"]),
        Route(one + "/subscribe", api.subscribe, methods=["GET"]),
        Route(one + "/status", api.change_status, methods=["PATCH"]),
        Route(one + "/events/{event_type:path}", api.send_event, methods=["POST"]),
        Route(one, api.describe, methods=["GET"]),
        Route(one, api.delete, methods=["DELETE"]),
    ]
    return api_app(routes, operations.worker.scripts, Answers(remote_failure, no_route, crashed))


async def _document(_: Request) -> Response:
    return JSONResponse(remote_document())


async def _accounts(_: Request) -> Response:
    return _one_page([ACCOUNT])


async def _memberships(_: Request) -> Response:
    return _one_page([{"id": ACCOUNT["id"], "status": "accepted", "account": ACCOUNT}])


class _RemoteApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._engine = operations.engine

    # workflows and versions

    async def list_workflows(self, request: Request) -> Response:
        query = Query(request)
        search = query.text("search") or ""
        found = [each for each in self._operations.workflows() if search in each.name]
        page, info = _page_of(found, query)
        return success([await self._workflow(each) for each in page], info)

    async def describe_workflow(self, request: Request) -> Response:
        return success(await self._workflow(self._definition(request)))

    async def update_workflow(self, request: Request) -> Response:
        update = convert(await read_json(request), WorkflowUpdate)
        if (retention := update.default_retention) is not None:
            for value in (retention.success_retention, retention.error_retention):
                if value is not None:
                    retention_ms(value)
        for schedule in update.schedules or []:
            parse_cron(schedule.cron)
        definition = self._definition(request)
        defined = (definition.class_name, definition.script_name)
        if (update.class_name, update.script_name) != defined:
            raise InvalidInput(
                f"The workflow {definition.name} is the class {definition.class_name} of the script "
                f"{definition.script_name}: change that in the wrangler file, and start again."
            )
        version = {"version_id": version_id(definition), "is_deleted": 0, "terminator_running": 0}
        return success({**await self._identity(definition), **version})

    async def delete_workflow(self, request: Request) -> Response:
        await self._operations.delete_workflow(segment(request, "workflow"))
        return success({"status": "ok", "success": True})

    async def list_versions(self, request: Request) -> Response:
        page, info = _page_of([self._version(self._definition(request))], Query(request))
        return success(page, info)

    async def describe_version(self, request: Request) -> Response:
        definition = self._definition(request)
        if segment(request, "version") != version_id(definition):
            return _no_version(definition)
        return success(self._version(definition))

    async def describe_graph(self, request: Request) -> Response:
        definition = self._definition(request)
        if segment(request, "version") != version_id(definition):
            return _no_version(definition)
        keys = ("id", "workflow_id", "class_name", "created_on", "modified_on")
        version = self._version(definition)
        return success({**{key: version[key] for key in keys}, "graph": None})

    # instances

    async def list_instances(self, request: Request) -> Response:
        definition, query = self._definition(request), Query(request)
        per_page = query.whole("per_page", DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS)
        page = query.whole("page", 1)
        cursor = query.whole("cursor", 0)
        wanted = InstanceQuery(
            definition.name,
            query.option("status", InstanceStatus),
            query.instant_ms("date_start", only_utc=False),
            query.instant_ms("date_end", only_utc=False),
            ascending=query.option("direction", ("asc", "desc")) == "asc",
            after=cursor or None,
            offset=(page - 1) * per_page,
            limit=per_page + 1,  # one more tells whether there is more
            attributes=query.attributes(),
        )
        query.finish()
        is_paged = query.text("page") is not None
        if is_paged and cursor:
            raise InvalidInput("page: cannot be given together with cursor")
        rows, total = await self._operations.page(wanted)
        shown = rows[:per_page]
        info: Json = {"per_page": per_page, "count": len(shown), "total_count": total}
        if is_paged:
            info |= {"page": page, "total_pages": page_count(total, per_page)}
        elif len(rows) > per_page:
            info["cursor"] = str(shown[-1].number)
        ids = (workflow_id(definition), version_id(definition))
        return success([remote_row(row, *ids) for row in shown], info)

    async def create(self, request: Request) -> Response:
        given = convert(await read_json(request), RemoteInstance)
        definition = self._definition(request)
        made = await self._operations.create(definition.name, given.options())
        return success(await self._short(definition, made))

    async def create_batch(self, request: Request) -> Response:
        given = convert(await read_json(request), list[RemoteInstance])
        if not 1 <= len(given) <= MAX_BATCH_INSTANCES:
            raise InvalidInput(
                f"A batch is 1 to {MAX_BATCH_INSTANCES} instances, and this one has {len(given)}."
            )
        definition = self._definition(request)
        options = [each.options() for each in given]
        made = await self._operations.create_batch(definition.name, options)
        return success(await asyncio.gather(*(self._short(definition, each) for each in made)))

    async def delete_batch(self, request: Request) -> Response:
        ids = instance_ids(await read_json(request))
        outcome = await self._operations.delete_batch(segment(request, "workflow"), ids)
        return batch_deleted(outcome.deleted, outcome.missing)

    async def terminate_all(self, request: Request) -> Response:
        query = Query(request)
        status = query.option("status", InstanceStatus)
        query.finish()
        done = await self._operations.terminate_all(segment(request, "workflow"), status)
        return success({"status": "ok" if done else "already_running"})

    async def describe(self, request: Request) -> Response:
        query = Query(request)
        order = query.option("order", ("asc", "desc"))
        simple = query.option("simple", ("true", "false"))
        query.finish()
        detail = await self._operations.detail(instance_key(request))
        version = version_id(self._definition(request))
        shown = remote_detail(
            detail, version, descending=order == "desc", with_steps=simple != "true"
        )
        return success(shown)

    async def describe_step(self, request: Request) -> Response:
        query = Query(request)
        name = query.text("name")
        kind = query.option("type", ("step", "waitForEvent")) or "step"
        attempt = query.whole("attempt", 0)
        query.finish()
        if name is None:
            raise InvalidInput(
                "name: expected the name of a step with its number, such as charge-1"
            )
        key = instance_key(request)
        detail = await self._operations.detail(key)
        streamed = streamed_output(detail, name, kind, attempt or None)
        if streamed is not None:
            return BareStream(
                read_output(self._engine, key, name, streamed),
                media_type="application/octet-stream",
                headers={"content-length": str(streamed.size_bytes), "cache-control": "no-store"},
            )
        return success(step_output(detail, name, kind, attempt or None))

    async def subscribe(self, request: Request) -> Response:
        return await subscribe(self._operations, request)

    async def delete(self, request: Request) -> Response:
        await self._operations.delete(instance_key(request))
        return success({"status": "ok", "success": True})

    async def change_status(self, request: Request) -> Response:
        change = status_change(await read_json(request))
        status = await self._operations.change_status(instance_key(request), change)
        return success({"status": status, "timestamp": iso(self._engine.now_ms())})

    async def send_event(self, request: Request) -> Response:
        payload = encode_payload(await read_json(request))
        key = instance_key(request)
        await self._operations.send_event(key, segment(request, "event_type"), payload)
        return success({"instanceId": key.id, "timestamp": iso(self._engine.now_ms())})

    # shapes

    def _definition(self, request: Request) -> WorkflowDefinition:
        return self._engine.definition(segment(request, "workflow"))

    async def _identity(self, definition: WorkflowDefinition) -> Json:
        [*newest], _ = await self._operations.page(InstanceQuery(definition.name, limit=1))
        made_on = iso(self._operations.since_ms)
        return {
            "id": workflow_id(definition),
            "name": definition.name,
            "class_name": definition.class_name,
            "script_name": definition.script_name,
            "created_on": made_on,
            "modified_on": made_on,
            "triggered_on": iso(newest[0].creation.created_ms) if newest else None,
        }

    async def _workflow(self, definition: WorkflowDefinition) -> Json:
        counts = await self._operations.status_counts(definition.name)
        instances = {**dict.fromkeys(InstanceStatus, 0), **counts}
        now_ms = self._engine.now_ms()
        schedules = [
            {"cron": cron.text, "next_instance": iso(cron.next_after(now_ms))}
            for cron in definition.schedules
        ]
        return {
            **await self._identity(definition),
            "instances": instances,
            "script_deleted": False,
            "schedules": schedules,
        }

    def _version(self, definition: WorkflowDefinition) -> Json:
        made_on = iso(self._operations.since_ms)
        return {
            "id": version_id(definition),
            "workflow_id": workflow_id(definition),
            "class_name": definition.class_name,
            "created_on": made_on,
            "modified_on": made_on,
            "has_dag": False,
            "language": "python",
            "limits": {"steps": definition.step_limit},
            "concurrency": {"limit": definition.concurrency_limit},
            "default_retention": {
                "success_retention": definition.success_retention_ms,
                "error_retention": definition.error_retention_ms,
            },
        }

    async def _short(self, definition: WorkflowDefinition, instance_id: str) -> Json:
        status, hook = await self._operations.created(InstanceKey(definition.name, instance_id))
        return {
            "id": instance_id,
            "status": status,
            "version_id": version_id(definition),
            "workflow_id": workflow_id(definition),
            "trigger_source": TriggerSource.API,
        } | ({} if hook is None else {"hook": hook})


def _no_version(definition: WorkflowDefinition) -> Response:
    text = f"The workflow {definition.name} has one version here: {version_id(definition)}."
    message = "workflows.api.error.version.not_found"
    return failure(404, VERSION_NOT_FOUND, message, explanations=[text])


def _page_of(items: Sequence[T], query: Query) -> tuple[list[T], dict[str, Any]]:
    """One page of a list that is held whole. Past the end it is empty, or the SDK would walk on for ever."""
    page = query.whole("page", 1)
    per_page = query.whole("per_page", DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS)
    query.finish()
    shown = list(items[(page - 1) * per_page : page * per_page])
    return shown, _page_info(page, per_page, len(shown), len(items))


def _one_page(items: Sequence[object]) -> Response:
    return success(list(items), _page_info(1, DEFAULT_PAGE_ROWS, len(items), len(items)))


def _page_info(page: int, per_page: int, count: int, total: int) -> dict[str, Any]:
    return {
        "page": page,
        "per_page": per_page,
        "count": count,
        "total_count": total,
        "total_pages": page_count(total, per_page),
    }
