"""Pyodide's `js`, as far as Python Workers commonly use it. Re-exports only."""

from wrangler_compat.worker.javascript import JSON, Object, console

__all__ = ["JSON", "Object", "console"]
