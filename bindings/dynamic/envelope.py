"""The envelope around the params of a tenant's instance, and the scope of its id.

What the dispatcher wants to know again at every run travels with the params, as Cloudflare's library has it; the tenant
never sees it. It says whose instance this is; it is no proof of anything, and no place for a secret.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from emulator.domain import values
from emulator.domain.instance import SCOPE_MARK
from emulator.domain.limits import MAX_VALUE_BYTES
from emulator.domain.values import JsDict
from emulator.errors import MissingDispatcherMetadataError, PayloadTooLarge

METADATA: Final = "__dispatcherMetadata"
"""The key of the metadata (Cloudflare: dynamic-workflows)."""


def sealed(metadata: msgspec.Raw, params: msgspec.Raw) -> msgspec.Raw:
    """Put params into an envelope; all three are stored values.

    Raises:
        PayloadTooLarge: both together are over 1 MiB.
    """
    envelope = msgspec.Raw(msgspec.json.encode({METADATA: metadata, "params": params}))
    size_bytes = values.size_bytes(envelope)
    if size_bytes > MAX_VALUE_BYTES:
        raise PayloadTooLarge(
            f"params and the tenant's metadata are {size_bytes} bytes together, {MAX_VALUE_BYTES} are allowed."
        )
    return envelope


def opened(payload: Any) -> tuple[JsDict, Any]:
    """The metadata and the params of an instance.

    Raises:
        MissingDispatcherMetadataError: there is no envelope.
    """
    if not isinstance(payload, JsDict) or set(payload) != {METADATA, "params"}:
        raise MissingDispatcherMetadataError
    return payload[METADATA], payload["params"]


def scoped_id(tenant: str, instance_id: str) -> str:
    """The id by which the engine knows a tenant's instance."""
    return f"{tenant}{SCOPE_MARK}{instance_id}"
