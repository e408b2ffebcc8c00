"""OpenAPI documents, made from a table of operations and the types of what goes in and comes out.

The bodies that clients send are described by the same types that check them (`requests`), answers by `shapes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from emulator.domain.limits import MAX_WORKFLOW_NAME_CHARS
from emulator.projection.events import EVENT_TYPES
from emulator.projection.rendering import Json
from wrangler_compat.rest.requests import MAX_PAGE, MAX_PAGE_ROWS, MAX_WANTED_ATTRIBUTES
from wrangler_compat.rest.shapes import InstanceId, Instant

_Page = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]
_PerPage = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_ROWS)]

_WorkflowName = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=MAX_WORKFLOW_NAME_CHARS, pattern="^[a-zA-Z0-9_][a-zA-Z0-9_-]*$"
    ),
]
_EventNumber = Annotated[int, msgspec.Meta(ge=0, le=MAX_PAGE)]
_EventType = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [*EVENT_TYPES.values()]})]
_Attribute = Annotated[str, msgspec.Meta(pattern="^[^=]+=")]
_Attributes = Annotated[list[_Attribute], msgspec.Meta(max_length=MAX_WANTED_ATTRIBUTES)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]

_IN_PATHS: Final[dict[str, Any]] = {
    "account_id": _Text,
    "workflow_name": _WorkflowName,
    "instance_id": InstanceId,
    "version_id": _Text,
    "event_type": _Text,
}


def one_of(*texts: str) -> Any:
    """The type of a text that is one of some."""
    return Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(texts)})]


class Parameter(NamedTuple):
    """A parameter in the query."""

    name: str
    type: Any
    description: str
    is_required: bool = False


PAGE: Final = Parameter("page", _Page, "Which page, from 1.")
PER_PAGE: Final = Parameter("per_page", _PerPage, "How many to a page.")
DATE_START: Final = Parameter("date_start", Instant, "Only instances created then or later.")
DATE_END: Final = Parameter("date_end", Instant, "Only instances created then or earlier.")


ATTRIBUTE: Final = Parameter(
    "attribute", _Attributes, "Only instances that have this attribute: a name, = and a value."
)
EVENTS: Final = (
    Parameter("cursor", _EventNumber, "Only events after that number."),
    Parameter("filter", list[_EventType], "Only events of these types."),
)


class Operation(NamedTuple):
    """A method of a path. `result` is the type of the envelope's `result`, `info` that of its `result_info`.

    A stream has no envelope: it is server-sent events. Where `or_bytes`, the answer may be bytes instead.
    """

    method: str
    path: str
    summary: str
    result: Any
    query: tuple[Parameter, ...] = ()
    body: Any = None
    body_is_required: bool = False
    info: Any = None
    refusals: tuple[int, ...] = (400, 404)
    is_stream: bool = False
    or_bytes: bool = False


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What explains an error."""

    code: int | str
    message: str


class Mistake(Message, rename="camel"):
    """An error. When a token is taken it says by which run; `index` is the place in a batch."""

    token: str | msgspec.UnsetType = msgspec.UNSET
    conflicting_run_id: str | msgspec.UnsetType = msgspec.UNSET
    conflicting_workflow: str | msgspec.UnsetType = msgspec.UNSET
    index: int | msgspec.UnsetType = msgspec.UNSET


class Refusal(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a request that was not done: `errors` has what was wrong, one entry for each mistake."""

    success: Annotated[bool, msgspec.Meta(extra_json_schema={"const": False})]
    errors: Annotated[list[Mistake], msgspec.Meta(min_length=1)]
    messages: list[Message]
    result: None


class StreamedEvent(msgspec.Struct, forbid_unknown_fields=True):
    """One event of a stream, as a client of server-sent events sees it. `data` is JSON."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]
    event: _EventType
    data: str


_REFUSALS: Final = {
    400: "The request is not valid, or the instance is not in a state that allows it.",
    403: "The token is missing or wrong, or the request comes from a page of another machine.",
    404: "There is no such workflow, instance, version or step.",
    409: "The token is taken, or there is no such step in the history of the instance.",
    413: "The body is too large.",
    500: "The request is not valid in a way that `wrangler dev` answers so, or the emulator has failed.",
}


def openapi(title: str, description: str, prefix: str, operations: Sequence[Operation]) -> Json:
    """Make the document of an API whose paths begin after `prefix`."""
    schemas = _Schemas()
    paths: dict[str, Json] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "description": description,
            "version": version("workflow-emulator"),
        },
        "servers": [{"url": prefix}],
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """The JSON schemas of types. `components` has those that are referred to."""

    def __init__(self) -> None:
        self.components: Json = {}

    def of(self, kind: Any) -> Json:
        """The schema of a type."""
        [schema], components = msgspec.json.schema_components(
            [kind], ref_template="#/components/schemas/{name}"
        )
        self.components |= components
        return schema


def _operation(operation: Operation, schemas: _Schemas) -> Json:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.of(_IN_PATHS[name])}
        for name in names
    ]
    parameters += [
        {
            "name": query.name,
            "in": "query",
            "required": query.is_required,
            "description": query.description,
            "schema": schemas.of(query.type),
        }
        for query in operation.query
    ]
    made: Json = {
        "summary": operation.summary,
        "operationId": _operation_id(operation),
        "parameters": parameters,
        "responses": _responses(operation, schemas),
    }
    if operation.body is not None:
        made["requestBody"] = {
            "required": operation.body_is_required,
            "content": _json_content(schemas.of(operation.body)),
        }
    return made


def _operation_id(operation: Operation) -> str:
    words = operation.path.replace("{", "").replace("}", "").strip("/").replace("/", "-")
    return f"{operation.method.lower()}-{words}"


def _responses(operation: Operation, schemas: _Schemas) -> Json:
    if operation.is_stream:
        answer: Json = {"text/event-stream": {"schema": schemas.of(StreamedEvent)}}
    else:
        answer = _json_content(_envelope(operation, schemas))
    if operation.or_bytes:
        answer["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    refusal = _json_content(schemas.of(Refusal))
    statuses = {403, *operation.refusals} | ({413} if operation.body is not None else set[int]())
    return {
        "200": {"description": "Done.", "content": answer},
        **{
            str(status): {"description": _REFUSALS[status], "content": refusal}
            for status in sorted(statuses)
        },
    }


def _envelope(operation: Operation, schemas: _Schemas) -> Json:
    properties: Json = {
        "success": {"const": True},
        "errors": {"type": "array", "maxItems": 0},
        "messages": {"type": "array", "items": schemas.of(Message)},
        "result": schemas.of(operation.result),
    }
    if operation.info is not None:
        properties["result_info"] = schemas.of(operation.info)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _json_content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
