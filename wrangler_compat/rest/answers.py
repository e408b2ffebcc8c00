"""What clients are answered: Cloudflare's envelope, and for every error the status and code of each API.

An error finds its line in a table by its class or the nearest base class, so a new class of error has an answer at once.
The codes are Cloudflare's where they are known (specification http-api 2.5 and 3). The remote API answers no mistake of
a client with 409, 429 or 5xx: Cloudflare's SDK would send the request again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from emulator.errors import (
    CannotTerminate,
    Conflict,
    EmulatorError,
    EngineStopped,
    HookConflictError,
    InstanceAlreadyExists,
    InstanceNotFound,
    InvalidHook,
    InvalidInput,
    InvalidInstanceId,
    NotFound,
    PayloadTooLarge,
    StepNotFound,
    WorkflowNotFound,
)
from wrangler_compat.rest.requests import segment

log = logging.getLogger("workflow_emulator")

T = TypeVar("T")

INTERNAL: Final = 10001
AUTHENTICATION: Final = 10000
NO_ROUTE: Final = 7003
VERSION_NOT_FOUND: Final = 10300
BAD_DATE_RANGE: Final = 10502


class RemoteAnswer(NamedTuple):
    """How the remote API answers an error."""

    status: int
    code: int | str
    message: str


REMOTE: Final[dict[type[EmulatorError], RemoteAnswer]] = {
    EmulatorError: RemoteAnswer(500, INTERNAL, "workflows.api.error.internal_server"),
    InvalidInput: RemoteAnswer(400, 10002, "workflows.api.error.body"),
    PayloadTooLarge: RemoteAnswer(413, 10002, "workflows.api.error.body"),
    NotFound: RemoteAnswer(404, 10404, "workflows.api.error.not_found"),
    WorkflowNotFound: RemoteAnswer(404, 10200, "workflows.api.error.workflow.not_found"),
    InstanceNotFound: RemoteAnswer(404, 10400, "workflows.api.error.instance.not_found"),
    Conflict: RemoteAnswer(400, 10402, "workflows.api.error.instance.conflict"),
    InvalidHook: RemoteAnswer(400, "invalid_hook", "workflows.api.error.body"),
    HookConflictError: RemoteAnswer(409, "hook_conflict", "workflows.api.error.hook_conflict"),
    CannotTerminate: RemoteAnswer(400, 10401, "workflows.api.error.instance.cannot_terminate"),
    InstanceAlreadyExists: RemoteAnswer(400, 10405, "workflows.api.error.instance.already_exists"),
}
"""10402 and 10404 are ours, and so are the codes of hooks, which no client of Cloudflare's asks for."""


class LocalAnswer(NamedTuple):
    """How the explorer API answers an error. `text` is formed with `name`, `message`, `workflow` and `id`."""

    status: int
    code: int | str
    text: str


LOCAL: Final[dict[type[EmulatorError], LocalAnswer]] = {
    EmulatorError: LocalAnswer(500, INTERNAL, "{name}: {message}"),
    InvalidInput: LocalAnswer(400, INTERNAL, "{message}"),
    InvalidInstanceId: LocalAnswer(500, INTERNAL, "{name}: {message}"),
    PayloadTooLarge: LocalAnswer(413, INTERNAL, "{message}"),
    NotFound: LocalAnswer(404, 10501, "{message}"),
    WorkflowNotFound: LocalAnswer(404, 10501, "Workflow '{workflow}' not found."),
    InstanceNotFound: LocalAnswer(404, 10501, "Workflow instance '{id}' not found."),
    InvalidHook: LocalAnswer(400, "invalid_hook", "{message}"),
    HookConflictError: LocalAnswer(409, "hook_conflict", "{message}"),
    StepNotFound: LocalAnswer(409, INTERNAL, "{name}: {message}"),
}
"""`wrangler dev` answers some mistakes with 500, and so do we: its only client looks at the text."""


def success(
    result: object, result_info: dict[str, Any] | None = None, status: int = 200
) -> Response:
    """The envelope of an answer."""
    envelope: dict[str, Any] = {"success": True, "errors": [], "messages": [], "result": result}
    if result_info is not None:
        envelope["result_info"] = result_info
    return _json(envelope, status)


def failure(
    status: int,
    code: int | str,
    *texts: str,
    explanations: Iterable[str] = (),
    fields: Mapping[str, object] = MappingProxyType({}),
) -> Response:
    """The envelope of a refusal: one error for each text, with the `fields`. `explanations` say what a code does not."""
    envelope = {
        "success": False,
        "errors": [{"code": code, "message": text, **fields} for text in texts],
        "messages": [{"code": code, "message": explanation} for explanation in explanations],
        "result": None,
    }
    return _json(envelope, status)


def batch_deleted(deleted: Sequence[str], missing: Sequence[str]) -> Response:
    """The answer to the deletion of a batch, the same in both APIs."""
    _, code, message = REMOTE[InstanceNotFound]
    return success(
        {
            "deleted": [{"id": each} for each in deleted],
            "errors": [{"id": each, "code": code, "message": message} for each in missing],
        }
    )


