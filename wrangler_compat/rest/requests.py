"""What clients send: path segments, queries and bodies, checked.

What is wrong with a request is an `InvalidInput`; several problems stand one a line. Where the texts are Cloudflare's,
what follows the colon is ours: it says which part, what was given, what is allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar, cast
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from emulator.domain.duration import parse_duration, unknown_unit
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import (
    MAX_BATCH_INSTANCES,
    MAX_CRON_CHARS,
    MAX_REASON_UNITS,
    MAX_SAFE_INTEGER,
    MAX_STEP_NAME_CHARS,
)
from emulator.domain.names import check_instance_id, check_reason
from emulator.errors import InvalidHook, InvalidInput, InvalidInstanceId
from wrangler_compat.bodies import MAX_BODY_BYTES, read_body
from wrangler_compat.rest.mismatch import mismatch

DEFAULT_PAGE_ROWS: Final = 25
MAX_PAGE_ROWS: Final = 100
MAX_WANTED_ATTRIBUTES: Final = 8
"""Workflow SDK: attributes; as many in a filter."""

MAX_PAGE: Final = MAX_SAFE_INTEGER
"""The largest whole number that JavaScript has."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_AN_INSTANT: Final = "2026-11-30T12:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = r"T\d\d:\d\d(:\d\d(\.\d+)?)?"
_UTC_DATETIME: Final = re.compile(rf"\d{{4}}-\d\d-\d\d{_TIME}Z", re.ASCII)
_DATETIME: Final = re.compile(rf"\d{{4}}-\d\d-\d\d({_TIME}(Z|[+-]\d\d:\d\d)?)?", re.ASCII)

S = TypeVar("S")


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is sent: these keys and no others. A misspelt one would be something that is asked for and not done."""


class Retention(Body, frozen=True):
    """How long a finished instance is kept: milliseconds or a duration text; None for the default."""

    success_retention: int | str | None = None
    error_retention: int | str | None = None


class RestartTarget(Body, frozen=True):
    """The step to restart from: its name in the code, the how-many-th of that name."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_STEP_NAME_CHARS)]
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    kind: Literal["do", "sleep", "waitForEvent"] = msgspec.field(name="type", default="do")


class StatusChange(Body, frozen=True):
    """The body of a change of status."""

    status: Literal["pause", "resume", "terminate", "restart"]
    rollback: bool = False
    from_: RestartTarget | None = msgspec.field(name="from", default=None)
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_UNITS)] | None = None


_Hook = Annotated[
    Any,
    msgspec.Meta(
        description='A token of at most 512 bytes, or `{"token", "metadata"?, "min_retention"?}`.',
        extra_json_schema={"type": ["string", "object", "null"]},
    ),
]
_MinRetention = Annotated[
    Any,
    msgspec.Meta(
        description="For how long the token stays taken at least: milliseconds, or a duration text.",
        extra_json_schema={"type": ["number", "string", "null"]},
    ),
]
_Attributes = Annotated[
    Any,
    msgspec.Meta(
        description="Small texts by which people find the instance.",
        extra_json_schema={"type": ["object", "null"]},
    ),
]


class Claims(Body, frozen=True):
    """What an instance can begin with (Workflow SDK: atomic start). The binding checks it: see `bindings.workflow`."""

    hook: _Hook = None
    min_retention: _MinRetention = None
    min_retention_js: _MinRetention = msgspec.field(name="minRetention", default=None)
    experimental_hook: _Hook = None
    experimental_min_retention: _MinRetention = msgspec.field(
        name="experimental_minRetention", default=None
    )
    attributes: _Attributes = None

    def with_options(self, **options: object) -> dict[str, Any]:
        """What was given of it, and more, as options of the binding's `create`. What is None was not given."""
        names = zip(Claims.__struct_fields__, Claims.__struct_encode_fields__, strict=True)
        given = {sent: getattr(self, field) for field, sent in names} | options
        for name, value in given.items():
            if name.endswith("hook"):
                _check_hook(value)
            elif name in _RETENTIONS:
                _check_retention(value)
        return {name: value for name, value in given.items() if value is not None}


class LocalInstance(Claims, frozen=True):
    """The body of a creation, as the explorer API has it."""

    id: str | None = None
    params: Any = msgspec.UNSET

    def options(self) -> dict[str, Any]:
        """What it asks for: options of the binding's `create`. No params: an empty object (as `wrangler dev` has it)."""
        return self.with_options(id=self.id) | _params(self.params)


