"""The names of Cloudflare's Python SDK that have little to do here."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrangler_compat.config import load_config
from wrangler_compat.worker import current
from wrangler_compat.worker.entrypoint import ExecutionContext, WorkerEntrypoint
from wrangler_compat.worker.env import Env
from wrangler_compat.worker.loader import load_worker, project_imports
from wrangler_compat.worker.sdk import (
    DurableObject,
    import_from_javascript,
    patch_env,
    python_from_rpc,
    python_to_rpc,
)

IMPORTS = """
import asgi, wsgi, js
from js import AbortController, Array, ArrayBuffer, Blob, Date, FormData, Headers, HTMLRewriter, JSON, Math, Object
from js import Promise, ReadableStream, Request, Response, TransformStream, URL, URLSearchParams, Uint8Array
from js import WebSocketPair, caches, console, crypto, fetch, performance, setTimeout
from pyodide.ffi import JsArray, JsBuffer, JsException, JsProxy, create_once_callable, create_proxy, destroy_proxies
from pyodide.ffi import jsnull, run_sync, to_js
from pyodide.http import FetchResponse, pyfetch
from workers import Blob, BlobEnding, BlobValue, Body, Context, DurableObject, FetchKwargs, FetchResponse, File
from workers import FormData, FormDataValue, Headers, JSBody, Request, RequestInitCfProperties, Response
from workers import WorkerEntrypoint, WorkflowEntrypoint, asgi as of_workers, env, fetch, handler
from workers import import_from_javascript, patch_env, python_from_rpc, python_to_rpc, waitUntil, wait_until
from workers import wsgi as wsgi_of_workers

assert of_workers.fetch is asgi.fetch
assert wsgi_of_workers.fetch is wsgi.fetch
assert pyfetch is fetch


class Counter(DurableObject):
    async def increment(self):
        return await self.ctx.storage.get("n")


class Default(WorkerEntrypoint):
    async def fetch(self, request: Request, context: Context):
        return Response("x")
"""


def test_what_workers_import_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "wrangler.jsonc").write_text('{"name": "x", "main": "entry.py"}')
    (tmp_path / "entry.py").write_text(IMPORTS)
    config = load_config(tmp_path)
    with project_imports(config):
        module = load_worker(config).module
    assert issubclass(module.Counter, DurableObject)
    made = module.Counter("ctx", "env")
    assert (made.ctx, made.env) == ("ctx", "env")


def test_values_for_rpc_stay_what_they_are_and_what_cloudflare_refuses_is_refused() -> None:
    value = {"a": [{"b": 1}], "c": {1, 2}, "d": "x", "e": b"x"}
    assert python_to_rpc(value) is value
    assert python_from_rpc(value).a[0].b == 1
    for refused in ((1,), {"a": [bytearray()]}):
        with pytest.raises(TypeError, match="cannot be sent over RPC"):
            python_to_rpc(refused)


def test_the_only_module_of_javascript_is_that_of_workers() -> None:
    workers = import_from_javascript("cloudflare:workers")
    assert workers.env is current.env
    assert workers.WorkerEntrypoint is WorkerEntrypoint
    with pytest.raises(ImportError, match="Failed to import 'cloudflare:sockets'"):
        import_from_javascript("cloudflare:sockets")


def test_env_is_patched_for_a_while() -> None:
    with pytest.raises(RuntimeError, match="while a Worker runs"), patch_env(A=1):
        pass
    with current.running(Env({"A": 1, "B": 2}, {}), ExecutionContext()):
        with patch_env({"A": 3}, C=4):
            assert (current.env.A, current.env.B, current.env.C) == (3, 2, 4)
        assert current.env.A == 1
        assert not hasattr(current.env, "C")
