"""`wsgi` of Cloudflare's Python Workers. Re-exports only."""

from wrangler_compat.worker.wsgi import fetch

__all__ = ["fetch"]
