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
from typing import Any, TypeVar

from emulator.core.decide import decide
from emulator.core.decision import Decision
from emulator.core.effects import RequestSlot, ResolveStep
from emulator.core.inputs import (
    BARRIERS,
    CreateRequested,
    EventSent,
    HookRequested,
    Input,
    RestartRequested,
    RunParked,
    ShutdownRequested,
    SlotGranted,
    SlotRefused,
)
from emulator.core.state import InstanceState
from emulator.domain.instance import Creation, InstanceKey
from emulator.engine.actor import InstanceActor
from emulator.engine.admission import Admission, refill
from emulator.engine.arrangements import Arrangements
from emulator.engine.feed import Feed
from emulator.engine.notices import Notices
from emulator.engine.passes import OnePass
from emulator.engine.programs import WorkflowDefinition, definition_of
from emulator.engine.recovery import Recovery
from emulator.engine.residents import Residents
from emulator.engine.retention import Retention
from emulator.engine.sleepers import Sleepers
from emulator.engine.streams import Streams
from emulator.engine.tasks import check_loop, watch_loop
from emulator.engine.tokens import TokenMaker
from emulator.engine.turn import Batch, Claim, Inbox, Posted, Reply, Said, Turn, refuse, stopped_by
from emulator.errors import EmulatorError, EngineStopped, EntityConflictError
from emulator.journal.port import Journal
from emulator.timing.alarm import Timers
from emulator.timing.clock import Clock

log = logging.getLogger("workflow_emulator")

