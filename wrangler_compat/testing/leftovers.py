"""What a test has arranged and nothing has used: often a wrong name, or arranged too late."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from emulator.core.effects import ReceivedEvent
from emulator.core.modifiers import Modifiers
from emulator.core.state import InstanceState, StepState
from emulator.domain.steps import StepKey, StepKind
from wrangler_compat.testing.modifier import PREFIX

MOST_NAMED = 20
"""How many steps a message names at most."""


class Why(StrEnum):
    """Why something was not used, in the words of the report."""

    NEVER_RAN = "Something was arranged for steps of {whose} that never ran: {what}."
    RAN_BEFORE = "A result was arranged for steps of {whose} after they had run: {what}."
    NOT_TAKEN = "An event was arranged for {whose}, and nothing took it: {what}."


class Leftover(NamedTuple):
    """One thing that was not used."""

    why: Why
    what: str


def leftovers(modifiers: Modifiers, state: InstanceState | None) -> set[Leftover]:
    """What of the modifiers the instance has not used; None: there is no instance."""
    steps = {} if state is None else state.steps
    outcomes = [step.outcome for step in steps.values()]
    taken = {each.delivery_id for each in outcomes if isinstance(each, ReceivedEvent)}
    never_ran = [_shown(step) for step in modifiers.named_steps() if step not in steps]
    ran_before = [
        _shown(step)
        for step in modifiers.results
        if step in steps and _ran_before(steps[step], modifiers)
    ]
    untaken = [f'"{each.event_type}"' for each in modifiers.events if each.delivery_id not in taken]
    return {
        *(Leftover(Why.NEVER_RAN, what) for what in never_ran),
        *(Leftover(Why.RAN_BEFORE, what) for what in ran_before),
        *(Leftover(Why.NOT_TAKEN, what) for what in untaken),
    }


def check_used(found: set[Leftover], whose: str, ran: Iterable[StepKey]) -> None:
    """Report what was not used, beside what has run.

    Raises:
        AssertionError: there is something.
    """
    if not found:
        return
    by_reason = {why: sorted(each.what for each in found if each.why is why) for why in Why}
    texts = " ".join(
        why.format(whose=whose, what=", ".join(what)) for why, what in by_reason.items() if what
    )
    raise AssertionError(
        f"{PREFIX} {texts} Is the name right, was it arranged before the instance was created, and did the test "
        f"wait for it? {steps_run(ran)}"
    )


def steps_run(ran: Iterable[StepKey]) -> str:
    """Name the steps that have run."""
    shown = [_shown(step) for step in ran if not step.is_internal]
    more = f", and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return f"Steps that ran: {', '.join(shown[:MOST_NAMED]) or 'none'}{more}."


def _ran_before(step: StepState, modifiers: Modifiers) -> bool:
    """Whether a step has ended with another result than the one that was arranged: an error that is arranged goes first."""
    has_errors = step.key in modifiers.failures or step.key in modifiers.lasting_failures
    return (
        bool(step.finished_seq) and not has_errors and step.outcome != modifiers.results[step.key]
    )


def _shown(step: StepKey) -> str:
    kind = "wait" if step.kind is StepKind.WAIT else step.kind
    return f'{kind} "{step.label}"'
