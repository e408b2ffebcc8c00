"""Every limit, once: its value, its unit (last in the name), and who says so.

"Limits" means Cloudflare's page of limits of Workflows, for the Paid plan; "Workers API" the page of that name. Where
Cloudflare names no limit, the line says that it is ours.
"""

from __future__ import annotations

from typing import Final

DAY_MS: Final = 24 * 60 * 60 * 1000

# Names. Lengths are in characters, which JavaScript counts as UTF-16 units.
MAX_WORKFLOW_NAME_CHARS: Final = 64
"""Limits."""
MAX_INSTANCE_ID_CHARS: Final = 100
"""Limits. Holds for ids that are given to `create`."""
MAX_LOOKUP_ID_CHARS: Final = 271
"""What `get` and `delete` take: the id of a scheduled instance is its cron expression and an instant."""
MAX_STEP_NAME_CHARS: Final = 256
"""Limits."""
MAX_EVENT_TYPE_CHARS: Final = 100
"""Limits."""
MAX_CRON_CHARS: Final = 256
"""Cron triggers: one expression."""

# Values.
MAX_VALUE_BYTES: Final = 2**20
"""Limits: 1 MiB for a step's result, an event's payload, an instance's params."""
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""JavaScript, Number.MAX_SAFE_INTEGER: larger integers are not exact there."""
MAX_VALUE_DEPTH_LEVELS: Final = 200
"""Ours: brackets inside brackets in the stored text. Deeper values would exhaust Python's stack."""

# Streams.
MAX_STREAM_NAME_CHARS: Final = 256
"""Ours."""
MAX_PENDING_CHUNKS: Final = 1_000
"""Workflow SDK, streams: how many writes are under way at once, in the whole engine. More of them wait."""
MAX_PENDING_CHUNK_BYTES: Final = 8 * 2**20
"""Workflow SDK, streams: how large they are together."""
MAX_OUTPUT_CHUNK_BYTES: Final = 16 * 2**20
"""Workers API, stream results: one chunk of what a step returns as a stream."""
OUTPUT_PIECE_BYTES: Final = 256 * 2**10
"""Workers API, stream results: larger chunks are cut into pieces of this size."""

# Dynamic workflows.
MAX_CODE_BYTES: Final = 2**20
"""Ours: all modules of a tenant's code together. What is larger takes long to compile, and everybody waits."""

# Calls.
MAX_BATCH_INSTANCES: Final = 100
"""Workers API, createBatch and deleteBatch."""

# Time.
MAX_SLEEP_MS: Final = 365 * DAY_MS
"""Limits."""
MAX_WAIT_TIMEOUT_MS: Final = 365 * DAY_MS
"""Events and parameters: 1 second to 365 days. Only the upper end is enforced: tests want short timeouts."""
DEFAULT_WAIT_TIMEOUT_MS: Final = DAY_MS
"""Events and parameters."""
MAX_RETENTION_MS: Final = 30 * DAY_MS
"""Limits."""
DEFAULT_RETENTION_MS: Final = 7 * DAY_MS
"""Limits."""

# Hooks.
MAX_HOOK_TOKEN_BYTES: Final = 512
"""Ours, in UTF-8."""
MAX_HOOK_RETENTION_MS: Final = 30 * DAY_MS
"""Workflow SDK, local world: how long a token may be kept beyond the end of its run, counted from its registration."""

# Attributes (Workflow SDK: attributes).
MAX_ATTRIBUTES: Final = 64
MAX_ATTRIBUTE_NAME_CHARS: Final = 256
MAX_ATTRIBUTE_BYTES: Final = 256
"""Of a value, in UTF-8."""

MAX_REASON_UNITS: Final = 512
"""Workflow SDK, cancel: UTF-16 units of the reason."""

# Steps of one instance.
DEFAULT_INSTANCE_STEPS: Final = 10_000
"""Limits. `limits.steps` in the wrangler file changes it."""
MAX_INSTANCE_STEPS: Final = 25_000
"""Limits: the most that `limits.steps` may say on Cloudflare. Here more is allowed, with a warning."""
MAX_STEP_RETRIES: Final = 10_000
"""Limits: the most that `retries.limit` may say."""
MAX_RETRY_DELAY_MS: Final = 365 * DAY_MS
"""Ours: backoff has no maximum on Cloudflare, but doubling soon passes the age of the universe."""

DELAY_FUNCTION_TIMEOUT_MS: Final = 5_000
"""How long a delay function may take (Cloudflare: dynamic retry delays)."""
