"""The OpenAPI document of the explorer API."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

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
from wrangler_compat.rest.requests import LocalInstance, StatusChange

PREFIX: Final = "/cdn-cgi/local/explorer/api"

LISTED_STATUSES: Final = (
    InstanceStatus.QUEUED,
    InstanceStatus.RUNNING,
    InstanceStatus.PAUSED,
    InstanceStatus.ERRORED,
    InstanceStatus.TERMINATED,
    InstanceStatus.COMPLETE,
    InstanceStatus.WAITING_FOR_PAUSE,
    InstanceStatus.WAITING,
)
"""The statuses that this API knows; `rollingBack` is shown when there is one."""

_DESCRIPTION: Final = """\
What `wrangler workflows … --local` speaks: the part of Cloudflare's local explorer that is about workflows.
As in `wrangler dev`, some mistakes of a client are answered with 500; the message begins with `WorkflowError:` then.
"""

_WORKFLOW: Final = "/workflows/{workflow_name}"
_INSTANCES: Final = _WORKFLOW + "/instances"
_INSTANCE: Final = _INSTANCES + "/{instance_id}"

_OPERATIONS: Final = (
    Operation(
        "GET",
        "/local/workers",
        "List the Workers that run here: this one",
        list[shapes.LocalWorker],
        refusals=(),
    ),
    Operation(
        "GET",
        "/workflows",
        "List the workflows",
        list[shapes.LocalWorkflow],
        info=shapes.WorkflowCount,
        refusals=(),
    ),
    Operation(
        "GET",
        _WORKFLOW,
        "Describe a workflow",
        shapes.LocalWorkflowDetail,
        refusals=(404,),
    ),
    Operation(
        "DELETE",
        _WORKFLOW,
        "Delete every instance of a workflow",
        shapes.Deleted,
        refusals=(404,),
    ),
    Operation(
        "GET",
        _INSTANCES,
        "List the instances of a workflow, newest first",
        list[shapes.LocalRow],
        query=(
            PAGE,
            PER_PAGE,
            Parameter("status", one_of(*LISTED_STATUSES), "Only instances with this status."),
            DATE_START,
            DATE_END,
            ATTRIBUTE,
        ),
        info=shapes.LocalPage,
    ),
    Operation(
        "POST",
        _INSTANCES,
        "Create an instance",
        shapes.LocalCreated,
        body=LocalInstance,
        refusals=(400, 404, 409, 500),
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
        "GET",
        _INSTANCE,
        "Describe an instance with its steps",
        shapes.LocalInstanceDetail,
        refusals=(404,),
    ),
    Operation("DELETE", _INSTANCE, "Delete an instance", shapes.Done, refusals=(404,)),
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
        refusals=(400, 404, 409, 500),
    ),
    Operation(
        "POST",
        _INSTANCE + "/events/{event_type}",
        "Send an event, whose payload is the body",
        shapes.Done,
        body=Any,
    ),
)


@cache
def local_document() -> Json:
    """The document."""
    return openapi("workflow-emulator: local explorer API", _DESCRIPTION, PREFIX, _OPERATIONS)
