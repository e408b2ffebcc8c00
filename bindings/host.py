"""What the binding needs of whoever runs the instances: an engine in this process, or an emulator over HTTP.

`Workflow` and `WorkflowInstance` check what they are given and speak Cloudflare's language; a `Host` is what is left. So
the same calls are refused in the same words, wherever the instances run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from bindings import schemas
from bindings.convert import js_dict
from emulator.core.inputs import Input
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord, HookRequest, TokenKey
from emulator.domain.instance import Creation, InstanceKey, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.hooks import holder, resume
from emulator.engine.reading import StreamReader, list_streams, stream_info
from emulator.engine.subscription import Subscription
from emulator.engine.turn import Claim
from emulator.errors import EntityConflictError, InvalidHook, InvalidInput
from emulator.projection.events import EventFilter

WEBHOOK_PATH: Final = "/.well-known/workflow/v1/webhook/"
"""Where the addresses of webhooks begin; the token follows, behind its scope if it has one (Workflow SDK: webhooks)."""


class NewInstance(msgspec.Struct, frozen=True):
    """An instance to create. `params` is a stored value; a retention of None means the workflow's default.

    `hook` is the token that it claims; `parent` names the step of a run that creates it (see `domain.instance.Creation`);
    `code` is the hash of the code that a dynamic workflow shall run.
    """

    id: str
    params: msgspec.Raw
    success_retention_ms: int | None = None
    error_retention_ms: int | None = None
    hook: HookRequest | None = None
    attributes: dict[str, str] | None = None
    parent: str | None = None
    code: str | None = None


class RollbackReport(msgspec.Struct, frozen=True):
    """How a rollback ended: "complete", or "failed" with an error."""

    outcome: str
    error: Failure | None


class StatusReport(msgspec.Struct, frozen=True):
    """How an instance is. `output` is a stored value, null unless `run()` has returned one."""

    status: str
    error: Failure | None
    output: msgspec.Raw
    rollback: RollbackReport | None
    attributes: dict[str, str] = {}
    parent: str | None = None

    def shown(self) -> JsDict:
        """The answer of `status()`."""
        rollback = None
        if self.rollback is not None:
            rollback = js_dict(outcome=self.rollback.outcome, error=_error(self.rollback.error))
        return js_dict(
            status=self.status,
            error=_error(self.error),
            output=values.decode(self.output),
            rollback=rollback,
        )


class StreamReport(msgspec.Struct, frozen=True, rename="camel"):
    """A stream: the index of its last chunk (-1: it has none), and whether no more can come."""

    namespace: str
    tail_index: int
    done: bool

    def shown(self) -> JsDict:
        """The answer of `stream_info()`."""
        return js_dict(namespace=self.namespace, tailIndex=self.tail_index, done=self.done)


class Chunk(msgspec.Struct, frozen=True):
    """A chunk of a stream, a stored value, and the step and attempt that wrote it (None: `run()` itself)."""

    index: int
    value: msgspec.Raw
    step: str | None
    attempt: int | None


class ChunkSource(Protocol):
    """Where a reader of a stream gets its chunks from."""

    async def more(self) -> list[Chunk]:
        """Wait for chunks; none at all is the end. Nothing is lost when the wait is cancelled."""
        ...

    async def close(self) -> None:
        """Give up what is held. Idempotent."""
        ...


class EventSource(Protocol):
    """Where a subscription gets its events from."""

    async def open(self) -> None:
        """Check that there is something to follow."""
        ...

    async def more(self) -> list[dict[str, Any]]:
        """Wait for events; none at all is the end. Nothing is lost when the wait is cancelled."""
        ...

    async def close(self) -> None:
        """Give up what is held. Idempotent."""
        ...


class Host(Protocol):
    """Whoever runs the instances. What is done is committed before a call returns."""

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """Create instances, all in one commit; for each None, or that its token or its id is taken.

        `may_be_taken` is False for ids that were made up just now. With `is_whole` a token that is taken refuses all.
        """
        ...

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """Let an input take effect; what the rules answer, if anything."""
        ...

    async def find(self, instance_id: str) -> InstanceKey | None:
        """The instance of this id, in whichever workflow.

        Raises:
            InvalidInput: several workflows have one.
        """
        ...

    async def hook(self, token: TokenKey) -> HookRecord:
        """The hook that holds a token.

        Raises:
            HookNotFoundError: nobody holds it.
        """
        ...

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,
    ) -> HookRecord:
        """Send a payload to whoever holds a token: see `emulator.engine.hooks`.

        It is checked against the hook's schema, unless it was already: `checked_by` is the name of one.

        Raises:
            TypeValidationError: it does not match the schema; nothing is stored.
            InvalidHook: it is a webhook, whose payloads are requests.
        """
        ...

    async def now_ms(self) -> int:
        """The time."""
        ...

    def webhook_url(self, token: str) -> str:
        """The address of the webhook with a token; only its path if nobody serves it."""
        ...

    async def status(self, key: InstanceKey) -> StatusReport:
        """How an instance is."""
        ...

    async def ended(self, key: InstanceKey) -> None:
        """Wait until an instance has ended."""
        ...

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """The events of an instance."""
        ...

    async def streams(self, key: InstanceKey) -> list[StreamReport]:
        """The streams of an instance."""
        ...

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:
        """How a stream is."""
        ...

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:
        """The chunks of a stream from an index on; a negative one counts from the end."""
        ...


class EngineHost:
    """The engine of this process."""

    def __init__(self, engine: Engine, base_url: str = "") -> None:
        self._engine = engine
        self._base_url = base_url
        self.codes = engine.journal.codes
        self.time_ms = engine.now_ms

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """See `Host`."""
        return await create_instances(
            self._engine, workflow, given, may_be_taken=may_be_taken, is_whole=is_whole
        )

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """See `Host`."""
        return await self._engine.ask(key, item)

    async def find(self, instance_id: str) -> InstanceKey | None:
        """See `Host`."""
        keys = [InstanceKey(workflow, instance_id) for workflow in self._engine.definitions]
        found = await self._engine.journal.existing(keys)
        if len(found) > 1:
            names = ", ".join(sorted(key.workflow for key in found))
            raise InvalidInput(
                f'Several workflows have a run "{instance_id}": {names}. Say which is meant.'
            )
        return next(iter(found), None)

    async def hook(self, token: TokenKey) -> HookRecord:
        """See `Host`."""
        return await holder(self._engine, token)

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,
    ) -> HookRecord:
        """See `Host`."""
        hook = await holder(self._engine, token)
        if hook.is_webhook:
            raise InvalidHook(f'"{token.token}" is a webhook: it takes requests to its address.')
        named = hook.schema
        if named not in (None, checked_by) and (schema := schemas.find(named)) is not None:
            checked = schemas.checked(schema, values.decode(payload))
            payload = values.encode(checked, f'the payload for the hook "{token.token}"')
        return await resume(self._engine, token, payload, resume_id)

    async def now_ms(self) -> int:
        """See `Host`."""
        return self._engine.now_ms()

    def webhook_url(self, token: str) -> str:
        """See `Host`."""
        return self._base_url + WEBHOOK_PATH + quote(token, safe="")

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._engine.read(key, _report)

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._engine.until(key, lambda state: state.is_terminal or None)

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return Subscription(self._engine, key, wanted)

    async def streams(self, key: InstanceKey) -> list[StreamReport]:
        """See `Host`."""
        return [StreamReport(*each) for each in await list_streams(self._engine, key)]

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:
        """See `Host`."""
        return StreamReport(*await stream_info(self._engine, key, namespace))

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:
        """See `Host`."""
        return EngineChunks(StreamReader(self._engine, key, namespace, start_index))


class EngineChunks:
    """The chunks that a reader of this process reads."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    async def more(self) -> list[Chunk]:
        """See `ChunkSource`."""
        return [
            Chunk(row.place, row.value, row.step, row.attempt) for row in await self._reader.more()
        ]

    async def close(self) -> None:
        """Do nothing: a reader that is not asked holds nothing."""


