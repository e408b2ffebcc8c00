"""What the emulator and a tenant's process say to each other: JSON behind four bytes that tell its length.

Values travel as they are stored (see `emulator.domain.values`), so nothing that comes in can be anything but data. A `run` is
one incarnation, numbered by the emulator; an `ask` is a step that it asks for, numbered by the process; a `call` is a
callback that the emulator wants called, numbered by the emulator.
"""

from __future__ import annotations

import asyncio
import math
import re
import traceback
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

import emulator.errors
from emulator.core.effects import HookOwner
from emulator.core.inputs import HookRequested
from emulator.domain.config import StepConfig
from emulator.domain.duration import parse_duration
from emulator.domain.failure import Failure, exception_of, failure_of
from emulator.domain.hooks import MinRetention, named_in
from emulator.domain.limits import MAX_SAFE_INTEGER
from emulator.domain.steps import StepKey
from emulator.engine.frames import traceback_of
from emulator.engine.tokens import HookNames
from emulator.errors import EmulatorError, RetryableError
from emulator.timing.clock import SystemClock

MAX_TRACE_CHARS: Final = 4_000
"""How much of a traceback goes into the log of the emulator."""

MAX_TEXT_CHARS: Final = 2**18
"""How much of what an exception says is told."""

MAX_WISH_CHARS: Final = 256
"""How long a duration can be that somebody writes."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

MAX_FRAME_BYTES: Final = 16 * 2**20
"""Code and values have at most 1 MiB each, and JSON inside JSON may double."""

LENGTH_BYTES: Final = 4
NULL: Final = msgspec.Raw(b"null")

_MOST: Final = MAX_SAFE_INTEGER
Number = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
"""The numbers that a process can say: JSON has longer ones, which neither a journal nor a view can hold."""

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Wish = Annotated[str, msgspec.Meta(max_length=MAX_WISH_CHARS)]


class Message(msgspec.Struct, frozen=True, tag=True):
    """Something that is said."""


class Told(msgspec.Struct, frozen=True):
    """An exception: what is stored of it, and its class if that is one of `emulator.errors`.

    `trace` says where it comes from, for the log; of a long one the end.
    """

    name: Text
    message: Text
    kind: Text = ""
    fields: dict[Text, Text] = {}
    trace: Text = ""


# what the emulator says


class Start(Message, frozen=True):
    """Begin a run of the tenant `scope`. `manifest` is the code; `payload` and `env` are stored values.

    `hooks` makes the tokens and ids of the instance's hooks, and no others; `webhooks` is what their addresses begin with.
    """

    run: int
    scope: str
    code: str
    manifest: str
    payload: msgspec.Raw
    timestamp_ms: int
    instance_id: str
    workflow_name: str
    env: msgspec.Raw
    defaults: StepConfig
    step_limit: int
    hooks: HookNames
    webhooks: str


class Answer(Message, frozen=True):
    """A step has ended: a result, or null for a sleep."""

    run: int
    ask: int
    value: msgspec.Raw


class EventAnswer(Message, frozen=True):
    """A wait has taken an event."""

    run: int
    ask: int
    event_type: str
    received_ms: int
    has_payload: bool
    payload: msgspec.Raw


class OwnerAnswer(Message, frozen=True):
    """A hook is registered, or not because of its token's owner."""

    run: int
    ask: int
    owner: HookOwner | None


class ErrorAnswer(Message, frozen=True):
    """A step has failed, or is refused."""

    run: int
    ask: int
    error: Told


class HostAnswer(Message, frozen=True):
    """The answer to a question about instances. Nothing waits for the run to react to it: it is asked in callbacks."""

    run: int
    ask: int
    value: msgspec.Raw


class HostError(Message, frozen=True):
    """A question about instances is refused."""

    run: int
    ask: int
    error: Told


class Callee(StrEnum):
    """What is to be called."""

    STEP = "step"
    ROLLBACK = "rollback"
    DELAY = "delay"
    ROLLBACK_DELAY = "rollback delay"


