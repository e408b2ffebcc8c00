"""The instances in memory: how they come there, for as long as they have something to do.

The engine asks for those that a turn is about. What is looked up here is looked up between two turns, when the journal
and what is decided are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from emulator.core.evolve import fold
from emulator.core.inputs import HookRequested, RestartRequested, RunParked
from emulator.core.state import InstanceState
from emulator.domain.hooks import TokenKey, claim_step
from emulator.domain.instance import Creation, InstanceKey, scope_of
from emulator.engine.actor import InstanceActor
from emulator.engine.arrangements import Arrangements
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.recovery import readable
from emulator.engine.tokens import Holders, TokenMaker, tokens_of
from emulator.engine.turn import Batch, Claim, Inbox, Posted
from emulator.errors import InstanceNotFound, StorageError
from emulator.journal.port import Journal

log = logging.getLogger("workflow_emulator")

UNLOAD_AFTER_MS = 10_000
"""How long a parked incarnation stays in memory when there is room for it."""


class Residents:
    """The actors by the names of their instances, as many as `max_live` of them parked. `make` makes one."""

    def __init__(
        self,
        journal: Journal,
        definitions: Mapping[str, WorkflowDefinition],
        arrangements: Arrangements,
        max_live: int,
        make: Callable[[int, InstanceState, TokenMaker], InstanceActor],
    ) -> None:
        self.actors: dict[InstanceKey, InstanceActor] = {}
        self._journal = journal
        self._definitions = definitions
        self._arrangements = arrangements
        self._max_live = max_live
        self._make = make
        self._damaged: dict[InstanceKey, StorageError] = {}
        self._next_number = 1
        self._tokens = TokenMaker("")

    async def open(self) -> None:
        """Find out how new instances and tokens are numbered and made."""
        self._next_number = await self._journal.last_number() + 1
        self._tokens = TokenMaker(await self._journal.seed())

    async def prepare(self, inbox: Inbox) -> tuple[int, set[InstanceKey], Holders]:
        """Bring the instances that the inbox is about into memory, as many as are not too large together.

        Says how much of the inbox is only about those, which of the chosen new ids are taken, and who has the tokens that
        somebody wants.
        """
        self._damaged.clear()
        posted: list[Posted] = []
        tokens: set[TokenKey] = set()
        for each in inbox:
            if isinstance(each, Posted):
                posted.append(each)
            elif type(each.item) is HookRequested:
                tokens.add(TokenKey(scope_of(each.actor.key.id), each.item.hook.token))
        taken, left = await self._load(posted) if posted else (set[InstanceKey](), None)
        for each in posted:
            if isinstance(each.item, RestartRequested) and each.key in self.actors:
                tokens |= tokens_of(self.actors[each.key].state)
            elif isinstance(each.item, Batch):
                tokens |= each.item.tokens()
        ready = len(inbox) if left is None else inbox.index(left)
        return ready, taken, Holders(await self._journal.holders(list(tokens)) if tokens else {})

    def add(self, creation: Creation) -> InstanceActor:
        """Take in an instance that is being created."""
        key = creation.key
        state = InstanceState(creation, modifiers=self._arrangements.born(key))
        actor = self.actors[key] = self._make(self._next_number, state, self._tokens)
        self._next_number += 1
        return actor

    def rests(self, actor: InstanceActor, parked: RunParked) -> None:
        """Plan when code that rests leaves memory, if it does."""
        replays = self._arrangements.replays
        if replays == "none":
            return
        if len(self.actors) > self._max_live:
            actor.unload(parked, after_ms=0)
        elif replays == "all" or actor.is_worth_replaying:
            actor.unload(parked, after_ms=UNLOAD_AFTER_MS)

    def identified(self, creations: Sequence[Creation], claims: Sequence[Claim]) -> Sequence[Claim]:
        """The claims, with ids for their hooks."""
        return [self._identified(*each) for each in zip(creations, claims, strict=True)]

    def _identified(self, creation: Creation, claim: Claim) -> Claim:
        if claim.hook is None:
            return claim
        hook_id = self._tokens.hook_id(creation, claim_step(claim.hook.token))
        return claim._replace(hook=replace(claim.hook, hook_id=hook_id))

    def forget(self, keys: Iterable[InstanceKey]) -> None:
        """They have gone from the journal, perhaps while something about them was put off: then they are not found."""
        for key in keys:
            actor = self.actors.pop(key, None)
            if actor is not None:
                actor.close()

    def missing(self, key: InstanceKey) -> InstanceNotFound | StorageError:
        """Why an instance is not here, after `load`."""
        return self._damaged.get(key) or InstanceNotFound.named(key.id)

    async def _load(self, inbox: list[Posted]) -> tuple[set[InstanceKey], Posted | None]:
        """Says which of the chosen new ids are taken, and what is the first about an instance that is not loaded yet."""
        missing: dict[InstanceKey, Posted] = {}
        chosen: set[InstanceKey] = set()
        for posted in inbox:
            if not isinstance(posted.item, Batch):
                if posted.key not in self.actors:
                    missing.setdefault(posted.key, posted)
            elif posted.item.may_be_taken:
                chosen.update(creation.key for creation in posted.item.creations)
        many = await self._take_in(list(missing)) if missing else 0
        chosen -= self.actors.keys()
        taken = await self._journal.existing(list(chosen)) if chosen else set[InstanceKey]()
        return taken, next(islice(missing.values(), many, None), None)

    async def _take_in(self, keys: list[InstanceKey]) -> int:
        """Load the first of these instances; says how many of the keys those are."""
        found, many = await self._journal.load_some(keys)
        for key, loaded in found.items():
            stored = readable(loaded)
            if isinstance(stored, StorageError):
                log.error("%s", stored)
                self._damaged[key] = stored
            elif key.workflow in self._definitions:
                state = fold(stored.row.creation, stored.entries)
                state.modifiers = self._arrangements.of(key)
                actor = self.actors[key] = self._make(stored.row.number, state, self._tokens)
                actor.stored_row = stored.row
        return many
