"""`workers.workflows` of Cloudflare's Python Workers. Re-exports only."""

from bindings import (
    FatalError,
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    NonRetryableError,
    RetryableError,
)

__all__ = [
    "FatalError",
    "HookConflictError",
    "HookDisposedError",
    "HookNotFoundError",
    "NonRetryableError",
    "RetryableError",
]