class Call(Message, frozen=True):
    """Call a callback. `error` is what a delay is computed for, or what began the rollback; `output` the step's result."""

    call: int
    run: int
    callee: Callee
    step: StepKey
    attempt: int
    config: StepConfig
    error: Told | None = None
    output: msgspec.Raw = NULL


class Cancel(Message, frozen=True):
    """Cancel a call; no answer is wanted."""

    call: int


class Stop(Message, frozen=True):
    """Unwind a run. Its rollback handlers may still be called."""

    run: int


class Forget(Message, frozen=True):
    """Nothing will be asked of a run any more."""

    run: int


class Ping(Message, frozen=True):
    """Answer, if you can. The number cannot be guessed: who says it has read this."""

    number: int


StepAnswer = Answer | EventAnswer | OwnerAnswer | ErrorAnswer
ToRun = StepAnswer | HostAnswer | HostError | Stop
FromEmulator = Start | ToRun | Call | Cancel | Forget | Ping


# what the process says


class AskDo(Message, frozen=True):
    """A run asks for a `do` step; whether its config, and that of its rollback handler, have a delay function.

    `is_reserved`: its author has not written it, so it has a name of its own and counts as none (`StepContext.do_reserved`).
    """

    run: Count
    ask: Count
    name: str
    config: StepConfig
    has_delay: bool
    rollback: StepConfig | None
    rollback_has_delay: bool
    is_reserved: bool = False


class AskSleep(Message, frozen=True):
    """A run asks to sleep."""

    run: Count
    ask: Count
    name: str
    duration_ms: Number


class AskSleepUntil(Message, frozen=True):
    """A run asks to sleep until an instant."""

    run: Count
    ask: Count
    name: str
    until_ms: Number


class AskWait(Message, frozen=True):
    """A run asks for an event."""

    run: Count
    ask: Count
    name: str
    event_type: str
    timeout_ms: Number


class AskHook(Message, frozen=True):
    """A run opens a hook, with a token or without; `metadata` is a stored value."""

    run: Count
    ask: Count
    name: str | None
    token: str | None
    metadata: msgspec.Raw
    min_retention: MinRetention | None
    is_webhook: bool


class AskReceive(Message, frozen=True):
    """A run asks for a payload of the hook that the ask `hook` has opened. A `turn` that was abandoned is asked `again`."""

    run: Count
    ask: Count
    hook: Count
    turn: Count
    timeout_ms: Number | None
    again: Count


class DisposeHook(Message, frozen=True):
    """A run gives a hook up."""

    run: Count
    hook: Count


class InputCall(Message, frozen=True):
    """Something is asked of an instance, as in `bindings.wire.ask_to_json`."""

    workflow: str
    id: str
    body: str


class StatusCall(Message, frozen=True):
    """How is an instance?"""

    workflow: str
    id: str


class EndCall(Message, frozen=True):
    """Tell when an instance has ended."""

    workflow: str
    id: str


class FindCall(Message, frozen=True):
    """Which workflow is an instance of?"""

    id: str


class HookCall(Message, frozen=True):
    """Who holds a token?"""

    token: str


class ResumeCall(Message, frozen=True):
    """A payload, a stored value, for whoever holds a token."""

    token: str
    payload: msgspec.Raw
    resume_id: str | None


HostCall = InputCall | StatusCall | EndCall | FindCall | HookCall | ResumeCall


class AskHost(Message, frozen=True):
    """Code of a run asks about the instances of its tenant."""

    run: Count
    ask: Count
    call: HostCall


class Abandon(Message, frozen=True):
    """A run has cancelled what it had asked for."""

    run: Count
    ask: Count


class Quiet(Message, frozen=True):
    """A run has reacted to its start, or to an answer: what it asks for because of that has been said."""

    run: Count


class Ended(Message, frozen=True):
    """`run()` has returned."""

    run: Count
    value: msgspec.Raw


