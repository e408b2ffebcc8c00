"""What an instance is born with, and what names it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class InstanceKey(NamedTuple):
    """The name of an instance: ids are unique inside a workflow."""

    workflow: str
    id: str


class TriggerSource(StrEnum):
    """Who started an instance, in the spelling of Cloudflare's REST API."""

    UNKNOWN = "unknown"
    API = "api"
    BINDING = "binding"
    EVENT = "event"
    CRON = "cron"


class Schedule(msgspec.Struct, frozen=True):
    """The cron tick that started an instance."""

    cron: str
    scheduled_ms: int


class Creation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The facts of an instance that no restart changes.

    `params` is a stored value (see `domain.values`). A retention of None means the workflow's default.
    """

    workflow: str
    id: str
    params: msgspec.Raw
    created_ms: int
    source: TriggerSource = TriggerSource.BINDING
    schedule: Schedule | None = None
    success_retention_ms: int | None = None
    error_retention_ms: int | None = None

    @property
    def key(self) -> InstanceKey:
        """The instance's name."""
        return InstanceKey(self.workflow, self.id)
