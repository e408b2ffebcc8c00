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

from msgspec.structs import replace

from emulator.core.decision import Decision
from emulator.core.effects import RequestSlot, ResolveStep
from emulator.core.evolve import fold
from emulator.core.inputs import (
    BARRIERS,
    CreateRequested,
    HookRequested,
    Input,
    RestartRequested,
    RunInput,
    RunParked,
    ShutdownRequested,
    SlotGranted,
    SlotRefused,
    UnloadRequested,
)
from emulator.core.state import InstanceState
from emulator.domain.hooks import TokenKey, claim_step
from emulator.domain.instance import Creation, InstanceKey, scope_of
from emulator.engine.actor import InstanceActor
from emulator.engine.admission import Admission
from emulator.engine.arrangements import Arrangements
from emulator.engine.feed import Feed
from emulator.engine.passes import OnePass
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.recovery import Recovery, readable
from emulator.engine.retention import Retention
from emulator.engine.sleepers import Sleepers
from emulator.engine.streams import Streams
from emulator.engine.tokens import Holders, TokenMaker, tokens_of
from emulator.engine.turn import Batch, Claim, Posted, Reply, Turn, refuse, stopped_by
from emulator.errors import (
    EmulatorError,
    EngineStopped,
    EntityConflictError,
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
"""How much a turn takes. When more has arrived, the next turn is written while the code that this one answers gets on."""

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
        self.streams = Streams(journal, self._wake)
        self._clock = clock
        self._max_live = max_live
        self._arrangements = arrangements or Arrangements()
        self._timers = Timers(clock)
        self._sleepers = Sleepers(journal, self._timers, self.post, self._look_ahead)
        self._retention = Retention(journal, self._timers, self.feed, self._look_for_expired)
        self._admissions = {
            name: Admission(name, each.concurrency_limit, lambda key: self.post(key, SlotGranted()))
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
        self._tokens = TokenMaker("")
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
            self._tokens = TokenMaker(await self.journal.seed())
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
        given = claims or [Claim()] * len(creations)
        whole = [self._identified(*each) for each in zip(creations, given, strict=True)]
        batch = Batch(creations, whole, may_be_taken, is_whole)
        return await self._answer(Posted(creations[0].key, batch, self._reply()))

    def _identified(self, creation: Creation, claim: Claim) -> Claim:
        if claim.hook is None:
            return claim
        hook_id = self._tokens.hook_id(creation, claim_step(claim.hook.token))
        return claim._replace(hook=replace(claim.hook, hook_id=hook_id))

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
        self.check_running()
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

    # turns

    async def _run(self) -> None:
        try:
            while not self._is_closing or self._inbox:
                self._recovery.take_up_some()
                await self._refill_queues()
                if not (self._has_work or self._must_look_ahead or self._must_look_for_expired):
                    self._signal = asyncio.get_running_loop().create_future()
                    await self._signal
                elif len(self._inbox) < INPUTS_PER_TURN:
                    await OnePass()  # whoever was just answered can still be of this turn
                if self._must_look_ahead:
                    self._must_look_ahead = False
                    await self._sleepers.look_ahead()
                if self._has_work:
                    await self._turn()
                if self._must_look_for_expired:
                    self._must_look_for_expired = False
                    await self._retention.look(is_idle=not self._inbox)
        except Exception as error:
            self._failure = stopped_by(error)
        finally:
            self._shut()

    @property
    def _has_work(self) -> bool:
        return bool(self._inbox) or self.streams.has_news

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
        self.streams.close(error)

    async def _turn(self) -> None:
        inbox, self._inbox = self._inbox[:INPUTS_PER_TURN], self._inbox[INPUTS_PER_TURN:]
        try:
            taken = await self._load(inbox)
            if self.streams.is_busy:
                await self.streams.load()
            tokens = self._tokens_in(inbox)
            holders = Holders(await self.journal.holders(tokens) if tokens else {})
            turn = Turn(self._clock.now_ms(), taken, holders)
            for posted in inbox:
                if isinstance(posted.item, Batch):
                    self._create(turn, posted, posted.item)
                else:
                    self._take(turn, posted)
            commit = turn.commit(self.streams)
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
            if posted.key not in actors
            and posted.speaker is None
            and not isinstance(posted.item, Batch)
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
            creation.key
            for posted in inbox
            if isinstance(posted.item, Batch) and posted.item.may_be_taken
            for creation in posted.item.creations
            if creation.key not in actors
        }
        return await self.journal.existing(list(chosen)) if chosen else set()

    def _tokens_in(self, inbox: list[Posted]) -> list[TokenKey]:
        """The tokens that somebody wants to have."""
        tokens: set[TokenKey] = set()
        for posted in inbox:
            item = posted.item
            if isinstance(item, HookRequested):
                tokens.add(TokenKey(scope_of(posted.key.id), item.hook.token))
            elif isinstance(item, RestartRequested) and posted.key in self._actors:
                tokens |= tokens_of(self._actors[posted.key].state)
            elif isinstance(item, Batch):
                tokens |= item.tokens()
        return list(tokens)

    def _actor(self, number: int, state: InstanceState) -> InstanceActor:
        definition = self.definitions[state.creation.workflow]
        return InstanceActor(
            number,
            state,
            definition,
            self._timers,
            self.streams,
            self.post,
            self._hear,
            self._tokens,
        )

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
                damage = self._damaged.get(key)
                raise damage or InstanceNotFound(
                    f'(instance.not_found) Instance "{key.id}" does not exist'
                )
        return actor

    def _create(self, turn: Turn, posted: Posted, batch: Batch) -> None:
        """Create instances, as far as their tokens and their ids are free."""
        keys = [creation.key for creation in batch.creations]
        if not turn.barred.isdisjoint(keys):
            turn.barred.update(keys)
            turn.deferred.append(posted)
            return
        refusal = turn.lost_token(batch) if batch.is_whole else None
        if refusal is not None:
            turn.refusals.append((posted.reply, refusal))
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
        key = creation.key
        conflict = turn.conflict(creation, claim.hook)
        if conflict is not None:
            return conflict
        if key in self._actors or key in turn.taken:
            text = f'(instance.already_exists) Workflow instance with id "{key.id}" already exists'
            return InstanceAlreadyExists(text)
        state = InstanceState(creation, modifiers=self._arrangements.born(key))
        actor = self._actors[key] = self._actor(self._next_number, state)
        self._next_number += 1
        turn.created.add(key)
        turn.looked_at[key] = actor
        self._decide(turn, actor, CreateRequested(claim.hook, claim.attributes))
        return None

    def _decide(self, turn: Turn, actor: InstanceActor, item: Input) -> Decision:
        """Let the core decide, and answer at once who asks for a slot."""
        if isinstance(item, RunParked) and actor.key in turn.moving:
            return Decision(
                actor.state, turn.now_ms
            )  # it came to rest before this turn, and is about to move
        if isinstance(item, (HookRequested, RestartRequested)):
            item = turn.holders.tell(actor.state, item)
        decision = actor.consider(item, turn.now_ms)
        if decision.refusal is not None:
            return decision
        if decision.hooks:
            turn.holders.note(decision.hooks.values())
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
        return decision

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
            if not actor.is_live and self._actors.get(key) is actor:
                self._retire(actor, turn.now_ms, has_changed=key in turn.actors)
        self.feed.publish(turn.actors)
        self.streams.settle(turn.actors)

    def _plan_unloading(self, actor: InstanceActor, parked: RunParked) -> None:
        unload = UnloadRequested(parked.incarnation)
        if len(self._actors) > self._max_live:
            actor.post(unload)
        else:
            due_ms = self._timers.now_ms() + UNLOAD_AFTER_MS
            self._timers.schedule(due_ms, lambda: actor.post(unload))

    def _retire(self, actor: InstanceActor, decided_ms: int, *, has_changed: bool) -> None:
        """Forget an instance that has no code in memory; its stored timers wake it."""
        if has_changed:
            self._sleepers.take(actor.state, actor.armed, decided_ms)
        actor.close()
        del self._actors[actor.key]
        if has_changed and actor.stored_row is not None and actor.stored_row.expires_ms is not None:
            self._retention.watch(actor.stored_row.expires_ms)
