"""The `workers` module of Cloudflare's Python Workers. Re-exports only: each name is defined elsewhere, once."""

from bindings import WorkflowEntrypoint
from wrangler_compat.worker.blob import Blob, BlobEnding, BlobValue, File
from wrangler_compat.worker.body import ReadableStream as JSBody
from wrangler_compat.worker.current import env, wait_until
from wrangler_compat.worker.current import wait_until as waitUntil
from wrangler_compat.worker.entrypoint import WorkerEntrypoint, handler
from wrangler_compat.worker.fetching import fetch
from wrangler_compat.worker.form import FormData, FormDataValue
from wrangler_compat.worker.headers import Headers
from wrangler_compat.worker.http import Body, Request, Response
from wrangler_compat.worker.http import Response as FetchResponse
from wrangler_compat.worker.sdk import (
    Context,
    DurableObject,
    FetchKwargs,
    RequestInitCfProperties,
    import_from_javascript,
    patch_env,
    python_from_rpc,
    python_to_rpc,
)

__all__ = [
    "Blob",
    "BlobEnding",
    "BlobValue",
    "Body",
    "Context",
    "DurableObject",
    "FetchKwargs",
    "FetchResponse",
    "File",
    "FormData",
    "FormDataValue",
    "Headers",
    "JSBody",
    "Request",
    "RequestInitCfProperties",
    "Response",
    "WorkerEntrypoint",
    "WorkflowEntrypoint",
    "env",
    "fetch",
    "handler",
    "import_from_javascript",
    "patch_env",
    "python_from_rpc",
    "python_to_rpc",
    "waitUntil",
    "wait_until",
]