def line_of(error: EmulatorError, table: Mapping[type[EmulatorError], T]) -> T:
    """The line of a table that an error has: that of its class, or of the nearest above it. `EmulatorError` has one."""
    return next(table[kind] for kind in type(error).__mro__ if kind in table)


def remote_answer(error: EmulatorError) -> RemoteAnswer:
    """The line of the remote table that an error has."""
    return line_of(error, REMOTE)


def local_answer(error: EmulatorError) -> LocalAnswer:
    """The line of the local table that an error has."""
    return line_of(error, LOCAL)


def tell_script(error: EmulatorError, scripts: Mapping[str, str], workflow: str) -> None:
    """Say of a workflow that is not found in which other script it is, if the configuration knows: `scripts` by workflow."""
    if isinstance(error, WorkflowNotFound) and workflow in scripts:
        error.message += f'. "{workflow}" is a workflow of the script "{scripts[workflow]}", which does not run here'


def tell_script_asked_for(error: EmulatorError, request: Request) -> None:
    """The same of the workflow that the path names."""
    if "workflow" in request.path_params:
        tell_script(error, request.app.state.scripts, segment(request, "workflow"))


async def remote_failure(request: Request, error: Exception) -> Response:
    """Answer an error as Cloudflare's API does."""
    assert isinstance(error, EmulatorError)
    tell_script_asked_for(error, request)
    status, code, message = remote_answer(error)
    _note(status, error)
    explanations = [*error.message.splitlines(), *hints_of(error)]
    return failure(status, code, message, explanations=explanations, fields=fields_of(error))


async def local_failure(request: Request, error: Exception) -> Response:
    """Answer an error as `wrangler dev` does."""
    assert isinstance(error, EmulatorError)
    tell_script_asked_for(error, request)
    status, code, text = local_answer(error)
    if not isinstance(error, InvalidInput | NotFound | Conflict):
        _note(status, error)
    names = {
        key: segment(request, key) if key in request.path_params else ""
        for key in ("workflow", "id")
    }
    lines = error.message.splitlines() or [""]  # several problems stand one a line
    texts = (text.format(name=error.name, message=line, **names) for line in lines)
    unsaid = [error.message] if isinstance(error, WorkflowNotFound) else []
    explanations = [*unsaid, *hints_of(error)]
    return failure(status, code, *texts, explanations=explanations, fields=fields_of(error))


def fields_of(error: EmulatorError) -> dict[str, object]:
    """What an error tells beside its code and message, in JSON's spelling, such as `conflictingRunId`."""
    fields: dict[str, object] = {
        _camel(field): getattr(error, field) for field in error.fields if field != "hint"
    }
    if isinstance(error, HookConflictError) and error.index is not None:
        fields["index"] = error.index
    return fields


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


async def no_route(request: Request, error: Exception) -> Response:
    """Answer a path that there is not, or a method that the path does not have."""
    assert isinstance(error, HTTPException)
    path = path_of(request)
    if error.status_code == 405:
        allowed = allowed_methods(request)
        text = f"{request.method} is not allowed for {path}, only {allowed}"
        answer = failure(405, NO_ROUTE, text)
        answer.headers["allow"] = allowed
        return answer
    text = f"Could not route to {path}, perhaps your object identifier is invalid?"
    return failure(404, NO_ROUTE, text)


def path_of(request: Request) -> str:
    """The path as it was sent, from its beginning."""
    return request.scope["raw_path"].decode("latin-1")


def allowed_methods(request: Request) -> str:
    """The methods of every route of a path; the router tells those of one."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))


async def crashed(_: Request, error: Exception) -> Response:
    """Answer what nobody expected; whoever serves the application logs it."""
    text = "workflows.api.error.internal_server"
    return last_of_connection(failure(500, INTERNAL, text, explanations=[repr(error)]))


def last_of_connection(answer: Response) -> Response:
    """Tell the client of a crash what the server does then, or its next request would go to a connection that ends."""
    answer.headers["connection"] = "close"
    return answer


_Handler = Callable[[Request, Any], Awaitable[Response]]


class Answers(NamedTuple):
    """What an API answers: to what is refused, to a path or method that there is not, and to what nobody expected."""

    refused: _Handler
    missing: _Handler
    crashed: _Handler


def api_app(routes: Sequence[BaseRoute], scripts: Mapping[str, str], answers: Answers) -> Starlette:
    """Make the application of an API. `scripts` are those of the workflows of other scripts (see `tell_script`)."""
    handlers: dict[Any, _Handler] = {
        EmulatorError: answers.refused,
        HTTPException: answers.missing,
        Exception: answers.crashed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.scripts = scripts
    return app


def hints_of(error: EmulatorError) -> list[str]:
    """What is allowed, or what to do, where the error's own text does not say it."""
    return [error.hint] if error.hint else []


def _note(status: int, error: EmulatorError) -> None:
    if status >= 500 and not isinstance(error, EngineStopped):  # which the engine has told already
        log.error("%s", error, exc_info=error)


def _json(envelope: dict[str, Any], status: int) -> Response:
    return Response(msgspec.json.encode(envelope), status, media_type="application/json")