class Failed(Message, frozen=True):
    """`run()` has raised."""

    run: Count
    error: Told


class Returned(Message, frozen=True):
    """A callback has returned."""

    call: Count
    value: msgspec.Raw


class Raised(Message, frozen=True):
    """A callback has raised; whether another attempt could help, and when, if that is a wish of the error's."""

    call: Count
    error: Told
    retryable: bool
    retry_after: float | Wish | None = None


class Pong(Message, frozen=True):
    """How much CPU time the process has used; `ping` is what it answers, if anything."""

    cpu_s: float
    ping: Count | None = None


Ask = AskDo | AskSleep | AskSleepUntil | AskWait | AskHook | AskReceive
FromProcess = (
    Ask | DisposeHook | AskHost | Abandon | Quiet | Ended | Failed | Returned | Raised | Pong
)


def frame(message: Message) -> bytes:
    """Write a message down."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message; None at the end.

    Raises:
        DecodeError: it is too large to be one.
    """
    try:
        size_bytes = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if size_bytes > MAX_FRAME_BYTES:
            raise msgspec.DecodeError(f"a message of {size_bytes} bytes")
        return await reader.readexactly(size_bytes)
    except (asyncio.IncompleteReadError, OSError):
        return None


def hook_asked(run: int, ask: int, item: HookRequested) -> AskHook:
    """What is said of a hook that a run opens. Its schema is the process's own business."""
    token, name = named_in(item.step.name)
    hook = item.hook
    return AskHook(run, ask, name, token, hook.metadata, hook.min_retention, hook.is_webhook)


def told_of(error: BaseException) -> Told:
    """What is said of an exception."""
    failure = failure_of(error)
    kind = type(error).__name__ if isinstance(error, EmulatorError) else ""
    fields = {field: _said(text) for field, text in (failure.fields or {}).items()}
    return Told(_said(failure.name), _said(failure.message), kind, fields)


def trace_of(error: BaseException) -> str:
    """The lines of the tenant's code that an exception came through, as they go into the log."""
    found = traceback_of(error)
    if found is None or found[2] is None:
        return ""
    return for_log("".join(traceback.format_exception(*found)))


def for_log(trace: str) -> str:
    """The end of a trace, without control characters."""
    return _said(_CONTROL.sub("?", trace)[-MAX_TRACE_CHARS:])


def _said(text: str, most: int = MAX_TEXT_CHARS) -> str:
    """As much of a text as can be said: no halves of surrogate pairs, which UTF-8 lacks."""
    return text[:most].encode(errors="replace").decode()


def wish_of(error: RetryableError) -> float | str:
    """When it wants to be tried again, as a duration."""
    wish: Any = error.retry_after
    if isinstance(wish, datetime):
        return max(0.0, wish.timestamp() * 1000 - SystemClock().now_ms())
    if isinstance(wish, str):
        return _said(wish, MAX_WISH_CHARS)
    wish_ms = parse_duration(wish)
    return wish_ms if math.isfinite(wish_ms) else str(wish_ms)  # JSON has no infinity


def exception_told(told: Told) -> Exception:
    """The exception again, as far as its class is known."""
    found = _kind(told.kind)
    if found is not None:
        error = found(told.message, **_fields(told, found))
        error.name = told.name
        return error
    return exception_of(failure_told(told))


def failure_told(told: Told) -> Failure:
    """What is stored of an exception that a tenant's process tells of: not an error of the engine's own."""
    return Failure(told.name, told.message, _fields(told, _kind(told.name)) or None)


def _kind(name: str) -> type[EmulatorError] | None:
    found = getattr(emulator.errors, name, None)
    return found if isinstance(found, type) and issubclass(found, EmulatorError) else None


def _fields(told: Told, kind: type[EmulatorError] | None) -> dict[str, str]:
    """The fields that its class has."""
    known = () if kind is None else kind.fields
    return {name: text for name, text in told.fields.items() if name in known}
