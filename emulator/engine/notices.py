"""What the engine notices of mistakes that break nothing at once. Each is said once, in words."""

from __future__ import annotations

import logging
import math
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from emulator.core.state import InstanceState
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import NonRetryableError

log = logging.getLogger("workflow_emulator")

_ALIKE: Final = 0.8
"""How alike two types of events are that are taken for one, by `difflib`: one letter of five may differ."""

_SHORT: Final = 6
_SHORT_ALIKE: Final = 0.65
"""As alike are short ones with the same first letter: `paid`, `payed`."""


class Notices:
    """What has been said. `divergences` are the replays that asked for other steps: tests take them for errors."""

    def __init__(self) -> None:
        self.divergences: list[str] = []
        self._said: set[tuple[str, ...]] = set()

    def untaken(self, state: InstanceState, event_type: str) -> None:
        """An event has come. Say so if nobody has taken it or waits for its type, while a similar one is waited for."""
        newest = next(reversed(state.mailbox.values()), None)
        if newest is None or newest.event_type != event_type:
            return
        if not state.waits or event_type in state.waits:
            return
        meant = _similar(event_type, frozenset(state.waits))
        workflow = state.creation.workflow
        if meant is not None and self._is_new(workflow, event_type, meant):
            log.warning(
                'workflow %s, instance %s: nobody waits for an event of type "%s"; it stays until somebody does. '
                'A wait for "%s" is open: is that what was meant?',
                *(workflow, state.creation.id, event_type, meant),
            )

    def diverged(self, state: InstanceState, missing: StepKey, asked: StepKey | None) -> None:
        """A replay does without a step that the journal has finished, and has asked for a new one or has ended."""
        made, label = state.creation, "" if asked is None else asked.label
        if not self._is_new(made.workflow, missing.name, label):
            return
        instead = f'has asked for the new step "{label}"' if asked else "has ended without it"
        text = (
            f"workflow {made.workflow}, instance {made.id}: the journal has the finished step "
            f'"{missing.label}", and a replay {instead}. The code has changed, or depends on something that is not '
            "in the journal, such as time or chance."
        )
        self.divergences.append(text)
        log.warning("%s", text)

    def raised(self, error: BaseException, retryable: bool) -> None:
        """A step has failed. Say so if the class of the error looks as if it stopped the retries, and does not."""
        kind = type(error)
        is_meant = retryable and isinstance(error, NonRetryableError)
        if is_meant and self._is_new(kind.__module__, kind.__qualname__):
            log.warning(
                "%s is a subclass of NonRetryableError, and does not stop the retries: as on Cloudflare, the name of the class "
                "decides.",
                kind.__name__,
            )

    def _is_new(self, *words: str) -> bool:
        is_new = words not in self._said
        self._said.add(words)
        return is_new


class ReplayCheck:
    """Looks whether one replay asks for the steps that it owes; if not, that is told once."""

    def __init__(self, state: InstanceState, notices: Notices) -> None:
        self._state = state
        self._notices = notices
        self._owed: set[StepKey] = set()
        self._news: StepKey | None = None

    def begin(self) -> None:
        """The code begins: it owes the steps that there are."""
        self._owed = _owed_steps(self._state)

    def asked(self, step: StepKey) -> None:
        """The code asks for a step."""
        if self._owed:
            self._owed.discard(step)
            if self._news is None and step not in self._state.steps:
                self._news = step

    def at_rest(self) -> None:
        """The code rests. If it has gone on to something new by then, it has passed over what it still owes."""
        if self._news is not None:
            self.over()

    def over(self) -> None:
        """The code has ended."""
        if self._owed:
            missing = next(step for step in self._state.steps if step in self._owed)
            self._owed.clear()
            self._notices.diverged(self._state, missing, self._news)


def _owed_steps(state: InstanceState) -> set[StepKey]:
    """The steps that a replay has to ask for: the finished ones, but for those that a callback may have asked for.

    A step that is asked for by the callback of another one lies between that one's start and its end, and the callback is
    not called again. So do steps that went on at the same time; they are left out, too.
    """
    owed: set[StepKey] = set()
    until_seq = 0.0
    for step in state.steps.values():
        if step.finished_seq and step.start_seq > until_seq and step.key.kind is not StepKind.HOOK:
            owed.add(step.key)
        if step.key.kind is StepKind.DO:
            until_seq = max(until_seq, step.finished_seq or math.inf)
    return owed


@lru_cache(maxsize=1024)
def _similar(event_type: str, waited: frozenset[str]) -> str | None:
    given = event_type.casefold()
    by_letters = {each.casefold(): each for each in waited}
    found = get_close_matches(given, by_letters, n=1, cutoff=_ALIKE)
    if not found and len(given) <= _SHORT:
        short = [each for each in by_letters if len(each) <= _SHORT and each[0] == given[0]]
        found = get_close_matches(given, short, n=1, cutoff=_SHORT_ALIKE)
    return by_letters[found[0]] if found else None
