"""Replay without consequences: today's code against a recorded journal.

Theory of operation
===================
The steps that a journal has finished are all that a replay needs. They are put into a journal in memory, as those of an
instance that was running when its process died, and the engine recovers that, as it always does. What the code asks for
beyond them is written down and never answered: no callback is called, nothing new happens.

Code that fits asks for every step of the journal again. Whether it is ready for a *running* instance is told by the first
step that it does not come back to: `divergence`. What only a callback has asked for is no such step. The journal does not
say which steps those are; what began while a step ran that the code asks for again may be one, unless the code asks for
something new, which may stand in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace as replaced
from typing import Final, NamedTuple

import msgspec

from emulator.core.effects import Outcome
from emulator.core.evolve import fold
from emulator.core.state import InstanceState, StepState
from emulator.domain import values
from emulator.domain.entries import (
    ROLLBACK_EVENTS,
    Entry,
    StepStarted,
    StepSucceeded,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
)
from emulator.domain.failure import Failure, failure_of
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.engine.engine import Engine
from emulator.engine.outputs import output_stream
from emulator.engine.programs import Program, RunEvent, WorkflowDefinition
from emulator.engine.step_code import StepCode
from emulator.engine.steps import StepContext
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import ChunkRow, Commit, EntryRow, Journal, StoredInstance, StreamCommit
from emulator.testing.asking import Asked, ListeningContext, Place, raising_place
from emulator.testing.clock import EPOCH_MS, LoopClock

PATIENCE_S: Final = 86_400
"""How long code may take, in virtual time, from one step to the next."""

_ALL_BYTES: Final = 2**40


class Returned(NamedTuple):
    """`run()` returned."""

    output: msgspec.Raw


class RunFailed(NamedTuple):
    """`run()` raised."""

    error: Failure
    place: Place | None


class Replay(NamedTuple):
    """What the code did: the steps that it asked for, and its end; None if it asked for what the journal has not finished."""

    asked: list[Asked]
    end: Returned | RunFailed | None


class Divergence(NamedTuple):
    """Where code and journal part: the step that the journal has next, and what the code asked for in its place."""

    expected: StepKey | None
    asked: Asked | None
    end: Returned | RunFailed | None


async def replay(
    stored: StoredInstance, definition: WorkflowDefinition, *, now_ms: int = EPOCH_MS
) -> Replay:
    """Run the code of `definition` against a journal, on a virtual loop, at `now_ms`. No step is invoked."""
    state = fold(stored.row.creation, stored.entries)
    journal = await _journal(stored, state)
    told = _Told({key for key, step in state.steps.items() if step.finished_seq})
    make = definition.program
    definition = replaced(
        definition, program=lambda: _Telling(make(), told), concurrency_limit=None
    )
    engine = Engine(journal, LoopClock(now_ms), [definition])
    await engine.start()
    try:
        await told.end_or_rest()
    finally:
        await engine.close()
    return Replay(told.heard, told.end)


async def with_outputs(stored: StoredInstance, journal: Journal) -> StoredInstance:
    """The instance with what its steps have returned as streams, out of the journal that it comes from."""
    pieces: list[ChunkRow] = []
    for _, entry in stored.entries:
        if entry.step is None or not isinstance(entry.fact, StepSucceeded):
            continue
        output = values.decode(entry.fact.result)
        if isinstance(output, values.StreamedOutput):
            key, stream = stored.row.creation.key, output_stream(entry.step.label)
            page = await journal.chunks(key, stream, 0, output.chunks, _ALL_BYTES)
            pieces += page.chunks if page is not None else []
    return stored._replace(outputs=tuple(pieces))


def divergence(state: InstanceState, replayed: Replay) -> Divergence | None:
    """Where the code leaves the journal that adds up to `state`; None if a running instance would go on."""
    asked = {each.step for each in replayed.asked}
    # What was claimed at the start need not be opened.
    asked.update(hook.step for hook in state.hooks.values() if hook.at_start)
    is_news = not asked <= state.steps.keys()
    for step in state.steps.values():  # in the order in which they started
        counts = step.finished_seq or not (state.is_terminal or step.abandoned)
        if counts and step.key not in asked and (is_news or not _is_within(state, step, asked)):
            return Divergence(step.key, _in_place_of(state, step.start_seq, replayed), replayed.end)
    end = replayed.end
    if isinstance(end, RunFailed) and (state.error is None or state.error.name != end.error.name):
        return Divergence(None, None, end)
    return None


def _is_within(state: InstanceState, step: StepState, asked: set[StepKey]) -> bool:
    """Whether a step began while one ran that was asked for."""
    return any(
        outer.key.kind is StepKind.DO
        and outer.key in asked
        and outer.start_seq < step.start_seq
        and not 0 < outer.finished_seq < step.start_seq
        for outer in state.steps.values()
    )


def _in_place_of(state: InstanceState, start_seq: int, replayed: Replay) -> Asked | None:
    for each in replayed.asked:
        known = state.steps.get(each.step)
        if known is None or known.start_seq > start_seq:
            return each
    return None


async def _journal(stored: StoredInstance, state: InstanceState) -> MemoryJournal:
    """A journal with the finished steps of an instance, which was running."""
    born_ms = stored.row.creation.created_ms
    entries = [
        EntryRow(stored.row.number, seq, _without_rollback(entry))
        for seq, entry in stored.entries
        if entry.step is not None
        and state.steps[entry.step].finished_seq
        and entry.fact.event not in ROLLBACK_EVENTS
    ]
    last = max((seq for seq, _ in stored.entries), default=0)
    begun = (WorkflowQueued(), WorkflowStarted(), WorkflowRunning())
    for place, fact in enumerate(begun, start=last + 1):
        entries.append(EntryRow(stored.row.number, place, Entry(born_ms, None, fact)))
    journal = MemoryJournal()
    row = stored.row._replace(
        status=InstanceStatus.RUNNING, started_ms=born_ms, ended_ms=None, expires_ms=None
    )
    outputs = StreamCommit(chunks=list(stored.outputs))
    await journal.commit(Commit(created=[row], entries=entries, streams=outputs))
    return journal


def _without_rollback(entry: Entry) -> Entry:
    if isinstance(entry.fact, StepStarted):
        return msgspec.structs.replace(
            entry, fact=msgspec.structs.replace(entry.fact, rollback=None)
        )
    return entry


class _Told:
    """What is heard of the code."""

    def __init__(self, finished: set[StepKey]) -> None:
        self.heard: list[Asked] = []
        self.end: Returned | RunFailed | None = None
        self._finished = finished
        self._ended = asyncio.Event()

    def code(self, step: StepKey, code: StepCode, *, rollback: bool = False) -> StepCode:  # noqa: ARG002 - a `Listener`
        return code

    async def asked(self, asked: Asked, hand_on: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self.heard.append(asked)
        if asked.step in self._finished:
            return await hand_on()
        return await never()

    def opened(self, asked: Asked) -> bool:
        self.heard.append(asked)
        return asked.step in self._finished

    def has_ended(self, end: Returned | RunFailed) -> None:
        self.end = end
        self._ended.set()

    async def end_or_rest(self) -> None:
        """Wait until the code has ended, or does nothing any more."""
        heard = -1
        while self.end is None and heard < len(self.heard):
            heard = len(self.heard)
            waiting = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait([waiting], timeout=PATIENCE_S)
            waiting.cancel()


class _Telling:
    """A program whose end is only told: the engine never hears of it."""

    def __init__(self, program: Program, told: _Told) -> None:
        self._program = program
        self._told = told

    async def run(self, event: RunEvent, step: StepContext) -> object:
        try:
            output = await self._program.run(event, ListeningContext(step, self._told))
            end = Returned(values.encode(output, "the output of run()"))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            end = RunFailed(failure_of(error), raising_place(error.__traceback__))
        self._told.has_ended(end)
        return await never()


async def never() -> Outcome:
    """Wait for ever, or until cancelled."""
    return await asyncio.get_running_loop().create_future()
