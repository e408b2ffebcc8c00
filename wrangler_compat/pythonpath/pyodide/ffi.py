"""`pyodide.ffi`, as far as Python Workers commonly use it. Re-exports only."""

from wrangler_compat.worker.javascript import create_proxy, to_js

__all__ = ["create_proxy", "to_js"]
