"""One turn of the engine: what is in the inbox, and what has been decided until it is committed and performed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import msgspec

from emulator.core.decision import Decision
from emulator.core.hooks import conflict
from emulator.core.inputs import AttemptReturned, CreateRequested, EventSent, Input
from emulator.core.state import InstanceState
from emulator.domain.entries import FACTS, Fact
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRequest, TokenKey
from emulator.domain.instance import Creation, InstanceKey, id_in_scope, scope_of
from emulator.domain.steps import StepKey
from emulator.engine.actor import InstanceActor, Said
from emulator.engine.streams import Streams
from emulator.engine.tokens import Holders
from emulator.errors import (
    EmulatorError,
    EngineStopped,
    EntityConflictError,
    HookConflictError,
    InstanceAlreadyExists,
    JournalCorrupt,
    JournalRemoved,
    StorageError,
)
from emulator.journal.port import Commit, Cut, EntryRow, TickRow, TimerRow

log = logging.getLogger("workflow_emulator")

BYTES_PER_TURN = 16 * 2**20
"""How large the values are that a turn writes, when it takes nothing more."""

Reply = asyncio.Future[Any]


def refuse(reply: Reply | None, error: Exception) -> None:
    """Tell whoever waits for the answer that there is none."""
    if reply is not None and not reply.done():
        reply.set_exception(error)


def stopped_by(error: Exception) -> EngineStopped:
    """What everybody is told when a turn has failed; the log says more, unless the reason says it all."""
    is_told = isinstance(error, StorageError)
    text = f"The engine has stopped: {error}" if is_told else "The engine has stopped."
    is_lost = isinstance(error, (JournalRemoved, JournalCorrupt))
    stopped = EngineStopped(text, hint=error.hint) if is_lost else EngineStopped(text)
    stopped.__cause__ = error
    log.critical("%s", text, exc_info=None if is_told else error)
    return stopped


class Claim(NamedTuple):
    """What an instance begins with, beside what it was created with: a token, attributes, an event in its mailbox."""

    hook: HookRequest | None = None
    attributes: dict[str, str] | None = None
    event: EventSent | None = None


class Batch(NamedTuple):
    """Instances to create in one turn, each with what it claims.

    `may_be_taken` says that somebody chose their ids. `is_whole`: if the token of one is taken, none is created.
    """

    creations: Sequence[Creation]
    claims: Sequence[Claim]
    may_be_taken: bool
    is_whole: bool

    def tokens(self) -> set[TokenKey]:
        """The tokens that it claims."""
        return {
            TokenKey(scope_of(creation.id), claim.hook.token)
            for creation, claim in zip(self.creations, self.claims, strict=True)
            if claim.hook is not None
        }


class Posted(msgspec.Struct, frozen=True):
    """Something in the inbox: for whom, what, and who waits for the answer.

    `item` is an input; or a question about the state, answered in its turn; or instances to create.
    """

    key: InstanceKey
    item: Input | Callable[[InstanceState], object] | Batch
    reply: Reply | None = None


Inbox = list[Posted | Said]


class Turn:
    """What one turn has decided, until it is committed and performed."""

    def __init__(self, now_ms: int, taken: set[InstanceKey], holders: Holders) -> None:
        self.now_ms = now_ms
        self.taken = taken
        self.holders = holders
        self.decided: list[tuple[InstanceActor, Input, Decision]] = []
        self.answers: list[tuple[Reply, object]] = []
        self.refusals: list[tuple[Reply | None, EmulatorError]] = []
        self.size_bytes = 0
        self.is_full = False
        self.actors: dict[InstanceKey, InstanceActor] = {}
        self.looked_at: dict[InstanceKey, InstanceActor] = {}
        self.created: set[InstanceKey] = set()
        self.barred: set[InstanceKey] = set()
        self.moving: set[InstanceKey] = set()
        self.deferred: Inbox = []
        self.ended: list[InstanceActor] = []

    def add(self, actor: InstanceActor, item: Input, decision: Decision) -> None:
        """Take in what has been decided. Once the turn is full, the rest waits for the next one: so the memory that a commit
        takes does not grow with the inbox.
        """
        self.decided.append((actor, item, decision))
        self.actors[actor.key] = actor
        if type(item) is CreateRequested:
            self.size_bytes += len(actor.state.creation.params)
        for _, entry in decision.entries:
            if type(entry.fact) in _LARGE:
                self.size_bytes += _size_bytes(entry.fact)
        self.is_full = self.size_bytes > BYTES_PER_TURN

    def admits(self, posted: Posted, batch: Batch) -> bool:
        """Whether this turn may create a batch: it waits for the next one behind a barrier, and may be refused as a whole."""
        if self.barred:
            keys = [creation.key for creation in batch.creations]
            if not self.barred.isdisjoint(keys):
                self.barred.update(keys)
                self.deferred.append(posted)
                return False
        refusal = self.lost_token(batch) if batch.is_whole else None
        if refusal is not None:
            self.refusals.append((posted.reply, refusal))
        return refusal is None

    def conflict(
        self, creation: Creation, hook: HookRequest | None, present: Container[InstanceKey] = ()
    ) -> EntityConflictError | None:
        """Why an instance cannot be created, if it cannot: its token is held by another, or its id is taken."""
        if hook is not None:
            holder = self.holders.of(TokenKey(scope_of(creation.id), hook.token))
            lost = conflict(hook.token, holder, self.now_ms)
            if lost is not None:
                return lost
        key = creation.key
        if key not in present and key not in self.taken:
            return None
        return InstanceAlreadyExists(
            f'(instance.already_exists) Workflow instance with id "{creation.id}" already exists'
        )

    def lost_token(self, batch: Batch) -> HookConflictError | None:
        """Why a batch cannot have all its tokens, if it cannot: one is taken, or claimed twice."""
        claimed: dict[TokenKey, Creation] = {}
        for index, (creation, claim) in enumerate(zip(batch.creations, batch.claims, strict=True)):
            hook = claim.hook
            if hook is None:
                continue
            token = TokenKey(scope_of(creation.id), hook.token)
            refusal = conflict(hook.token, self.holders.of(token), self.now_ms)
            if refusal is None and token in claimed:
                refusal = HookConflictError(
                    token=hook.token,
                    conflicting_run_id=id_in_scope(claimed[token].id),
                    conflicting_workflow=claimed[token].workflow,
                )
            if refusal is not None:
                refusal.index = index
                return refusal
            claimed[token] = creation
        return None

    def tell(self, ended: Callable[[InstanceState], None] | None) -> None:
        """Answer those who wait, and say which instances have ended."""
        if ended is not None:
            for actor in self.ended:
                ended(actor.state)
        for reply, answer in self.answers:
            if not reply.done():
                reply.set_result(answer)
        for reply, error in self.refusals:
            refuse(reply, error)

    def commit(self, streams: Streams) -> Commit | None:
        """Everything decided, and what is to be written to streams, as one transaction; None if there is nothing."""
        commit = Commit()
        timers: dict[int, dict[StepKey, int | None]] = {}
        for actor, _, decision in self.decided:
            number = actor.number
            if decision.deleted:
                commit.deleted.append(number)
            if decision.cut_made:
                commit.cuts.append(Cut(number, decision.cut_steps))
            commit.entries += [EntryRow(number, seq, entry) for seq, entry in decision.entries]
            if decision.taken:
                commit.taken += [(number, seq) for seq in decision.taken]
            if decision.hooks:
                commit.hooks.update(decision.hooks)
            if decision.timers_cleared:
                commit.disarmed.append((number, None))
                timers[number] = dict(decision.timers)
            elif decision.timers:
                timers.setdefault(number, {}).update(decision.timers)
        for number, changes in timers.items():
            for step, due_ms in changes.items():
                if due_ms is None:
                    commit.disarmed.append((number, step))
                else:
                    commit.armed.append(TimerRow(number, step, due_ms))
        self._add_rows(commit)
        if streams.is_busy:
            commit.streams = streams.take(commit, self._results())
        return commit if commit != _NOTHING else None

    def _results(self) -> set[tuple[int, StepKey]]:
        """The steps (of the instances of these numbers) that get their results."""
        return {
            (actor.number, item.step)
            for actor, item, decision in self.decided
            if isinstance(item, AttemptReturned) and decision.entries
        }

    def _add_rows(self, commit: Commit) -> None:
        for key, actor in self.actors.items():
            if not actor.has_new_row():
                continue
            row = actor.row()
            if row.ended_ms is not None:
                self.ended.append(actor)
            if key in self.created:
                commit.created.append(row)
                if (schedule := row.creation.schedule) is not None:
                    tick = TickRow(key.workflow, schedule.cron, schedule.scheduled_ms)
                    commit.ticks.append(tick)
            elif actor.number not in commit.deleted:
                commit.updated[actor.number] = row
            actor.stored_row = row


def _size_bytes(fact: Fact) -> int:
    size_bytes = 0
    for name in _LARGE[type(fact)]:
        value: msgspec.Raw | Failure | None = getattr(fact, name)
        if value is not None:
            size_bytes += len(value.message if isinstance(value, Failure) else value)
    return size_bytes


_LARGE = {
    fact: large
    for fact in FACTS.values()
    if (large := {"result", "payload", "metadata", "error"}.intersection(fact.__struct_fields__))
}
"""The fields that can be large, of each fact that has such."""

_NOTHING = Commit()
