"""The statuses of an instance, in Cloudflare's spelling."""

from __future__ import annotations

from enum import StrEnum


class InstanceStatus(StrEnum):
    """Cloudflare's statuses (REST API, workflows/instances)."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    WAITING_FOR_PAUSE = "waitingForPause"
    PAUSED = "paused"
    ROLLING_BACK = "rollingBack"
    COMPLETE = "complete"
    ERRORED = "errored"
    TERMINATED = "terminated"


TERMINAL = frozenset({InstanceStatus.COMPLETE, InstanceStatus.ERRORED, InstanceStatus.TERMINATED})
