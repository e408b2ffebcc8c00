"""What an instance is born with, and what names it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from emulator.domain.logic import CURRENT_LOGIC


class InstanceKey(NamedTuple):
    """The name of an instance: ids are unique inside a workflow."""

    workflow: str
    id: str


SCOPE_MARK = ":"
"""What stands between a tenant and the id that it knows. No other id has it."""


def scope_of(instance_id: str) -> str:
    """The tenant that an instance belongs to; empty for instances of nobody in particular."""
    return instance_id.rpartition(SCOPE_MARK)[0]


def id_in_scope(instance_id: str) -> str:
    """The id of an instance as its own tenant knows it."""
    return instance_id.rpartition(SCOPE_MARK)[2]


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

    `params` is a stored value (see `domain.values`). A retention of None means the workflow's default. `parent` names the
    step of another instance that created it, as "workflow/id/step". `code` is the hash of the code that a dynamic workflow
    runs, `logic` the number of the engine's rules (see `domain.logic`).
    """

    workflow: str
    id: str
    params: msgspec.Raw
    created_ms: int
    source: TriggerSource = TriggerSource.BINDING
    schedule: Schedule | None = None
    success_retention_ms: int | None = None
    error_retention_ms: int | None = None
    parent: str | None = None
    code: str | None = None
    logic: int = CURRENT_LOGIC

    @property
    def key(self) -> InstanceKey:
        """The instance's name."""
        return InstanceKey(self.workflow, self.id)
