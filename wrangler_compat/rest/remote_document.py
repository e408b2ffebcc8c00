"""The OpenAPI document of what is emulated of Cloudflare's REST API."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final

import msgspec

from emulator.domain.limits import MAX_BATCH_INSTANCES
from emulator.domain.status import InstanceStatus
from emulator.projection.rendering import Json
from wrangler_compat.rest import shapes
from wrangler_compat.rest.openapi import (
    ATTRIBUTE,
    DATE_END,
    DATE_START,
    EVENTS,
    PAGE,
    PER_PAGE,
    Operation,
    Parameter,
    one_of,
    openapi,
)
from wrangler_compat.rest.requests import MAX_PAGE, RemoteInstance, StatusChange, WorkflowUpdate

PREFIX: Final = "/client/v4"

_DESCRIPTION: Final = """\
What the `cloudflare` SDK and `wrangler workflows` speak: Cloudflare's REST API for Workflows. Any account will do.
"""

_WORKFLOWS: Final = "/accounts/{account_id}/workflows"
_WORKFLOW: Final = _WORKFLOWS + "/{workflow_name}"
_VERSIONS: Final = _WORKFLOW + "/versions"
_INSTANCES: Final = _WORKFLOW + "/instances"
_INSTANCE: Final = _INSTANCES + "/{instance_id}"

_STATUS: Final = Parameter("status", one_of(*InstanceStatus), "Only instances with this status.")
_ATTEMPT = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]
_BATCH = Annotated[list[RemoteInstance], msgspec.Meta(min_length=1, max_length=MAX_BATCH_INSTANCES)]

_ACCOUNT_OPERATIONS: Final = (
    Operation(
        "GET",
        "/accounts",
        "List the accounts: there is one",
        list[shapes.Account],
        info=shapes.PageInfo,
        refusals=(),
    ),
    Operation(
        "GET",
        "/memberships",
        "List the memberships: there is one",
        list[shapes.Membership],
        info=shapes.PageInfo,
        refusals=(),
    ),
)

_WORKFLOW_OPERATIONS: Final = (
    Operation(
        "GET",
        _WORKFLOWS,
        "List the workflows",
        list[shapes.RemoteWorkflow],
        query=(PAGE, PER_PAGE, Parameter("search", str, "A part of the name.")),
        info=shapes.PageInfo,
        refusals=(400,),
    ),
    Operation("GET", _WORKFLOW, "Describe a workflow", shapes.RemoteWorkflow, refusals=(404,)),
    Operation(
        "PUT",
        _WORKFLOW,
        "Deploy a workflow: checked and answered, but nothing is stored, for the configuration decides",
        shapes.RemoteWorkflowUpdated,
        body=WorkflowUpdate,
        body_is_required=True,
    ),
    Operation(
        "DELETE",
        _WORKFLOW,
        "Delete every instance of a workflow; the workflow stays, for the configuration decides",
        shapes.Deleted,
        refusals=(404,),
    ),
    Operation(
        "GET",
        _VERSIONS,
        "List the versions of a workflow: there is one",
        list[shapes.Version],
        query=(PAGE, PER_PAGE),
        info=shapes.PageInfo,
    ),
    Operation(
        "GET",
        _VERSIONS + "/{version_id}",
        "Describe a version",
        shapes.Version,
        refusals=(404,),
    ),
    Operation(
        "GET",
        _VERSIONS + "/{version_id}/graph",
        "Describe the graph of a version: it is not drawn here",
        shapes.VersionGraph,
        refusals=(404,),
    ),
)

_INSTANCE_OPERATIONS: Final = (
    Operation(
        "GET",
        _INSTANCES,
        "List the instances of a workflow, newest first, by page or by cursor",
        list[shapes.RemoteRow],
        query=(
            PAGE,
            PER_PAGE,
            Parameter("cursor", str, "The `cursor` of the answer before; not with `page`."),
            Parameter("direction", one_of("asc", "desc"), "Oldest or newest first."),
            _STATUS,
            DATE_START,
            DATE_END,
            ATTRIBUTE,
        ),
        info=shapes.InstancePageInfo,
    ),
    Operation(
        "POST",
        _INSTANCES,
        "Create an instance",
        shapes.InstanceShort,
        body=RemoteInstance,
        refusals=(400, 404, 409),
    ),
    Operation(
        "POST",
        _INSTANCES + "/batch",
        "Create some instances; ids that are taken are left out",
        list[shapes.InstanceShort],
        body=_BATCH,
        body_is_required=True,
        refusals=(400, 404, 409),
    ),
    Operation(
        "POST",
        _INSTANCES + "/batch/delete",
        "Delete some instances",
        shapes.BatchDeleted,
        body=shapes.InstanceIds,
        body_is_required=True,
    ),
    Operation(
        "PUT",
        _INSTANCES + "/terminate",
        "Terminate every instance, or those with a status",
        shapes.TerminationOfMany,
        query=(_STATUS,),
    ),
    Operation(
        "GET",
        _INSTANCE,
        "Describe an instance with its steps",
        shapes.RemoteInstanceDetail,
        query=(
            Parameter("order", one_of("asc", "desc"), "Of the steps."),
            Parameter("simple", one_of("true", "false"), "Whether to leave the steps out."),
        ),
    ),
    Operation("DELETE", _INSTANCE, "Delete an instance", shapes.Deleted, refusals=(404,)),
    Operation(
        "GET",
        _INSTANCE + "/step",
        "The whole output of a step; bytes, if it has returned a stream",
        shapes.StepResult,
        or_bytes=True,
        query=(
            Parameter(
                "name",
                Annotated[str, msgspec.Meta(min_length=1)],
                "The name with its number, such as `charge-1`.",
                is_required=True,
            ),
            Parameter("type", one_of("step", "waitForEvent"), "By default `step`."),
            Parameter("attempt", _ATTEMPT, "Which attempt; by default the last one."),
        ),
    ),
    Operation(
        "GET",
        _INSTANCE + "/subscribe",
        "Follow an instance: its events as server-sent events, to its end",
        None,
        query=EVENTS,
        is_stream=True,
    ),
    Operation(
        "PATCH",
        _INSTANCE + "/status",
        "Pause, resume, restart or terminate an instance",
        shapes.StatusChanged,
        body=StatusChange,
        body_is_required=True,
    ),
    Operation(
        "POST",
        _INSTANCE + "/events/{event_type}",
        "Send an event, whose payload is the body",
        shapes.EventSent,
        body=Any,
    ),
)


@cache
def remote_document() -> Json:
    """The document."""
    operations = (*_ACCOUNT_OPERATIONS, *_WORKFLOW_OPERATIONS, *_INSTANCE_OPERATIONS)
    return openapi("workflow-emulator: Cloudflare's Workflows", _DESCRIPTION, PREFIX, operations)
