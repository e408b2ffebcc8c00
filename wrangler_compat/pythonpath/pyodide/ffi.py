"""`pyodide.ffi`, as far as Python Workers commonly use it. Re-exports only."""

from wrangler_compat.worker.body import ArrayBuffer as JsBuffer
from wrangler_compat.worker.javascript import (
    JsArray,
    JsException,
    JsProxy,
    create_once_callable,
    create_proxy,
    destroy_proxies,
    run_sync,
    to_js,
)

jsnull = None

__all__ = [
    "JsArray",
    "JsBuffer",
    "JsException",
    "JsProxy",
    "create_once_callable",
    "create_proxy",
    "destroy_proxies",
    "jsnull",
    "run_sync",
    "to_js",
]
