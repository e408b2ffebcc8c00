"""`asgi` of Cloudflare's Python Workers. Re-exports only."""

from wrangler_compat.worker.asgi import fetch

__all__ = ["fetch"]
