"""What a test has arranged for an instance: steps that are not really run, rests that are skipped, events that are there.

Modifiers stand beside the state, like `life`: no journal holds them, and a restart keeps them. An instance without any has
None, and the rules look no further. They say what happens instead; that it happens goes the ordinary way, so the journal of
a modified instance reads like any other: a mocked result is an attempt that succeeded, a skipped sleep one that ended early.

Each method gives the modifiers with one thing more (Cloudflare: Workers, test APIs, workflows; specification 16.2). One
quirk is not copied: there a mocked result that is falsy mocks nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from emulator.core.inputs import EventSent, Input
from emulator.domain.failure import Failure
from emulator.domain.steps import StepKey
from emulator.errors import InvalidInput

TIMED_OUT = Failure("WorkflowTimeoutError", "Execution timed out after 0ms")
"""The failure of an attempt that is forced to time out (Cloudflare's name and text)."""

Steps = frozenset[StepKey] | None
"""Steps that a modifier is about; None: all of them."""

_NONE: frozenset[StepKey] = frozenset()


class Modifiers(msgspec.Struct, frozen=True):
    """Everything that is arranged for one instance.

    `failures` are what the attempts of a step end with, from the first on; `lasting_failures` what all later ones do.
    """

    skipped_sleeps: Steps = _NONE
    skipped_delays: Steps = _NONE
    results: dict[StepKey, msgspec.Raw] = {}
    failures: dict[StepKey, tuple[Failure, ...]] = {}
    lasting_failures: dict[StepKey, Failure] = {}
    event_timeouts: frozenset[StepKey] = _NONE
    events: tuple[EventSent, ...] = ()

    # what the rules ask

    def skips_sleep(self, step: StepKey) -> bool:
        """Whether the sleep is over as soon as it begins."""
        return self.skipped_sleeps is None or step in self.skipped_sleeps

    def skips_delay(self, step: StepKey) -> bool:
        """Whether a retry of the step is due as soon as an attempt has failed."""
        return self.skipped_delays is None or step in self.skipped_delays

    def verdict(self, step: StepKey, attempt: int) -> msgspec.Raw | Failure | None:
        """What the attempt comes to without its callback being called; None: it is called. A failure wins over a result."""
        failures = self.failures.get(step, ())
        if attempt <= len(failures):
            return failures[attempt - 1]
        return self.lasting_failures.get(step) or self.results.get(step)

    def named_steps(self) -> list[StepKey]:
        """The steps that are named in them, each once."""
        named = [*self.results, *self.failures, *self.lasting_failures, *self.event_timeouts]
        named += [*(self.skipped_sleeps or ()), *(self.skipped_delays or ())]
        return list(dict.fromkeys(named))

    # what a test arranges

    def with_skipped_sleeps(self, steps: Steps) -> Modifiers:
        """Let these sleeps take no time."""
        return self._with(skipped_sleeps=_union(self.skipped_sleeps, steps))

    def with_skipped_delays(self, steps: Steps) -> Modifiers:
        """Let retries of these steps follow at once. What is stored of the delay does not change."""
        return self._with(skipped_delays=_union(self.skipped_delays, steps))

    def with_result(self, step: StepKey, result: msgspec.Raw) -> Modifiers:
        """Let the step have this result.

        Raises:
            InvalidInput: it has one.
        """
        if step in self.results:
            raise InvalidInput(
                f"[WorkflowIntrospector] Trying to mock step '{step.name}' multiple times!"
            )
        return self._with(results={**self.results, step: result})

    def with_error(self, step: StepKey, error: Failure, times: int | None) -> Modifiers:
        """Let the attempts of the step fail: the next `times` that have no failure yet, or all of them.

        Raises:
            InvalidInput: the step's result is mocked.
        """
        return self._with_failure(step, error, times, "mock error on")

    def with_timeout(self, step: StepKey, times: int | None) -> Modifiers:
        """Let the attempts of the step time out at once. They are counted together with the mocked errors.

        Raises:
            InvalidInput: the step's result is mocked.
        """
        return self._with_failure(step, TIMED_OUT, times, "force timeout on")

    def with_event(self, event_type: str, payload: msgspec.Raw | None) -> Modifiers:
        """Let an event be in the mailbox, from the beginning."""
        # Its name keeps it from being put there again, by a restart or a later change, when a wait has taken it.
        event = EventSent(event_type, payload, delivery_id=f"mocked event {len(self.events) + 1}")
        return self._with(events=(*self.events, event))

    def with_event_timeout(self, step: StepKey) -> Modifiers:
        """Let the wait time out as soon as it begins."""
        return self._with(event_timeouts=self.event_timeouts | {step})

    def _with_failure(
        self, step: StepKey, failure: Failure, times: int | None, trying: str
    ) -> Modifiers:
        if step in self.results:
            raise InvalidInput(
                f"[WorkflowIntrospector] Trying to {trying} step '{step.name}' after mocking its result!"
            )
        if times is None:
            return self._with(lasting_failures={**self.lasting_failures, step: failure})
        planned = self.failures.get(step, ()) + (failure,) * times
        return self._with(failures={**self.failures, step: planned})

    def _with(self, **changes: Any) -> Modifiers:
        return msgspec.structs.replace(self, **changes)


class ModifiersChanged(Input, frozen=True):
    """A test arranges something for an instance that exists already; what has started is not touched."""

    modifiers: Modifiers


def _union(steps: Steps, more: Steps) -> Steps:
    return None if steps is None or more is None else steps | more
