"""How the binding speaks over HTTP: what `HttpWorkflow` sends, and what an emulator answers (see docs/http.md).

Both sides are here, so that they agree. Values travel as they are stored (see `emulator.domain.values`), so bytes,
datetimes and sets arrive as what they are. A refusal names its class, and becomes the same exception again.
"""

from __future__ import annotations

from typing import Final

import msgspec

import emulator.errors
from bindings.host import NewInstance, StreamReport
from emulator.core.inputs import (
    AttributesRequested,
    DeleteRequested,
    EventSent,
    Input,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
    WakeUpRequested,
)
from emulator.domain.hooks import TokenKey
from emulator.domain.instance import InstanceKey
from emulator.errors import EmulatorError, HookConflictError, InvalidInput

PREFIX: Final = "/cdn-cgi/workflow-emulator"
"""Where the API is."""

END: Final = "end"
REFUSED: Final = "refused"
"""How a stream of events says that it is over: after the terminal event, or for a reason."""

CHUNK: Final = "chunk"
"""What a chunk is called in a stream of them."""

TAIL_INDEX: Final = "x-workflow-stream-tail-index"
RUN_ID: Final = "x-workflow-run-id"
"""Headers of a stream: the index of its last chunk when the answer began, and the instance's id."""

ASKS: Final[dict[str, type[Input]]] = {
    "pause": PauseRequested,
    "resume": ResumeRequested,
    "terminate": TerminateRequested,
    "restart": RestartRequested,
    "delete": DeleteRequested,
    "event": EventSent,
    "wake_up": WakeUpRequested,
    "attributes": AttributesRequested,
}
"""What can be asked of an instance, by its name in a message."""

_NOT_ASKED: Final = frozenset({"holders", "delivery_id"})
"""What the engine, or a webhook, adds to that: nobody can ask for it."""

_NAMES: Final = {kind: name for name, kind in ASKS.items()}


class NewInstances(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances to create, all in one commit. `is_whole`: a token that is taken refuses all."""

    instances: list[NewInstance]
    is_whole: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """An exception of `emulator.errors`. `type` is its class, the rest what its attributes say.

    `fields` are those that its class has beside; `index` is its place in a batch.
    """

    type: str
    code: str
    name: str
    message: str
    detail: str = ""
    fields: dict[str, str] = {}
    index: int | None = None


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


class Told(msgspec.Struct, frozen=True):
    """What the rules answer, if anything."""

    answer: int | None = None


class Found(msgspec.Struct, frozen=True):
    """The instance of an id, if there is one."""

    key: InstanceKey | None = None


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A payload for whoever holds a token. `checked_by` is the name of a schema that it matches."""

    token: TokenKey
    payload: msgspec.Raw
    resume_id: str | None = None
    checked_by: str | None = None


class StreamList(msgspec.Struct, frozen=True):
    """The streams of an instance."""

    streams: list[StreamReport]


class Waited(msgspec.Struct, frozen=True):
    """Whether an instance has ended; if not, ask again."""

    ended: bool


def ask_to_json(item: Input) -> bytes:
    """Write down what is asked of an instance: `{"ask": "terminate", "rollback": true}`."""
    fields = {name: getattr(item, name) for name in _asked(type(item))}
    given = {name: value for name, value in fields.items() if value is not None}
    return msgspec.json.encode({"ask": _NAMES[type(item)], **given})


def _asked(kind: type[Input]) -> list[str]:
    return [name for name in kind.__struct_fields__ if name not in _NOT_ASKED]


def ask_from_json(body: bytes) -> Input:
    """Read it back. A payload is not looked into.

    Raises:
        InvalidInput: it is none.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        asked = msgspec.json.decode(fields.pop("ask", msgspec.Raw(b'""')), type=str)
        if asked not in ASKS:
            raise InvalidInput(f"ask must be one of {', '.join(ASKS)}, not {asked!r}")
        known = _asked(ASKS[asked])
        if unknown := fields.keys() - known:
            raise InvalidInput(
                f"The ask {asked!r} has no {', '.join(map(repr, sorted(unknown)))}; "
                f"it has: {', '.join(known) or 'nothing else'}."
            )
        # Apart, for msgspec reads `Raw | None` as None alone; and no payload is not the payload null.
        payload = fields.pop("payload", None)
        item = msgspec.json.decode(msgspec.json.encode(fields), type=ASKS[asked])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"Invalid input: {error}") from error
    if isinstance(item, EventSent):
        return msgspec.structs.replace(item, payload=payload)
    return item


def refusal_of(error: EmulatorError) -> Refusal:
    """What is sent of an exception."""
    detail: str = getattr(error, "detail", "")
    return Refusal(
        type(error).__name__,
        error.code,
        error.name,
        error.message,
        detail,
        {field: getattr(error, field) for field in error.fields},
        getattr(error, "index", None),
    )


def exception_of(refusal: Refusal) -> EmulatorError:
    """The exception again; one of a class that is not known here is an `EmulatorError` with the same attributes."""
    found = getattr(emulator.errors, refusal.type, None)
    if isinstance(found, type) and issubclass(found, EmulatorError):
        error = found(refusal.message, **refusal.fields)
    else:
        error = EmulatorError(refusal.message)
        error.code = refusal.code  # pyright: ignore[reportAttributeAccessIssue]
    error.name = refusal.name
    if isinstance(error, HookConflictError):
        error.index = refusal.index
    if refusal.detail:
        error.detail = refusal.detail  # pyright: ignore[reportAttributeAccessIssue]
    return error


def split_frames(text: bytes) -> tuple[list[dict[str, str]], bytes]:
    """Read the frames that are whole at the beginning of a stream, as their fields; and what is left.

    Comments are left out. Only line feeds end a line: texts may hold other separators.
    """
    *whole, rest = text.split(b"\n\n")
    frames: list[dict[str, str]] = []
    for frame in whole:
        lines = [line for line in frame.decode().split("\n") if not line.startswith(":")]
        if lines:
            frames.append(dict(line.split(": ", 1) for line in lines))
    return frames, rest