async def create_instances(
    engine: Engine,
    workflow: str,
    given: Sequence[NewInstance],
    source: TriggerSource = TriggerSource.BINDING,
    *,
    may_be_taken: bool = True,
    is_whole: bool = False,
) -> list[EntityConflictError | None]:
    """Create instances in an engine: see `Host.create`."""
    now_ms = engine.now_ms()
    creations = [
        Creation(
            workflow,
            each.id,
            each.params,
            now_ms,
            source,
            success_retention_ms=each.success_retention_ms,
            error_retention_ms=each.error_retention_ms,
            parent=each.parent,
            code=each.code,
        )
        for each in given
    ]
    claims = [Claim(each.hook, each.attributes) for each in given]
    return await engine.create(
        creations, may_be_taken=may_be_taken, claims=claims, is_whole=is_whole
    )


def _report(state: InstanceState) -> StatusReport:
    status = InstanceStatus.RUNNING if state.status is InstanceStatus.ROLLING_BACK else state.status
    rollback = None
    if state.rollback is not None and state.rollback.outcome is not None:
        rollback = RollbackReport(state.rollback.outcome, state.rollback.failure)
    output = msgspec.Raw(b"null") if state.output is None else state.output
    attributes = dict(state.attributes)
    parent = state.creation.parent
    return StatusReport(status.value, state.error, output, rollback, attributes, parent)


def _error(failure: Failure | None) -> JsDict | None:
    return None if failure is None else js_dict(message=failure.message, name=failure.name)
