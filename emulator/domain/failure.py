"""An exception as data: what is left of one once it has been stored, and what comes back.

Cloudflare's engine hands an error over as a name and a message, so code that relies on any other class than those
rebuilt here fails there too (Cloudflare: Python Workflows; specification 5.11 and 15.7).
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.errors import (
    CannotTerminate,
    EmulatorError,
    EntityConflictError,
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    HookResumeConflictError,
    HookRetentionTooLong,
    InstanceAlreadyExists,
    InstanceFinished,
    InstanceNotFound,
    InvalidAttributes,
    InvalidHook,
    NonRetryableDelayError,
    NonRetryableError,
    RetryableError,
    SerializationError,
    StepError,
    StreamError,
    TypeValidationError,
    WorkflowContextError,
    WorkflowFatalError,
    WorkflowInternalError,
    WorkflowRunCancelledError,
    WorkflowRunFailedError,
    WorkflowRunNotFoundError,
    WorkflowTimeoutError,
)


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An error's class name and message, as Cloudflare's log keeps them, and the fields of one of ours.

    `kind` is the class of one of ours whose name there is another.
    """

    name: str
    message: str
    fields: dict[str, str] | None = None
    kind: str | None = None

    @property
    def text(self) -> str:
        """Name and message, as Python shows them."""
        return f"{self.name}: {self.message}" if self.message else self.name


_REBUILT: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        TypeError,
        ValueError,
        HookConflictError,
        HookDisposedError,
        HookNotFoundError,
        NonRetryableError,
        NonRetryableDelayError,
        RetryableError,
        SerializationError,
        TypeValidationError,
        StreamError,
        WorkflowContextError,
        WorkflowFatalError,
        WorkflowInternalError,
        WorkflowRunCancelledError,
        WorkflowRunFailedError,
        WorkflowRunNotFoundError,
        WorkflowTimeoutError,
    )
}


_ENDERS: Final = ("bdb", "_pytest.outcomes")
"""The modules of what ends a session: a debugger that was quit, a test that fails, is skipped or is stopped."""

_KINDS: Final[dict[str, type[EmulatorError]]] = {
    kind.__name__: kind
    for kind in (
        CannotTerminate,
        EntityConflictError,
        HookResumeConflictError,
        HookRetentionTooLong,
        InstanceAlreadyExists,
        InstanceFinished,
        InstanceNotFound,
        InvalidAttributes,
        InvalidHook,
    )
}
"""What is refused to a step that acts on other instances, and has Cloudflare's name for many things."""


def failure_of(error: BaseException) -> Failure:
    """What is stored of an exception."""
    if isinstance(error, NonRetryableError):
        return Failure(type(error).__name__, _storable(_message_of(error)))
    if isinstance(error, EmulatorError):
        fields = {field: _text_in(error, field) for field in _fields_of(type(error))}
        kind = type(error).__name__
        return Failure(
            _text_in(error, "name"),
            _storable(_message_of(error)),
            fields or None,
            kind if kind in _KINDS else None,
        )
    return Failure(type(error).__name__, _storable(text_of(error)))


def _message_of(error: EmulatorError) -> str:
    """Its message. A subclass of a user's may not have called our `__init__`, or have put something else there."""
    message = _attribute(error, "message")
    return message if isinstance(message, str) else text_of(error)


def _text_in(error: EmulatorError, attribute: str) -> str:
    """One of its texts; empty if user code has put something else there, or nothing."""
    value = _attribute(error, attribute)
    return _storable(value) if isinstance(value, str) else ""


def _attribute(error: EmulatorError, name: str, default: object = None) -> object:
    """What it has there. It may be a property of a user's, which raises anything."""
    try:
        return getattr(error, name, default)
    except Exception:
        return default


def _fields_of(kind: type[Exception]) -> tuple[str, ...]:
    """The fields of a class of ours. What a user's class below it calls `fields` is the user's."""
    ours = (each for each in kind.__mro__ if each.__module__ == EmulatorError.__module__)
    return next((each.fields for each in ours if issubclass(each, EmulatorError)), ())


def text_of(error: BaseException) -> str:
    """What an exception says; one that cannot say it says that, in the words of Python's tracebacks."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def _storable(text: str) -> str:
    """A text without halves of surrogate pairs, which no UTF-8 has: JavaScript replaces them too."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def exception_of(failure: Failure) -> Exception:
    """What user code gets to see of it: `TypeError`, `ValueError`, the engine's own classes, or a `StepError`."""
    kind = _KINDS.get(failure.kind or "") or _REBUILT.get(failure.name)
    if kind is None:
        return StepError(failure.message, failure.name)
    known = _fields_of(kind)
    return kind(
        failure.message,
        **{name: text for name, text in (failure.fields or {}).items() if name in known},
    )


def can_be_rebuilt_as(kind: type[Exception]) -> bool:
    """Whether `exception_of` gives objects of this class, or of one below it."""
    classes = {StepError, *_REBUILT.values(), *_KINDS.values()}
    return any(issubclass(each, kind) for each in classes)


def is_retryable(error: BaseException) -> bool:
    """Whether another attempt could help.

    A class called `NonRetryableError` says that it cannot; a subclass of another name does not (Cloudflare goes by the
    name alone; specification 15.7). A result of a type that cannot be stored will not be storable the next time, and a
    call that is out of place stays so. One that is too large may be smaller then (specification 5.15).
    """
    if isinstance(error, EmulatorError) and not _attribute(error, "is_retryable", default=True):
        return False
    if any(kind.__module__ in _ENDERS for kind in type(error).__mro__):
        return False
    return type(error).__name__ != "NonRetryableError"
