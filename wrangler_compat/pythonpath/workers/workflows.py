"""`workers.workflows` of Cloudflare's Python Workers. Re-exports only."""

from bindings import NonRetryableError

__all__ = ["NonRetryableError"]
