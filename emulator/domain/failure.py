"""An exception as data: what is left of one once it has been stored, and what comes back.

Cloudflare's engine hands an error over as a name and a message, so code that relies on any other class than those
rebuilt here fails there too (Cloudflare: Python Workflows; specification 5.11 and 15.7).
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.errors import (
    EmulatorError,
    NonRetryableDelayError,
    NonRetryableError,
    PayloadTooLarge,
    SerializationError,
    StepError,
    StreamError,
    WorkflowContextError,
    WorkflowFatalError,
    WorkflowInternalError,
    WorkflowTimeoutError,
)


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error's class name and message, as Cloudflare's log keeps them."""

    name: str
    message: str


_REBUILT: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        TypeError,
        ValueError,
        NonRetryableError,
        NonRetryableDelayError,
        SerializationError,
        StreamError,
        WorkflowContextError,
        WorkflowFatalError,
        WorkflowInternalError,
        WorkflowTimeoutError,
    )
}

_FINAL: Final = (SerializationError, PayloadTooLarge, StreamError, WorkflowContextError)


def failure_of(error: BaseException) -> Failure:
    """What is stored of an exception."""
    if isinstance(error, NonRetryableError):
        return Failure("NonRetryableError", error.message)
    if isinstance(error, EmulatorError):
        return Failure(error.name, error.message)
    return Failure(type(error).__name__, str(error))


def exception_of(failure: Failure) -> Exception:
    """What user code gets to see of it: `TypeError`, `ValueError`, the engine's own classes, or a `StepError`."""
    kind = _REBUILT.get(failure.name)
    return kind(failure.message) if kind else StepError(failure.message, failure.name)


def is_retryable(error: BaseException) -> bool:
    """Whether another attempt could help.

    A `NonRetryableError`, by class or by the name of a class of the user's, says that it cannot (Cloudflare goes by the
    name alone); a result that cannot be stored will not be storable the next time, and a call that is out of place stays so.
    """
    if isinstance(error, _FINAL):
        return False
    return not any(kind.__name__ == "NonRetryableError" for kind in type(error).__mro__)
