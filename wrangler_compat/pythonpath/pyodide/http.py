"""`pyodide.http`, as far as Python Workers commonly use it. Re-exports only."""

from wrangler_compat.worker.fetching import fetch as pyfetch
from wrangler_compat.worker.http import Response as FetchResponse

__all__ = ["FetchResponse", "pyfetch"]
