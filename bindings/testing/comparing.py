"""Runs and replays compared: whether they went the same way, and where not, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from emulator.core.attempts import INTERRUPTED
from emulator.core.inputs import DoRequested, SleepRequested, WaitRequested
from emulator.core.state import InstanceState
from emulator.domain.entries import AttemptFailed
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.port import StoredInstance
from emulator.testing.asking import Asked, Place
from emulator.testing.replay import Replay, Returned, RunFailed, divergence

_SHOWN_CHARS: Final = 80


def bare_durations(asked: Asked) -> Iterable[tuple[str, object]]:
    """The durations of a step that may have been written as bare numbers."""
    match asked.request:
        case SleepRequested(duration_ms=int() as duration_ms):
            yield "sleep", duration_ms
        case WaitRequested(timeout_ms=timeout_ms):
            yield "timeout", timeout_ms
        case DoRequested(config=config):
            yield "timeout", config.timeout
            yield "retry delay", config.retries.delay
        case _:
            pass


def was_interrupted(stored: StoredInstance) -> bool:
    """Whether a crash came upon an attempt, which then may have been the last."""
    facts = (entry.fact for _, entry in stored.entries)
    return any(isinstance(fact, AttemptFailed) and fact.error == INTERRUPTED for fact in facts)


def attempts_of(state: InstanceState) -> dict[StepKey, int]:
    """How often each step was tried."""
    return {key: step.attempt for key, step in state.steps.items() if key.kind is StepKind.DO}


def result_of(state: InstanceState, step: StepKey | None) -> object:
    """A step's outcome, or that of the whole (None)."""
    if step is None:
        return state.output if state.output is not None else state.error
    known = state.steps.get(step)
    return known.outcome if known else "nothing"


def same_results(one: InstanceState, other: InstanceState) -> set[StepKey | None]:
    """The `do` steps with equal results in both, and None if the ends are equal."""
    steps: list[StepKey | None] = [key for key in one.steps if key.kind is StepKind.DO]
    return {step for step in (*steps, None) if result_of(one, step) == result_of(other, step)}


def went_the_same_way(one: InstanceState, other: InstanceState) -> bool:
    """Whether both have the same steps, with the same outcomes, and the same end."""
    return one.steps.keys() == other.steps.keys() and all(
        result_of(one, step) == result_of(other, step) for step in (*one.steps, None)
    )


def behaviour(replayed: Replay) -> object:
    """What is compared of two replays: the steps asked for, and the end."""
    end = replayed.end
    if isinstance(end, RunFailed):
        end = end.error
    return {asked.step for asked in replayed.asked}, end


def fits(state: InstanceState, replayed: Replay) -> bool:
    """Whether a replay has asked for the steps of a finished instance, no others, and come to its end."""
    if divergence(state, replayed) or any(a.step not in state.steps for a in replayed.asked):
        return False
    match replayed.end:
        case Returned(output):
            return state.output == output
        case RunFailed(error):
            return state.error == error
        case None:
            return False


def difference(state: InstanceState, replayed: Replay) -> tuple[Place | None, str]:
    """Where a replay has left the journal, in words."""
    parted = divergence(state, replayed)
    asked = next((each for each in replayed.asked if each.step not in state.steps), None)
    if parted is not None and parted.asked is not None:
        asked = parted.asked
    if asked is not None:
        instead = f' in place of "{parted.expected.name}"' if parted and parted.expected else ""
        return asked.place, f'the code asked for "{asked.step.name}"{instead}'
    if parted is not None and parted.expected is not None:
        return None, f'the code did not ask for "{parted.expected.name}"'
    match replayed.end:
        case Returned(output):
            now: object = output
        case RunFailed(error):
            now = error
        case None:
            now = "no end"
    return None, f"the workflow came to {shown(now)} in place of {shown(result_of(state, None))}"


def shown(result: object) -> str:
    """A result for people: short."""
    text = bytes(result).decode() if isinstance(result, msgspec.Raw) else str(result)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
