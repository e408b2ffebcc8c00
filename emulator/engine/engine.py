"""The engine: an inbox, and the turn that empties it.

Theory of operation
===================
Everything that happens to an instance is an input in the inbox. A *turn* takes what has arrived, brings the instances
concerned into memory, lets the core decide input by input, commits everything in one transaction, and only then acts and
answers. While a commit is under way the inbox fills for the next turn, so that the number of transactions does not grow
with the number of instances.

Only the turn reads or writes what an instance is, so nothing can change between a check and the commit that rests on it:
whether an id is free, whether an instance is finished, who holds a slot.

A failed commit is not handled. The engine stops, everybody who waits for an answer is told that nothing happened, and the
next start finds what the journal holds. A `Recovered` instance is the one path out of every kind of end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from emulator.core.effects import RequestSlot, ResolveStep
from emulator.core.evolve import fold
from emulator.core.inputs import (
    BARRIERS,
    CreateRequested,
    Input,
    RunInput,
    RunParked,
    ShutdownRequested,
    SlotGranted,
    SlotRefused,
    UnloadRequested,
)
from emulator.core.state import InstanceState
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.engine.actor import InstanceActor
from emulator.engine.admission import Admission
from emulator.engine.arrangements import Arrangements
from emulator.engine.feed import Feed
from emulator.engine.passes import OnePass
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.recovery import Recovery, readable
from emulator.engine.retention import Retention
from emulator.engine.sleepers import Sleepers
from emulator.engine.turn import Posted, Reply, Turn, refuse
from emulator.errors import (
    EmulatorError,
    EngineStopped,
    InstanceAlreadyExists,
    InstanceNotFound,
    StorageError,
    WorkflowNotFound,
)
from emulator.journal.port import Journal
from emulator.timing.alarm import Timers
from emulator.timing.clock import Clock

log = logging.getLogger("workflow_emulator")

INPUTS_PER_TURN = 1_000
"""How much a turn takes: while SQLite writes one turn, the code that the last one has answered gets on."""

UNLOAD_AFTER_MS = 10_000
"""How long a parked incarnation stays in memory when there is room for it."""

T = TypeVar("T")


class Engine:
    """Runs the instances of a set of workflows over one journal.

    `max_live` is how many parked incarnations are kept in memory; beyond it they are unloaded at once. `keep_all` keeps
    finished instances beyond their time, as long as this engine runs. `arrangements` are what tests have arranged.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        definitions: Iterable[WorkflowDefinition],
        *,
        max_live: int = 1_000,
        keep_all: bool = False,
        arrangements: Arrangements | None = None,
    ) -> None:
        self.definitions: Mapping[str, WorkflowDefinition] = {
            each.name: each for each in definitions
        }
        self.journal = journal
        self.feed = Feed()
        self._clock = clock
        self._max_live = max_live
        self._arrangements = arrangements or Arrangements()
        self._timers = Timers(clock)
        self._sleepers = Sleepers(journal, self._timers, self.post, self._look_ahead)
        self._retention = Retention(journal, self._timers, self.feed, self._look_for_expired)
        self._admissions = {
            name: Admission(name, each.concurrency_limit, self._grant)
            for name, each in self.definitions.items()
        }
        self._recovery = Recovery(journal, self._admissions, self.post)
        self._actors: dict[InstanceKey, InstanceActor] = {}
        self._inbox: list[Posted] = []
        self._signal: asyncio.Future[None] | None = None
        self._turns: asyncio.Task[None] | None = None
        self._must_look_ahead = False
        self._must_look_for_expired = False
        self._keep_all = keep_all
        self._damaged: dict[InstanceKey, StorageError] = {}
        self._next_number = 1
        self._failure: EngineStopped | None = None
        self._is_closing = False

    # life of the engine

    async def start(self) -> None:
        """Open the journal and take up every unfinished instance.

        Raises:
            StorageError: the journal cannot be used; its message says why.
        """
        await self.journal.open()
        try:
            self._next_number = await self.journal.last_number() + 1
            self._must_look_ahead = True
            self._must_look_for_expired = not self._keep_all
            await self._recovery.find_unfinished()
        except BaseException:
            await self.journal.close()
            raise
        self._turns = asyncio.create_task(self._run(), name="workflow-engine")

    async def close(self) -> None:
        """Stop in good order: user code is interrupted, which counts as no failure, and the journal is closed.

        Idempotent. What is in the inbox is still decided and committed.
        """
        if self._is_closing:
            return
        for actor in self._actors.values():
            if actor.is_live:
                self.post(actor.key, ShutdownRequested())
        self._is_closing = True
        self._wake()
        if self._turns is not None:
            await self._turns
        await self.journal.close()

    async def kill(self) -> None:
        """Stop as a killed process does: what is not committed now will not be, and nothing is told to the journal."""
        self._is_closing = True
        if self._turns is not None:
            self._turns.cancel()
            await asyncio.wait([self._turns])
        await self.journal.close()

    async def closed(self) -> None:
        """Wait until the engine has stopped by itself; raises why.

        Raises:
            EngineStopped: the journal has failed.
        """
        if self._turns is not None:
            await asyncio.shield(self._turns)
        if self._failure is not None and not self._is_closing:
            raise self._failure

    def now_ms(self) -> int:
        """The engine's time."""
        return self._clock.now_ms()

    def post(self, key: InstanceKey, item: Input) -> None:
        """Put an input into the inbox; nobody waits for an answer."""
        self._put(Posted(key, item))

    async def ask(self, key: InstanceKey, item: Input) -> None:
        """Put an input into the inbox and wait until it is committed, or refused.

        It takes effect whatever becomes of the caller.

        Raises:
            InstanceNotFound: there is no such instance.
            EmulatorError: the rules refuse it.
            EngineStopped: it was not committed.
        """
        await self._answer(Posted(key, item, self._reply()))

    async def read(self, key: InstanceKey, question: Callable[[InstanceState], T]) -> T:
        """Answer a question about the committed state of an instance.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        return await self._answer(Posted(key, question, self._reply()))

    async def create(
        self, creations: Sequence[Creation], *, may_be_taken: bool
    ) -> list[InstanceAlreadyExists | None]:
        """Create instances, all in one commit; for each None, or that its id is taken.

        `may_be_taken` is False for ids that were made up just now: then the journal is not asked.

        Raises:
            WorkflowNotFound: a workflow is unknown; nothing is created.
            EngineStopped: nothing was committed.
        """
        for creation in creations:
            self.definition(creation.workflow)
        replies = [self._reply() for _ in creations]
        for creation, reply in zip(creations, replies, strict=True):
            self._put(Posted(creation.key, CreateRequested(), reply, creation, may_be_taken))
        # All at once: a caller that is cancelled shall not leave an answer that nobody has looked at.
        answers = await asyncio.shield(asyncio.gather(*replies, return_exceptions=True))
        results: list[InstanceAlreadyExists | None] = []
        for answer in answers:
            if answer is not None and not isinstance(answer, InstanceAlreadyExists):
                raise answer
            results.append(answer)
        return results

    async def until(self, key: InstanceKey, question: Callable[[InstanceState], T | None]) -> T:
        """Wait until a question about the committed state of an instance has an answer other than None.

        Raises:
            InstanceNotFound: there is no such instance, or no longer.
        """
        with self.feed.watch(key) as watch:
            while True:
                answer = await self.read(key, question)
                if answer is not None:
                    return answer
                await watch.changed()

    def definition(self, workflow: str) -> WorkflowDefinition:
        """What is known of a workflow.

        Raises:
            WorkflowNotFound: nothing is.
        """
        if workflow not in self.definitions:
            known = ", ".join(sorted(self.definitions)) or "none"
            raise WorkflowNotFound(
                f'(workflow.not_found) Workflow "{workflow}" does not exist. There are: {known}'
            )
        return self.definitions[workflow]

    def _reply(self) -> Reply:
        if self._failure is not None:
            raise self._failure
        if self._turns is None or self._is_closing:
            raise EngineStopped("The engine is not running.")
        return asyncio.get_running_loop().create_future()

    async def _answer(self, posted: Posted) -> Any:
        assert posted.reply is not None
        self._put(posted)
        # The caller may be cancelled; the answer then goes nowhere, and the input takes effect all the same.
        return await asyncio.shield(posted.reply)

    def _put(self, posted: Posted) -> None:
        if self._failure is None and not self._is_closing:
            self._inbox.append(posted)
            self._wake()

    def _wake(self) -> None:
        if self._signal is not None and not self._signal.done():
            self._signal.set_result(None)

    def _look_ahead(self) -> None:
        self._must_look_ahead = True
        self._wake()

    def _look_for_expired(self) -> None:
        self._must_look_for_expired = not self._keep_all
        self._wake()

    def _grant(self, key: InstanceKey) -> None:
        self.post(key, SlotGranted())

    # turns

    async def _run(self) -> None:
        try:
            while not self._is_closing or self._inbox:
                self._recovery.take_up_some()
                await self._refill_queues()
                if not (self._inbox or self._must_look_ahead or self._must_look_for_expired):
                    self._signal = asyncio.get_running_loop().create_future()
                    await self._signal
                await OnePass()
                if self._must_look_ahead:
                    self._must_look_ahead = False
                    await self._sleepers.look_ahead()
                if self._inbox:
                    await self._turn()
                if self._must_look_for_expired:
                    self._must_look_for_expired = False
                    await self._retention.look(is_idle=not self._inbox)
        except Exception as error:
            is_told = isinstance(error, StorageError)
            text = f"The engine has stopped: {error}" if is_told else "The engine has stopped."
            self._failure = EngineStopped(text)
            self._failure.__cause__ = error
            log.critical("%s", text, exc_info=None if is_told else error)
        finally:
            self._shut()

    async def _refill_queues(self) -> None:
        for admission in self._admissions.values():
            while admission.is_short:
                await admission.refill(self.journal)

    def _shut(self) -> None:
        self._failure = error = self._failure or EngineStopped("The engine was closed.")
        for posted in self._inbox:
            refuse(posted.reply, error)
        self._inbox.clear()
        for actor in self._actors.values():
            actor.close()
        self._actors.clear()
        self._timers.close()
        self.feed.close(error)

    async def _turn(self) -> None:
        inbox, self._inbox = self._inbox[:INPUTS_PER_TURN], self._inbox[INPUTS_PER_TURN:]
        try:
            taken = await self._load(inbox)
            turn = Turn(self._clock.now_ms(), taken)
            for posted in inbox:
                self._take(turn, posted)
            commit = turn.commit()
            if commit is not None:
                await self.journal.commit(commit)
        except BaseException:
            # `_shut` tells those who wait.
            self._inbox[:0] = inbox
            raise
        self._inbox[:0] = turn.deferred
        self._perform(turn)

    async def _load(self, inbox: list[Posted]) -> set[InstanceKey]:
        """Bring the instances that the inbox is about into memory; says which of the chosen new ids are taken."""
        actors = self._actors
        needed = {
            posted.key
            for posted in inbox
            if posted.key not in actors and posted.creation is None and posted.speaker is None
        }
        if needed:
            for key, loaded in (await self.journal.load(list(needed))).items():
                stored = readable(loaded)
                if isinstance(stored, StorageError):
                    log.error("%s", stored)
                    self._damaged[key] = stored
                elif key.workflow in self.definitions:
                    state = fold(stored.row.creation, stored.entries)
                    state.modifiers = self._arrangements.of(key)
                    actors[key] = self._actor(stored.row.number, state)
                    actors[key].stored_row = stored.row
        chosen = {
            posted.key for posted in inbox if posted.may_be_taken and posted.key not in actors
        }
        return await self.journal.existing(list(chosen)) if chosen else set()

    def _actor(self, number: int, state: InstanceState) -> InstanceActor:
        definition = self.definitions[state.creation.workflow]
        return InstanceActor(number, state, definition, self._timers, self.post, self._hear)

    def _hear(self, actor: InstanceActor, item: RunInput) -> None:
        self._put(Posted(actor.key, item, speaker=actor))

    def _take(self, turn: Turn, posted: Posted) -> None:
        """Decide on one thing out of the inbox."""
        key, item = posted.key, posted.item
        if posted.speaker is not None and key not in turn.barred:
            # What user code says: it cannot be refused, and is stale if its instance has left memory since.
            if self._actors.get(key) is posted.speaker:
                turn.looked_at[key] = posted.speaker
                self._decide(turn, posted.speaker, cast("Input", item))
            return
        is_barrier = isinstance(item, BARRIERS)
        if key in turn.barred or (is_barrier and key in turn.actors):
            turn.barred.add(key)
            turn.deferred.append(posted)
            return
        if is_barrier:
            turn.barred.add(key)
        try:
            actor = self._find(turn, posted)
            if actor is None:
                return
            turn.looked_at[key] = actor
            if type(item) is SlotGranted and not self._admissions[key.workflow].holds(key):
                return  # it has left the queue since, and perhaps come back
            if isinstance(item, Input):
                refusal = self._decide(turn, actor, item)
                if refusal is not None:
                    raise refusal
                answer = None
            else:
                answer = item(actor.state)
        except EmulatorError as error:
            # The reason may be something that this very turn has decided, and is not committed yet.
            turn.refusals.append((posted.reply, error))
        else:
            if posted.reply is not None:
                turn.answers.append((posted.reply, answer))

    def _find(self, turn: Turn, posted: Posted) -> InstanceActor | None:
        """The instance that something in the inbox is about; None if nobody would miss it."""
        key, creation = posted.key, posted.creation
        actor = self._actors.get(key)
        if creation is not None:
            if actor is not None or key in turn.taken:
                text = (
                    f'(instance.already_exists) Workflow instance with id "{key.id}" already exists'
                )
                raise InstanceAlreadyExists(text)
            state = InstanceState(creation, modifiers=self._arrangements.born(key))
            actor = self._actors[key] = self._actor(self._next_number, state)
            self._next_number += 1
            turn.created.add(key)
        elif actor is None:
            if key.workflow in self._admissions:
                self._admissions[key.workflow].settle(key, None)
            if posted.reply is not None:
                self.definition(key.workflow)
                damage = self._damaged.get(key)
                raise damage or InstanceNotFound(
                    f'(instance.not_found) Instance "{key.id}" does not exist'
                )
        return actor

    def _decide(self, turn: Turn, actor: InstanceActor, item: Input) -> EmulatorError | None:
        """Let the core decide, and answer at once who asks for a slot; returns the refusal, if it is refused."""
        if isinstance(item, RunParked) and actor.key in turn.moving:
            return None  # it came to rest before this turn, and is about to move
        decision = actor.consider(item, turn.now_ms)
        if decision.refusal is not None:
            return decision.refusal
        turn.decided.append((actor, item, decision))
        turn.actors[actor.key] = actor
        admission = self._admissions[actor.key.workflow]
        for effect in decision.effects:
            if type(effect) is ResolveStep:
                turn.moving.add(actor.key)
            elif type(effect) is RequestSlot:
                actor.is_waking = effect.waking
                granted = admission.acquire(actor.key, waking=effect.waking)
                self._decide(turn, actor, SlotGranted() if granted else SlotRefused())
        admission.settle(actor.key, None if decision.deleted else actor.state.status)
        return None

    def _perform(self, turn: Turn) -> None:
        """Act on what is committed, and tell those who wait for it."""
        for actor, item, decision in turn.decided:
            actor.perform(decision)
            if decision.deleted:
                del self._actors[actor.key]
                self._retention.watch(turn.now_ms)
            if isinstance(item, RunParked):
                self._plan_unloading(actor, item)
        for actor, item, _ in turn.decided:
            actor.after(item)
        for reply, answer in turn.answers:
            if not reply.done():
                reply.set_result(answer)
        for reply, error in turn.refusals:
            refuse(reply, error)
        for key, actor in turn.looked_at.items():
            self._retire(actor, turn.now_ms, has_changed=key in turn.actors)
        self.feed.publish(turn.actors)

    def _plan_unloading(self, actor: InstanceActor, parked: RunParked) -> None:
        unload = UnloadRequested(parked.incarnation)
        if len(self._actors) > self._max_live:
            actor.post(unload)
        else:
            due_ms = self._timers.now_ms() + UNLOAD_AFTER_MS
            self._timers.schedule(due_ms, lambda: actor.post(unload))

    def _retire(self, actor: InstanceActor, decided_ms: int, *, has_changed: bool) -> None:
        """Forget an instance that has no code in memory; its stored timers wake it."""
        if actor.is_live or self._actors.get(actor.key) is not actor:
            return
        armed = actor.armed
        actor.close()
        del self._actors[actor.key]
        if has_changed and actor.stored_row is not None and actor.stored_row.expires_ms is not None:
            self._retention.watch(actor.stored_row.expires_ms)
        if has_changed and actor.state.status in (InstanceStatus.RUNNING, InstanceStatus.WAITING):
            for step in actor.state.open.values():
                # One that had gone off before the decision is of a step that the code does not ask for any more.
                if step.due_ms is not None and (step.due_ms >= decided_ms or step.key in armed):
                    self._sleepers.watch(actor.key, step.key, step.due_ms)