class RemoteInstance(Claims, frozen=True):
    """The body of a creation, as Cloudflare's API has it. The location means nothing here."""

    instance_id: str | None = None
    params: Any = msgspec.UNSET
    instance_retention: Retention = Retention()
    location_hint: (
        Literal[
            "wnam", "weur", "enam", "eeur", "apac", "apac-ne", "apac-se", "oc", "sam", "afr", "me"
        ]
        | None
    ) = None

    def options(self) -> dict[str, Any]:
        """What it asks for: options of the binding's `create`. The SDK sends params as JSON text, wrangler as they are."""
        params: object = self.params
        if isinstance(params, str):
            # Not JSON: a text that is meant as one.
            with suppress(msgspec.DecodeError, UnicodeEncodeError):
                params = msgspec.json.decode(params)
        retention = msgspec.structs.asdict(self.instance_retention)
        return self.with_options(id=self.instance_id, retention=retention) | _params(params)


_RETENTIONS: Final = ("min_retention", "minRetention", "experimental_minRetention")


def _check_hook(given: object) -> None:
    """Refuse what is no hook in JSON's words; the binding has Python's."""
    if isinstance(given, dict):
        for name in _RETENTIONS:
            _check_retention(cast("dict[str, object]", given).get(name))
    elif not (given is None or isinstance(given, str)):
        raise InvalidHook(
            f'hook cannot be {_json(given)}: it is a token, or {{"token", "metadata"?, "min_retention"?}}.'
        )


def _check_retention(given: object) -> None:
    if given is not None and (math.isnan(parse_duration(given)) or unknown_unit(given)):
        raise InvalidHook(
            f"min_retention cannot be {_json(given)}: it is a number of milliseconds, or a text such as "
            '"1 day".'
        )


def _json(given: object) -> str:
    return msgspec.json.encode(given).decode()[:80]


def _params(given: object) -> dict[str, Any]:
    return {} if given is msgspec.UNSET else {"params": given}


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class StepsLimit(Body, frozen=True):
    """`limits` of a workflow."""

    steps: _Positive | None = None


class ConcurrencyLimit(Body, frozen=True):
    """`concurrency` of a workflow."""

    limit: _Positive | None = None


class CronSchedule(Body, frozen=True):
    """One of the `schedules` of a workflow."""

    cron: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CRON_CHARS)]


class WorkflowUpdate(Body, frozen=True):
    """The body that deploys a workflow. The jurisdiction, which `wrangler deploy` sends, means nothing here."""

    class_name: _Name
    script_name: _Name
    limits: StepsLimit | None = None
    concurrency: ConcurrencyLimit | None = None
    default_retention: Retention | None = None
    schedules: list[CronSchedule] | None = None
    jurisdiction: str | None = None


def segment(request: Request, name: str) -> str:
    """A part of the path. It is decoded only now, so that an encoded slash is part of a name."""
    return unquote(request.path_params[name])


def instance_key(request: Request) -> InstanceKey:
    """The instance that the path names."""
    return InstanceKey(segment(request, "workflow"), segment(request, "id"))


