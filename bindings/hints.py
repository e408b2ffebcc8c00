"""Hints in the log: what a duration means that was probably meant otherwise."""

from __future__ import annotations

import logging
import re
from typing import Final

from emulator.domain.config import StepConfig
from emulator.domain.duration import UNITS, looks_like_seconds, unknown_unit

log = logging.getLogger("workflow_emulator")

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class Hints:
    """Says each thing once, whatever numbers are in it: a loop has many.

    `call` is the place in the code, as it is written there.
    """

    def __init__(self) -> None:
        self._said: set[str] = set()

    def duration(self, call: str, duration: object) -> None:
        """Look at the duration of a sleep, a wait or a retention; an instant is none."""
        if looks_like_seconds(duration):
            meant = f"{duration} second" if duration == 1 else f"{duration} seconds"
            self._say(call, f'a bare number is milliseconds. Write "{meant}" if seconds are meant.')
        self._unit(call, duration)

    def config(self, call: str, config: StepConfig) -> None:
        """Look at the durations of a step's config."""
        for name, duration in (("timeout", config.timeout), ("delay", config.retries.delay)):
            self.duration(f"{call}, {name}={duration!r}", duration)

    def _unit(self, call: str, duration: object) -> None:
        if (unit := unknown_unit(duration)) is not None:
            self._say(
                call, f'there is no unit "{unit}", so that is milliseconds. The units are {UNITS}.'
            )

    def _say(self, call: str, hint: str) -> None:
        place = _NUMBER.sub("0", call)
        if place not in self._said:
            self._said.add(place)
            log.warning("%s: %s", call, hint)