INPUTS_PER_TURN = 1_000
"""How much a turn takes. When more has arrived, the next turn is written while the code that this one answers gets on."""

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
        self.ended: Callable[[InstanceState], None] | None = None
        self.streams = Streams(journal, self._wake)
        self.notices = Notices()
        self._clock = clock
        self._timers = Timers(clock)
        self._sleepers = Sleepers(journal, self._timers, self.post, self._look_ahead)
        self._retention = Retention(journal, self._timers, self.feed, self._look_for_expired)
        self._admissions = {
            name: Admission(name, each.concurrency_limit, lambda key: self.post(key, SlotGranted()))
            for name, each in self.definitions.items()
        }
        self._recovery = Recovery(journal, self._admissions, self.post)
        self._residents = Residents(
            journal, self.definitions, arrangements or Arrangements(), max_live, self._actor
        )
        self._actors = self._residents.actors
        self._inbox: Inbox = []
        self._signal: asyncio.Future[None] | None = None
        self._turns: asyncio.Task[None] | None = None
        self._must_look_ahead = False
        self._must_look_for_expired = False
        self._keep_all = keep_all
        self._failure: EngineStopped | None = None
        self._is_closing = False
        self._closing: asyncio.Future[None] | None = None

    # life of the engine

    async def start(self) -> None:
        """Open the journal and take up every unfinished instance.

        Raises:
            StorageError: the journal cannot be used; its message says why.
        """
        watch_loop(asyncio.get_running_loop())
        await self.journal.open()
        try:
            await self._residents.open()
            self._must_look_ahead = True
            self._must_look_for_expired = not self._keep_all
            await self._recovery.find_unfinished()
        except BaseException:
            await self.journal.close()
            raise
        self._turns = asyncio.create_task(self._run(), name="workflow-engine")

    async def close(self) -> None:
        """Stop in good order: user code is interrupted, which counts as no failure, and the journal is closed.

        Idempotent. What is in the inbox is still decided and committed. It is done also if the caller is cancelled.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
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

    def check_running(self) -> None:
        """Refuse to read from the journal of an engine that has ended.

        Raises:
            EngineStopped: it has.
        """
        if self._failure is not None:
            raise self._failure
        if self._turns is None or self._is_closing:
            raise EngineStopped("The engine is not running.")

    def now_ms(self) -> int:
        """The engine's time."""
        return self._clock.now_ms()

    def post(self, key: InstanceKey, item: Input) -> None:
        """Put an input into the inbox; nobody waits for an answer."""
        self._put(Posted(key, item))

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """Put an input into the inbox and wait until it is committed, or refused; what the rules answer, if anything.

        It takes effect whatever becomes of the caller.

        Raises:
            InstanceNotFound: there is no such instance.
            EmulatorError: the rules refuse it.
            EngineStopped: it was not committed.
        """
        return await self._answer(Posted(key, item, self._reply()))

    async def read(self, key: InstanceKey, question: Callable[[InstanceState], T]) -> T:
        """Answer a question about the committed state of an instance.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        return await self._answer(Posted(key, question, self._reply()))

    async def create(
        self,
        creations: Sequence[Creation],
        *,
        may_be_taken: bool,
        claims: Sequence[Claim] | None = None,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """Create instances, all in one commit; for each None, or that its token or its id is taken.

        `may_be_taken` is False for ids that were made up just now: then the journal is not asked. `claims` say what
        each begins with; the ids of its hooks are made here. With `is_whole` none is created if the token of one is taken.

        Raises:
            WorkflowNotFound: a workflow is unknown; nothing is created.
            HookConflictError: a token is taken, with `is_whole`; nothing is created.
            EngineStopped: nothing was committed.
        """
        for creation in creations:
            self.definition(creation.workflow)
        whole = self._residents.identified(creations, claims or [Claim()] * len(creations))
        batch = Batch(creations, whole, may_be_taken, is_whole)
        return await self._answer(Posted(creations[0].key, batch, self._reply()))

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
        return definition_of(workflow, self.definitions)

    def _reply(self) -> Reply:
        self.check_running()
        assert self._turns is not None
        loop = self._turns.get_loop()
        check_loop(loop)
        return loop.create_future()

    async def _answer(self, posted: Posted) -> Any:
        assert posted.reply is not None
        self._put(posted)
        # The caller may be cancelled, and this with it; the answer then goes nowhere, and the input takes effect all the same.
        return await posted.reply

    def _put(self, item: Posted | Said) -> None:
        if self._failure is None and not self._is_closing:
            self._inbox.append(item)
            if self._signal is not None:
                self._wake()

    def _wake(self) -> None:
        signal, self._signal = self._signal, None
        if signal is not None and not signal.done():
            signal.set_result(None)

    def _look_ahead(self) -> None:
        self._must_look_ahead = True
        self._wake()

    def _look_for_expired(self) -> None:
        self._must_look_for_expired = not self._keep_all
        self._wake()

    # turns

    async def _run(self) -> None:
        try:
            while not self._is_closing or self._inbox:
                if len(self._inbox) < INPUTS_PER_TURN:
                    self._recovery.take_up_some()
                await refill(self._admissions.values(), self.journal)
                if not (self._has_work or self._must_look_ahead or self._must_look_for_expired):
                    self._signal = asyncio.get_running_loop().create_future()
                    await self._signal
                elif len(self._inbox) < INPUTS_PER_TURN:
                    await OnePass()  # whoever was just answered can still be of this turn
                if self._must_look_ahead and len(self._inbox) < INPUTS_PER_TURN:
                    self._must_look_ahead = False
                    await self._sleepers.look_ahead()
                if self._has_work:
                    await self._turn()
                if self._must_look_for_expired:
                    self._must_look_for_expired = False
                    self._residents.forget(await self._retention.look(is_idle=not self._inbox))
        except Exception as error:
            self._failure = stopped_by(error)
        finally:
            self._shut()

    @property
    def _has_work(self) -> bool:
        return bool(self._inbox) or self.streams.has_news

    def _shut(self) -> None:
        self._failure = error = self._failure or EngineStopped("The engine was closed.")
        for each in self._inbox:
            if isinstance(each, Posted):
                refuse(each.reply, error)
        self._inbox.clear()
        for actor in self._actors.values():
            actor.close()
        self._actors.clear()
        self._timers.close()
        self.feed.close(error)
        self.streams.close(error)

    async def _turn(self) -> None:
        inbox, self._inbox = self._inbox[:INPUTS_PER_TURN], self._inbox[INPUTS_PER_TURN:]
        try:
            ready, taken, holders = await self._residents.prepare(inbox)
            if self.streams.is_busy:
                await self.streams.load()
            turn = Turn(self._clock.now_ms(), taken, holders)
            for place, each in enumerate(inbox):
                if place == ready or turn.is_full:
                    turn.deferred += inbox[place:]
                    break
                if isinstance(each, Said):
                    self._listen(turn, each)
                elif isinstance(each.item, Batch):
                    self._create(turn, each, each.item)
                else:
                    self._take(turn, each)
            commit = turn.commit(self.streams)
            if commit is not None:
                await self.journal.commit(commit)
        except BaseException:
            # `_shut` tells those who wait.
            self._inbox[:0] = inbox
            raise
        self._inbox[:0] = turn.deferred
        self._perform(turn)

    def _actor(self, number: int, state: InstanceState, tokens: TokenMaker) -> InstanceActor:
        definition = self.definitions[state.creation.workflow]
        return InstanceActor(
            number, state, definition, self._timers, self.streams, self.notices, self.post, self._put, tokens
        )  # fmt: skip

    def _listen(self, turn: Turn, said: Said) -> None:
        """Decide on what user code says: it cannot be refused, and is stale if its instance has left memory since."""
        actor = said.actor
        if actor.key in turn.barred:
            turn.deferred.append(said)
        elif self._actors.get(actor.key) is actor:
            self._decide(turn, actor, said.item)

    def _take(self, turn: Turn, posted: Posted) -> None:
        """Decide on what somebody asks, or a clock."""
        key, item = posted.key, posted.item
        is_barrier = isinstance(item, BARRIERS)
        if key in turn.barred or (is_barrier and key in turn.actors):
            turn.barred.add(key)
            turn.deferred.append(posted)
            return
        if is_barrier:
            turn.barred.add(key)
        try:
            actor = self._find(posted)
            if actor is None:
                return
            turn.looked_at[key] = actor
            if type(item) is SlotGranted and not self._admissions[key.workflow].holds(key):
                return  # it has left the queue since, and perhaps come back
            if isinstance(item, Input):
                decision = self._decide(turn, actor, item)
                if decision.refusal is not None:
                    raise decision.refusal
                if type(item) is EventSent:
                    self.notices.untaken(actor.state, item.event_type)
                answer = decision.told
            else:
                assert not isinstance(item, Batch)
                answer = item(actor.state)
        except EmulatorError as error:
            # The reason may be something that this very turn has decided, and is not committed yet.
            turn.refusals.append((posted.reply, error))
        else:
            if posted.reply is not None:
                turn.answers.append((posted.reply, answer))

    def _find(self, posted: Posted) -> InstanceActor | None:
        """The instance that something in the inbox is about; None if nobody would miss it."""
        key = posted.key
        actor = self._actors.get(key)
        if actor is None:
            if key.workflow in self._admissions:
                self._admissions[key.workflow].settle(key, None)
            if posted.reply is not None:
                self.definition(key.workflow)
                raise self._residents.missing(key)
        return actor

    def _create(self, turn: Turn, posted: Posted, batch: Batch) -> None:
        """Create instances, as far as their tokens and their ids are free."""
        if not turn.admits(posted, batch):
            return
        results = [
            self._create_one(turn, creation, claim)
            for creation, claim in zip(batch.creations, batch.claims, strict=True)
        ]
        assert posted.reply is not None
        turn.answers.append((posted.reply, results))

    def _create_one(
        self, turn: Turn, creation: Creation, claim: Claim
    ) -> EntityConflictError | None:
        conflict = turn.conflict(creation, claim.hook, self._actors)
        if conflict is not None:
            return conflict
        actor = self._residents.add(creation)
        turn.created.add(actor.key)
        self._decide(turn, actor, CreateRequested(claim.hook, claim.attributes, claim.event))
        return None

    def _decide(self, turn: Turn, actor: InstanceActor, item: Input) -> Decision:
        """Let the core decide, and answer at once who asks for a slot."""
        if type(item) is RunParked and actor.key in turn.moving:
            # It came to rest before this turn, and is about to move.
            return Decision(actor.state, turn.now_ms)
        if type(item) is HookRequested or type(item) is RestartRequested:
            item = turn.holders.tell(actor.state, item)
        status = actor.state.status
        decision = decide(actor.state, item, turn.now_ms)
        if decision.refusal is not None:
            return decision
        if decision.hooks:
            turn.holders.note(decision.hooks.values())
        turn.add(actor, item, decision)
        for effect in decision.effects:
            if type(effect) is ResolveStep:
                turn.moving.add(actor.key)
            elif type(effect) is RequestSlot:
                actor.is_waking = effect.waking
                admission = self._admissions[actor.key.workflow]
                granted = admission.acquire(actor.key, waking=effect.waking)
                self._decide(turn, actor, SlotGranted() if granted else SlotRefused())
        if actor.state.status is not status or decision.deleted:
            admission = self._admissions[actor.key.workflow]
            admission.settle(actor.key, None if decision.deleted else actor.state.status)
        return decision

    def _perform(self, turn: Turn) -> None:
        """Act on what is committed, and tell those who wait for it."""
        for actor, item, decision in turn.decided:
            actor.perform(decision)
            if decision.deleted:
                del self._actors[actor.key]
                self._retention.watch(turn.now_ms)
            if type(item) is RunParked:
                self._residents.rests(actor, item)
        for actor, item, _ in turn.decided:
            actor.after(item)
        turn.tell(self.ended)
        for key, actor in (turn.looked_at | turn.actors).items():
            if not actor.is_live and self._actors.get(key) is actor:
                self._retire(actor, turn.now_ms, has_changed=key in turn.actors)
        self.feed.publish(turn.actors)
        self.streams.settle(turn.actors)

    def _retire(self, actor: InstanceActor, decided_ms: int, *, has_changed: bool) -> None:
        """Forget an instance that has no code in memory; its stored timers wake it."""
        if has_changed:
            self._sleepers.take(actor.state, actor.armed, decided_ms)
        actor.close()
        del self._actors[actor.key]
        if has_changed and actor.stored_row is not None and actor.stored_row.expires_ms is not None:
            self._retention.watch(actor.stored_row.expires_ms)
