"""What identifies a step: its kind, its name, and the how-many-th use of that name in one run."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from emulator.domain.names import RESERVED


class StepKind(StrEnum):
    """The kinds of step, in the spelling of Cloudflare's `restart({from: {type}})`; hooks are ours."""

    DO = "do"
    SLEEP = "sleep"
    WAIT = "waitForEvent"
    HOOK = "hook"


CLOUDFLARE_KINDS = (StepKind.DO, StepKind.SLEEP, StepKind.WAIT)
"""The kinds that people name: a restart begins at one of these."""


class StepKey(NamedTuple):
    """The identity of a step. No argument and no duration is part of it.

    `count` starts at one and counts the uses of `name` by steps of this kind in one incarnation.
    """

    kind: StepKind
    name: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride] - Cloudflare's word for it

    @property
    def label(self) -> str:
        """The name as Cloudflare's log and API show it, such as `charge-1`."""
        return f"{self.name}-{self.count}"

    @property
    def is_internal(self) -> bool:
        """Whether it is a step of the engine's own, which nobody is shown."""
        return self.name.startswith(RESERVED)

    @classmethod
    def from_label(cls, kind: StepKind, label: str) -> StepKey:
        """Read a label back. Only the last `-N` is the count: `pay-2-1` is the first `pay-2`."""
        name, _, count = label.rpartition("-")
        return cls(kind, name, int(count))
