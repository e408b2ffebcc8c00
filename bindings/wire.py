"""How the binding speaks over HTTP: what `HttpWorkflow` sends, and what an emulator answers (see docs/http.md).

Both sides are here, so that they agree. Values travel as they are stored (see `emulator.domain.values`), so bytes,
datetimes and sets arrive as what they are. A refusal names its class, and becomes the same exception again.
"""

from __future__ import annotations

from typing import Final

import msgspec

import emulator.errors
from bindings.host import NewInstance
from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    Input,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
)
from emulator.errors import EmulatorError, InvalidInput

PREFIX: Final = "/cdn-cgi/workflow-emulator"
"""Where the API is."""

END: Final = "end"
REFUSED: Final = "refused"
"""How a stream of events says that it is over: after the terminal event, or for a reason."""

ASKS: Final[dict[str, type[Input]]] = {
    "pause": PauseRequested,
    "resume": ResumeRequested,
    "terminate": TerminateRequested,
    "restart": RestartRequested,
    "delete": DeleteRequested,
    "event": EventSent,
}
"""What can be asked of an instance, by its name in a message."""

_NAMES: Final = {kind: name for name, kind in ASKS.items()}


class NewInstances(msgspec.Struct, frozen=True):
    """Instances to create, all in one commit."""

    instances: list[NewInstance]


class Refusal(msgspec.Struct, frozen=True):
    """An exception of `emulator.errors`. `type` is its class, the rest what its attributes say."""

    type: str
    code: str
    name: str
    message: str
    detail: str = ""


class Refused(msgspec.Struct, frozen=True):
    """The answer when something is refused."""

    refusal: Refusal


class CodePlace(msgspec.Struct, frozen=True):
    """Where a code does not compile, counted from 1; null where no place is to blame."""

    file: str | None
    line: int | None
    column: int | None


class CodeRefused(Refused, frozen=True):
    """The answer when a code is refused."""

    place: CodePlace


class Published(msgspec.Struct, frozen=True):
    """A version of a tenant's workflow; `hash` is what instances are pinned to."""

    tenant: str
    name: str
    version: str
    hash: str


class ListedVersion(Published, frozen=True):
    """A version in a listing, with the time of its publishing."""

    created_ms: int


class Versions(msgspec.Struct, frozen=True):
    """What has been published, in its order."""

    versions: list[ListedVersion]


class Created(msgspec.Struct, frozen=True):
    """For each of the instances null, or that its id is taken."""

    refusals: list[Refusal | None]


class Waited(msgspec.Struct, frozen=True):
    """Whether an instance has ended; if not, ask again."""

    ended: bool


def ask_to_json(item: Input) -> bytes:
    """Write down what is asked of an instance: `{"ask": "terminate", "rollback": true}`."""
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    given = {name: value for name, value in fields.items() if value is not None}
    return msgspec.json.encode({"ask": _NAMES[type(item)], **given})


def ask_from_json(body: bytes) -> Input:
    """Read it back. A payload is not looked into.

    Raises:
        InvalidInput: it is none.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        asked = msgspec.json.decode(fields.pop("ask", msgspec.Raw(b'""')), type=str)
        # Apart, for msgspec reads `Raw | None` as None alone; and no payload is not the payload null.
        payload = fields.pop("payload", None)
        if asked not in ASKS:
            raise InvalidInput(f"ask must be one of {', '.join(ASKS)}, not {asked!r}")
        item = msgspec.json.decode(msgspec.json.encode(fields), type=ASKS[asked])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"Invalid input: {error}") from error
    if isinstance(item, EventSent):
        return msgspec.structs.replace(item, payload=payload)
    return item


def refusal_of(error: EmulatorError) -> Refusal:
    """What is sent of an exception."""
    detail: str = getattr(error, "detail", "")
    return Refusal(type(error).__name__, error.code, error.name, error.message, detail)


def exception_of(refusal: Refusal) -> EmulatorError:
    """The exception again; one of a class that is not known here is an `EmulatorError` with the same attributes."""
    found = getattr(emulator.errors, refusal.type, None)
    if isinstance(found, type) and issubclass(found, EmulatorError):
        error = found(refusal.message)
    else:
        error = EmulatorError(refusal.message)
        error.code = refusal.code  # pyright: ignore[reportAttributeAccessIssue]
    error.name = refusal.name
    if refusal.detail:
        error.detail = refusal.detail  # pyright: ignore[reportAttributeAccessIssue]
    return error