def page_count(total: int, per_page: int) -> int:
    """How many pages a listing has: one at least."""
    return max(1, -(-total // per_page))


async def read_json(request: Request) -> object:
    """The body as JSON; `msgspec.UNSET` if there is none.

    Raises:
        InvalidInput: it is not JSON; the message says where.
        PayloadTooLarge: it is over 100 MiB.
    """
    body = await read_body(request, MAX_BODY_BYTES)
    if not body.strip():
        return msgspec.UNSET
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"Invalid JSON request body: {error}") from error


def convert(body: object, shape: type[S]) -> S:
    """The body in a shape.

    Raises:
        InvalidInput: it does not have it.
    """
    given: object = {} if body is msgspec.UNSET else body
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Invalid input: {mismatch(str(error), given, shape)}") from error


def status_change(body: object) -> StatusChange:
    """A change of status.

    Raises:
        InvalidInput: it is none, or has what another change has: a rollback, a reason, a step to restart from.
    """
    change = convert(body, StatusChange)
    if change.rollback and change.status != "terminate":
        raise InvalidInput("'rollback' is only valid when terminating.")
    if change.reason is not None:
        check_reason(change.reason)
        if change.status != "terminate":
            raise InvalidInput("'reason' is only valid when terminating.")
    if change.from_ is not None and change.status != "restart":
        raise InvalidInput("'from' is only valid when restarting.")
    return change


def instance_ids(body: object) -> list[str]:
    """The ids of a batch to delete.

    Raises:
        InvalidInput: it is not a list of 1 to 100 ids that an instance can have, or there are other keys.
    """
    keys = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    given = keys.get("instances")
    if not isinstance(given, list):
        received = "undefined" if given is None else _type_name(given)
        raise InvalidInput(f"instances: Invalid input: expected array, received {received}")
    for key in keys.keys() - {"instances"}:
        raise InvalidInput(
            f"Invalid input: {key}: there is no such key; expected one of: instances"
        )
    ids = cast("list[object]", given)
    if not ids:
        raise InvalidInput("instances: Too small: expected array to have >=1 items")
    if len(ids) > MAX_BATCH_INSTANCES:
        raise InvalidInput(
            f"instances: Too big: expected array to have <={MAX_BATCH_INSTANCES} items"
        )
    problems = [
        f"instances.{at}: {wrong}" for at, each in enumerate(ids) if (wrong := _wrong(each))
    ]
    if problems:
        raise InvalidInput("\n".join(problems))
    return [str(each) for each in ids]


class Query:
    """The query of a request. Problems are gathered until `finish`."""

    def __init__(self, request: Request) -> None:
        self._given = request.query_params
        self._problems: list[str] = []

    def text(self, name: str) -> str | None:
        """A parameter as it was written; None if it is missing."""
        return self._given.get(name)

    def whole(self, name: str, default: int, maximum: int = MAX_PAGE) -> int:
        """A number from one up."""
        given = self.text(name)
        if given is None:
            return default
        if not _WHOLE.fullmatch(given):
            return self._wrong(
                name, f'Expected query param to be number but received "{given}"', default
            )
        number = int(given)
        if number < 1:
            return self._wrong(name, "Too small: expected number to be >=1", default)
        if number > maximum:
            return self._wrong(name, f"Too big: expected number to be <={maximum}", default)
        return number

    def option(self, name: str, options: Iterable[S]) -> S | None:
        """One of some texts."""
        given = self.text(name)
        known = {str(option): option for option in options}
        if given is None or given in known:
            return None if given is None else known[given]
        listed = "|".join(f'"{option}"' for option in known)
        return self._wrong(name, f"Invalid option: expected one of {listed}", None)

    def instant_ms(self, name: str, *, only_utc: bool) -> int | None:
        """An ISO 8601 date and time, in milliseconds; with `only_utc` it must end in Z, as `wrangler dev` wants it."""
        given = self.text(name)
        if given is None:
            return None
        try:
            if not (_UTC_DATETIME if only_utc else _DATETIME).fullmatch(given):
                raise ValueError(given)
            instant = datetime.fromisoformat(given)
        except ValueError:
            text = f'Invalid ISO datetime: got "{given}"; expected one such as {_AN_INSTANT}'
            return self._wrong(name, text, None)
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)

    def attributes(self) -> tuple[tuple[str, str], ...]:
        """The attributes that are wanted: `attribute`, repeated, each a name, "=" and a value."""
        given = self._given.getlist("attribute")
        if len(given) > MAX_WANTED_ATTRIBUTES:
            text = f"at most {MAX_WANTED_ATTRIBUTES} can be asked for, not {len(given)}"
            return self._wrong("attribute", text, ())
        parted = [each.partition("=") for each in given]
        if any(not name or not sign for name, sign, _ in parted):
            return self._wrong("attribute", 'expected NAME=VALUE, such as "customer=7"', ())
        return tuple((name, value) for name, _, value in parted)

    def finish(self) -> None:
        """All parameters have been read.

        Raises:
            InvalidInput: some are not valid.
        """
        if self._problems:
            raise InvalidInput("\n".join(self._problems))

    def _wrong(self, name: str, problem: str, instead: S) -> S:
        self._problems.append(f"{name}: {problem}")
        return instead


def _wrong(instance_id: object) -> str | None:
    if not isinstance(instance_id, str):
        return f"Invalid input: expected string, received {_type_name(instance_id)}"
    try:
        check_instance_id(instance_id)
    except InvalidInstanceId:
        if not instance_id:
            return "Too small: expected string to have >=1 characters"
        return r"Invalid string: must match pattern /^[a-zA-Z0-9, *\/#_-]+$/"
    return None


def _type_name(value: object) -> str:
    """JavaScript's name for the type of a JSON value."""
    if value is None:
        return "null"
    names: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}
    return "array" if isinstance(value, list) else names.get(type(value), "object")
