"""What people do to workflows and instances over HTTP: one implementation behind both APIs.

The two APIs differ in how they are asked and how they answer; what happens is the same, and is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from uuid import NAMESPACE_URL, uuid5

import msgspec

from bindings.host import create_instances
from bindings.workflow import instance_asked_for
from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    Input,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
)
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.instance import InstanceKey, TriggerSource
from emulator.domain.names import is_reserved_id
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.errors import (
    CannotTerminate,
    EntityConflictError,
    InstanceFinished,
    InstanceNotFound,
    InvalidInstanceId,
    JournalCorrupt,
)
from emulator.journal.port import InstanceQuery, InstanceRow, StoredInstance
from emulator.projection.detail import InstanceDetail, detail
from emulator.projection.events import EventLog
from emulator.projection.rendering import Json
from emulator.timing.clock import Clock, SystemClock
from wrangler_compat.rest.requests import StatusChange

ROLLBACK_PATIENCE_S = 30.0
"""How long an answer waits for the rollback that comes with a termination."""

_PAGE_ROWS = 500

T = TypeVar("T")


class BatchDeleted(NamedTuple):
    """What became of each id, in the order given: deleted, or not there."""

    deleted: list[str]
    missing: list[str]


class CreatedInstance(NamedTuple):
    """How an instance is that was created just now, and the hook that it was given: `{"hookId", "token"}`."""

    status: InstanceStatus
    hook: dict[str, str] | None


class WorkerInfo(NamedTuple):
    """What is told of the Worker: its name, the bindings of its workflows by their names, its cron triggers.

    `scope` identifies the project to a browser, and does not show where it is; `scripts` are those of the workflows that
    it only binds, by their names.
    """

    name: str = ""
    bindings: Mapping[str, str] = MappingProxyType({})
    crons: tuple[str, ...] = ()
    scope: str = ""
    scripts: Mapping[str, str] = MappingProxyType({})


class Operations:
    """The operations of both APIs on the engine's workflows.

    `since_ms` is when the workflows are said to have been made: there is no record of that.
    """

    def __init__(
        self,
        engine: Engine,
        since_ms: int,
        worker: WorkerInfo | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.engine = engine
        self.since_ms = since_ms
        self.clock = clock or SystemClock()
        self.worker = worker or WorkerInfo()
        self._terminating: set[str] = set()

    # workflows

    def workflows(self) -> list[WorkflowDefinition]:
        """Every workflow, in the order of the configuration."""
        return list(self.engine.definitions.values())

    async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
        """How many instances there are by status; statuses without any are left out."""
        return await self.engine.journal.status_counts(self.engine.definition(workflow).name)

    async def delete_workflow(self, workflow: str) -> None:
        """Remove every instance. The workflow stays: it is in the configuration."""
        async for rows in self._pages(InstanceQuery(self.engine.definition(workflow).name)):
            await self._for_each(rows, DeleteRequested(), InstanceNotFound)

    async def terminate_all(self, workflow: str, status: InstanceStatus | None) -> bool:
        """End every unfinished instance, or those in one status; False if that is under way already."""
        name = self.engine.definition(workflow).name
        if name in self._terminating:
            return False
        self._terminating.add(name)
        try:
            async for rows in self._pages(InstanceQuery(name, status)):
                unfinished = [row for row in rows if row.status not in TERMINAL]
                await self._for_each(
                    unfinished, TerminateRequested(), InstanceNotFound, CannotTerminate
                )
        finally:
            self._terminating.discard(name)
        return True

    # instances

    async def page(self, query: InstanceQuery) -> tuple[list[InstanceRow], int]:
        """A page of a listing, and how many instances the query matches.

        Raises:
            WorkflowNotFound: there is no such workflow.
        """
        self.engine.definition(query.workflow)
        journal = self.engine.journal
        return await journal.rows(query), await journal.count(query)

    async def create(self, workflow: str, options: Mapping[str, Any]) -> str:
        """Create an instance, with options of the binding's `create`; its id.

        Raises:
            HookConflictError: the token is taken.
            InstanceAlreadyExists: the id is taken.
        """
        [refusal] = await self._create(workflow, [options], is_whole=False)
        if not isinstance(refusal, str):
            raise refusal
        return refusal

    async def create_batch(self, workflow: str, given: Sequence[Mapping[str, Any]]) -> list[str]:
        """Create instances, all of them or none; the ids of those whose id was free.

        Raises:
            HookConflictError: a token is taken, or claimed twice; nothing is created.
        """
        made = await self._create(workflow, given, is_whole=True)
        return [each for each in made if isinstance(each, str)]

    async def created(self, key: InstanceKey) -> CreatedInstance:
        """What is told of an instance that was created just now.

        Raises:
            InstanceNotFound: it is gone already.
        """
        return await self.engine.read(key, _created)

    async def detail(self, key: InstanceKey) -> InstanceDetail:
        """Everything there is to see of an instance.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        stored = await self._stored(key)
        return detail(stored.row.creation, stored.row.status, stored.entries)

    async def events(self, key: InstanceKey) -> list[Json]:
        """The events of an instance from its beginning, as subscriptions have them.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        stored = await self._stored(key)
        log = EventLog(stored.row.creation)
        return [event for seq, entry in stored.entries if (event := log.event(seq, entry))]

    async def status(self, key: InstanceKey) -> InstanceStatus:
        """How an instance is.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        return await self.engine.read(key, lambda state: state.status)

    async def change_status(self, key: InstanceKey, change: StatusChange) -> InstanceStatus:
        """Pause, resume, restart or terminate; the status after that, after the rollback if one was asked for.

        Raises:
            CannotTerminate: it has ended.
            StepNotFound: the step to restart from is not in its history.
        """
        await self.engine.ask(key, _input_of(change))
        if change.rollback:
            try:
                return await asyncio.wait_for(
                    self.engine.until(key, _ended_status), ROLLBACK_PATIENCE_S
                )
            except TimeoutError:
                pass
        return await self.status(key)

    async def send_event(
        self, key: InstanceKey, event_type: str, payload: msgspec.Raw | None
    ) -> None:
        """Send an event. To a finished instance nothing happens, and that is no error (as on Cloudflare's APIs)."""
        try:
            await self.engine.ask(key, EventSent(event_type, payload))
        except InstanceFinished:
            return

    async def delete(self, key: InstanceKey) -> None:
        """Remove an instance, whatever it does.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        await self.engine.ask(key, DeleteRequested())

    async def delete_batch(self, workflow: str, ids: Sequence[str]) -> BatchDeleted:
        """Remove instances. An id that is given twice is answered twice."""
        self.engine.definition(workflow)
        distinct = dict.fromkeys(ids)
        answers = await asyncio.gather(
            *(
                _unless(InstanceNotFound, self.delete(InstanceKey(workflow, each)))
                for each in distinct
            )
        )
        gone = dict(zip(distinct, answers, strict=True))
        return BatchDeleted(
            [each for each in ids if gone[each]],
            [each for each in ids if not gone[each]],
        )

    async def _stored(self, key: InstanceKey) -> StoredInstance:
        self.engine.definition(key.workflow)
        stored = (await self.engine.journal.load([key])).get(key)
        if stored is None:
            raise InstanceNotFound.named(key.id)
        if isinstance(stored, JournalCorrupt):
            raise stored
        return stored

    async def _create(
        self, workflow: str, given: Sequence[Mapping[str, Any]], *, is_whole: bool
    ) -> list[str | EntityConflictError]:
        now_ms = self.engine.now_ms()
        new = [instance_asked_for(each, now_ms) for each in given]
        if any(is_reserved_id(each.id) for each in new):
            # They are parts of paths here, or look like ids that Cloudflare makes up.
            raise InvalidInstanceId("(instance.invalid_id) Instance ID is invalid: it is reserved")
        refusals = await create_instances(
            self.engine, workflow, new, TriggerSource.API, is_whole=is_whole
        )
        return [refusal or made.id for made, refusal in zip(new, refusals, strict=True)]

    async def _pages(self, query: InstanceQuery) -> AsyncIterator[list[InstanceRow]]:
        query = query._replace(limit=_PAGE_ROWS)
        while rows := await self.engine.journal.rows(query):
            yield rows
            query = query._replace(after=rows[-1].number)

    async def _for_each(
        self, rows: Sequence[InstanceRow], item: Input, *harmless: type[Exception]
    ) -> None:
        await asyncio.gather(
            *(_unless(harmless, self.engine.ask(row.creation.key, item)) for row in rows)
        )


def encode_payload(body: object) -> msgspec.Raw | None:
    """The payload of an event, stored; None for no body at all."""
    return None if body is msgspec.UNSET else values.encode(body, "the payload of the event")


def workflow_id(definition: WorkflowDefinition) -> str:
    """The identity of a workflow: the same at every start."""
    return str(uuid5(NAMESPACE_URL, f"workflow:{definition.script_name}/{definition.name}"))


def version_id(definition: WorkflowDefinition) -> str:
    """The identity of the one version of a workflow that there is here."""
    return str(uuid5(NAMESPACE_URL, f"version:{definition.script_name}/{definition.class_name}"))


async def _unless(
    harmless: type[Exception] | tuple[type[Exception], ...], work: Awaitable[None]
) -> bool:
    """Whether the work was done; False if it was refused in a harmless way."""
    try:
        await work
    except harmless:
        return False
    return True


def _created(state: InstanceState) -> CreatedInstance:
    claimed = [hook for hook in state.hooks.values() if hook.at_start]
    hook = {"hookId": claimed[0].hook_id, "token": claimed[0].token} if claimed else None
    return CreatedInstance(state.status, hook)


def _ended_status(state: InstanceState) -> InstanceStatus | None:
    return state.status if state.is_terminal else None


def _input_of(change: StatusChange) -> Input:
    target = change.from_
    step = None if target is None else StepKey(StepKind(target.kind), target.name, target.count)
    inputs: dict[str, Callable[[], Input]] = {
        "pause": PauseRequested,
        "resume": ResumeRequested,
        "terminate": lambda: TerminateRequested(change.rollback, change.reason),
        "restart": lambda: RestartRequested(step),
    }
    return inputs[change.status]()
