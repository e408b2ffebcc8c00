"""What may name a workflow, an instance, a step and a type of event.

Every rule and text is Cloudflare's; lengths are in UTF-16 units, as JavaScript counts them.
"""

from __future__ import annotations

import re
from typing import Final

from emulator.domain.limits import (
    MAX_EVENT_TYPE_CHARS,
    MAX_INSTANCE_ID_CHARS,
    MAX_LOOKUP_ID_CHARS,
    MAX_REASON_UNITS,
    MAX_STEP_NAME_CHARS,
    MAX_STREAM_NAME_CHARS,
    MAX_WORKFLOW_NAME_CHARS,
)
from emulator.errors import (
    InvalidEventType,
    InvalidInput,
    InvalidInstanceId,
    InvalidStepName,
    InvalidStream,
    InvalidWorkflowName,
)

RESERVED: Final = "\x1f"
"""What the engine's own names begin with. No user can: names of steps and streams have no control characters."""

DEFAULT_STREAM: Final = "default"
"""The name of the stream that is meant where none is named."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]*")
_PLAIN_STEP_NAME: Final = re.compile(f"[ -~]{{0,{MAX_STEP_NAME_CHARS}}}")
_LOOKUP_ID: Final = re.compile(r"[a-zA-Z0-9, */#:_-]+")
_VERSION: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.+-]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\ud800-\udfff]")
_RESERVED_ID: Final = re.compile(r"cf_[0-9a-f]{64}|batch|terminate|terminateAll")


def plain_text(text: str) -> str:
    """A text as what it is, whatever its class: to Python a member of an `Enum` of texts prints as something else."""
    return text if type(text) is str else str.__str__(text)


def check_workflow_name(name: object) -> str:
    """Accept the name of a workflow (Cloudflare: wrangler configuration, workflows).

    Raises:
        InvalidWorkflowName: it is not 1 to 64 letters, digits, "_" or "-" that do not start with "-".
    """
    if (checked := _name(name, MAX_WORKFLOW_NAME_CHARS)) is None:
        raise InvalidWorkflowName
    return checked


def check_tenant_name(name: object, what: str = "tenant") -> str:
    """Accept the name of a tenant, or of a dynamic workflow of one (then `what` says so); the rule is that of workflows.

    Raises:
        InvalidInput: it is not 1 to 64 letters, digits, "_" or "-" that do not start with "-".
    """
    if (checked := _name(name, MAX_WORKFLOW_NAME_CHARS)) is None:
        raise InvalidInput(
            f"The name of a {what} has 1 to {MAX_WORKFLOW_NAME_CHARS} letters, digits, underscores or hyphens and does "
            f"not start with a hyphen; it cannot be {name!r}."
        )
    return checked


def check_version(version: object) -> str:
    """Accept the label of a version, such as `v3` or `1.4.0`.

    Raises:
        InvalidInput: it is not 1 to 64 letters, digits, "_", "-", "." or "+" that start with a letter, a digit or "_".
    """
    if (
        not isinstance(version, str)
        or len(version) > MAX_WORKFLOW_NAME_CHARS
        or not _VERSION.fullmatch(version)
    ):
        raise InvalidInput(
            f"A version has 1 to {MAX_WORKFLOW_NAME_CHARS} letters, digits, underscores, hyphens, dots or plus signs "
            f"and starts with a letter, a digit or an underscore; it cannot be {version!r}."
        )
    return plain_text(version)


def check_new_instance_id(instance_id: object) -> str:
    """Accept an id for an instance to be created (Cloudflare: Workers API, create).

    Raises:
        InvalidInstanceId: it is not 1 to 100 letters, digits, "_" or "-" that do not start with "-".
    """
    if (checked := _name(instance_id, MAX_INSTANCE_ID_CHARS)) is None:
        raise InvalidInstanceId
    return checked


def check_instance_id(instance_id: object) -> str:
    """Accept an id to look up, which may be that of a scheduled instance, `*/30 * * * *-1786001400000`, or a tenant's, `acme:1`.

    Raises:
        InvalidInstanceId: no instance can have this id.
    """
    if (
        not isinstance(instance_id, str)
        or len(instance_id) > MAX_LOOKUP_ID_CHARS
        or not _LOOKUP_ID.fullmatch(instance_id)
    ):
        raise InvalidInstanceId
    return plain_text(instance_id)


def is_reserved_id(instance_id: str) -> bool:
    """Whether Cloudflare keeps this id for itself: `createBatch` in its object form refuses it, `create` does not."""
    return _RESERVED_ID.fullmatch(instance_id) is not None


def check_step_name(name: object) -> str:
    """Accept the name of a step; the empty name is one (Cloudflare: limits, step name).

    Raises:
        InvalidStepName: it is not a text, is over 256 UTF-16 units, or holds a character below U+0020 or half a
            surrogate pair.
    """
    if type(name) is str and _PLAIN_STEP_NAME.fullmatch(name):
        return name  # nearly all of them, and the check is made for every step of every replay
    if (
        not isinstance(name, str)
        or _utf16_units(name) > MAX_STEP_NAME_CHARS
        or _NOT_IN_NAMES.search(name)
    ):
        raise InvalidStepName(
            f'Step name "{name}" exceeds max length ({MAX_STEP_NAME_CHARS} chars) or invalid characters found'
        )
    return plain_text(name)


def check_stream_name(name: object) -> str:
    """Accept the name of a stream (its namespace); None is the default stream, which is also called `default`.

    Raises:
        InvalidStream: it is not a text, is empty, over 256 UTF-16 units, or holds a character below U+0020.
    """
    if name is None:
        return DEFAULT_STREAM
    if (
        not isinstance(name, str)
        or not 1 <= _utf16_units(name) <= MAX_STREAM_NAME_CHARS
        or _NOT_IN_NAMES.search(name)
    ):
        raise InvalidStream(
            f"The namespace of a stream is a text of 1 to {MAX_STREAM_NAME_CHARS} characters without control "
            f"characters, not {name!r}"
        )
    return plain_text(name)


def check_event_type(event_type: object) -> str:
    """Accept a type of event (Cloudflare: events and parameters; the local engine does not check it).

    Raises:
        InvalidEventType: it is not 1 to 100 letters, digits, "_" or "-" that do not start with "-".
    """
    if (checked := _name(event_type, MAX_EVENT_TYPE_CHARS)) is None:
        raise InvalidEventType
    return checked


def check_reason(reason: object) -> str:
    """Accept the reason of a termination.

    Raises:
        InvalidInput: it is no text, or has over 512 UTF-16 units.
    """
    if not isinstance(reason, str) or not is_unicode(reason):
        raise InvalidInput(f"A reason is a text, not {reason!r}.")
    units = _utf16_units(reason)
    if units > MAX_REASON_UNITS:
        raise InvalidInput(
            f"A reason is a text of at most {MAX_REASON_UNITS} characters; this one has {units}."
        )
    return plain_text(reason)


def is_unicode(text: str) -> bool:
    """Whether a text can be stored: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_control(text: str) -> bool:
    """Whether there is a character below U+0020 in it."""
    return _CONTROL.search(text) is not None


def _name(given: object, max_chars: int) -> str | None:
    """The text if it is a name."""
    if isinstance(given, str) and len(given) <= max_chars and _NAME.fullmatch(given):
        return plain_text(given)
    return None


def _utf16_units(text: str) -> int:
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
