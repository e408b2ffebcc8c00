"""An exception as data: what is left of one once it has been stored, and what comes back.

Cloudflare's engine hands an error over as a name and a message, so code that relies on any other class than those
rebuilt here fails there too (Cloudflare: Python Workflows; specification 5.11 and 15.7).
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.errors import (
    EmulatorError,
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
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
    """An error's class name and message, as Cloudflare's log keeps them, and the fields of one of ours."""

    name: str
    message: str
    fields: dict[str, str] | None = None


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


def failure_of(error: BaseException) -> Failure:
    """What is stored of an exception."""
    if isinstance(error, NonRetryableError):
        return Failure("NonRetryableError", error.message)
    if isinstance(error, EmulatorError):
        fields = {field: getattr(error, field) for field in error.fields}
        return Failure(error.name, error.message, fields or None)
    return Failure(type(error).__name__, str(error))


def exception_of(failure: Failure) -> Exception:
    """What user code gets to see of it: `TypeError`, `ValueError`, the engine's own classes, or a `StepError`."""
    kind = _REBUILT.get(failure.name)
    if kind is None:
        return StepError(failure.message, failure.name)
    return kind(failure.message, **failure.fields or {})


def is_retryable(error: BaseException) -> bool:
    """Whether another attempt could help.

    A `NonRetryableError`, by class or by the name of a class of the user's, says that it cannot (Cloudflare goes by the
    name alone); a result that cannot be stored will not be storable the next time, and a call that is out of place stays so.
    """
    if isinstance(error, EmulatorError) and not error.is_retryable:
        return False
    return not any(kind.__name__ == "NonRetryableError" for kind in type(error).__mro__)
