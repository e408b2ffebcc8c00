"""The `workers` module of Cloudflare's Python Workers. Re-exports only: each name is defined elsewhere, once."""

from bindings import WorkflowEntrypoint
from wrangler_compat.worker.blob import File
from wrangler_compat.worker.current import env, wait_until
from wrangler_compat.worker.current import wait_until as waitUntil
from wrangler_compat.worker.entrypoint import WorkerEntrypoint, handler
from wrangler_compat.worker.fetching import fetch
from wrangler_compat.worker.form import FormData
from wrangler_compat.worker.headers import Headers
from wrangler_compat.worker.http import Request, Response

__all__ = [
    "File",
    "FormData",
    "Headers",
    "Request",
    "Response",
    "WorkerEntrypoint",
    "WorkflowEntrypoint",
    "env",
    "fetch",
    "handler",
    "waitUntil",
    "wait_until",
]
