"""A row of a listing as JSON, in the two shapes that Cloudflare has for it (see `projection.rendering`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from emulator.domain.instance import Creation
from emulator.domain.status import InstanceStatus
from emulator.projection.rendering import Json, iso, iso_or_none


class Listed(Protocol):
    """What is listed: the journal's row of an instance."""

    @property
    def creation(self) -> Creation:
        """What it was born with."""
        ...

    @property
    def status(self) -> InstanceStatus:
        """How it is."""
        ...

    @property
    def modified_ms(self) -> int:
        """When its status last changed."""
        ...

    @property
    def started_ms(self) -> int | None:
        """When it was admitted."""
        ...

    @property
    def ended_ms(self) -> int | None:
        """When it ended."""
        ...

    @property
    def attributes(self) -> Mapping[str, str]:
        """By what people find it."""
        ...


def local_row(row: Listed) -> Json:
    """What `wrangler dev` lists of an instance."""
    return {
        "id": row.creation.id,
        "status": row.status,
        "created_on": iso(row.creation.created_ms),
    }


def remote_row(row: Listed, workflow_id: str, version_id: str) -> Json:
    """What Cloudflare's API lists of an instance; beside that its attributes, if it has any."""
    listed: Json = {
        "id": row.creation.id,
        "status": row.status,
        "version_id": version_id,
        "workflow_id": workflow_id,
        "created_on": iso(row.creation.created_ms),
        "modified_on": iso(row.modified_ms),
        "started_on": iso_or_none(row.started_ms),
        "ended_on": iso_or_none(row.ended_ms),
        "trigger_source": row.creation.source,
    }
    return listed | {"attributes": dict(row.attributes)} if row.attributes else listed
