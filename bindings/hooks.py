"""Hooks: a token that a run holds, and payloads that reach it through that token (Workflow SDK: hooks).

In a run:

    updates = step.create_hook(token=f"order:{order_id}")
    async for update in updates: ...

Outside: `await env.ORDERS.resume_hook(token, payload)`, or the functions here, which mean the project that runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from bindings import schemas
from bindings.ambient import (
    current_host,
    current_scope,
    durable,
    refuse_in_body,
    refuse_outside_body,
)
from bindings.hints import Hints
from bindings.host import Host
from bindings.run import Run
from emulator.domain import values
from emulator.domain.duration import duration_ms
from emulator.domain.hooks import HookRecord, TokenKey, check_resume_id, check_token
from emulator.domain.instance import InstanceKey, id_in_scope
from emulator.domain.limits import MAX_WAIT_TIMEOUT_MS
from emulator.engine.steps import OpenHook
from emulator.errors import HookDisposedError, InvalidDuration

_hints = Hints()
"""Of the process. They do not name the token, which may be a secret."""


class Hook:
    """A hook that `run()` has opened.

    `await hook` takes the next payload, `async for` one after the other, in the order of their arrival; none is lost when
    an await is cancelled. Another run may hold the token: then both raise `HookConflictError`, and `get_conflict()` gives
    that run. After `dispose()` an await takes what has arrived, and then raises `HookDisposedError`; iteration ends.
    """

    def __init__(self, hook: OpenHook, host: Host | None, schema: Any = None) -> None:
        self._hook = hook
        self._host = host
        self._schema = schema

    def __repr__(self) -> str:
        return f"<Hook {self.token}>"

    @property
    def token(self) -> str:
        """Its token."""
        return self._hook.token

    @property
    def hook_id(self) -> str:
        """Its id."""
        return self._hook.hook_id

    async def get_conflict(self) -> Run | None:
        """The run that holds the token, if another one did when this hook was registered; None: this one holds it.

        The answer is always the same. The other run may have ended since, or have been over all along and only retain
        the token.
        """
        owner = await self._hook.owner()
        if owner is None:
            return None
        return Run(self._host, InstanceKey(owner.workflow, owner.instance_id))

    async def receive(self, *, timeout: Any = None) -> Any:
        """Take the next payload; without a `timeout` (a duration) wait for ever.

        Raises:
            HookConflictError: another run holds the token.
            HookDisposedError: it has been disposed of, and nothing is left to take.
            WorkflowTimeoutError: none came in time.
            InvalidDuration: the timeout is no duration, negative, or over 365 days.
        """
        timeout_ms = None
        if timeout is not None:
            what = f'the timeout of hook "{self.token}"'
            timeout_ms = duration_ms(timeout, what=what, maximum_ms=MAX_WAIT_TIMEOUT_MS)
            if timeout_ms < 0:
                raise InvalidDuration(f"{what} is {timeout!r}; it must not be negative.")
            _hints.duration(f"receive(timeout={timeout!r}) of a hook", timeout)
        refuse_outside_body("Waiting for a hook")
        return self._revived(await self._hook.receive(timeout_ms))

    def _revived(self, payload: object) -> Any:
        return schemas.revived(self._schema, payload)

    def dispose(self) -> None:
        """Give the token up: with the next thing that `run()` asks for, others can take it. Idempotent."""
        self._hook.dispose()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.receive().__await__()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        # No generator: that would be over when one of its waits is cancelled.
        if self._hook.is_disposed:
            raise StopAsyncIteration
        try:
            return await self.receive()
        except HookDisposedError:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.dispose()

    getConflict = get_conflict  # noqa: N815 - the Workflow SDK's spelling


@dataclass(frozen=True)
class HookInfo:
    """A hook as it is seen from outside. `retain_until` is until when its token stays taken at least."""

    hook_id: str
    token: str
    run_id: str
    workflow_name: str
    created_at: datetime
    metadata: Any
    is_webhook: bool
    retain_until: datetime | None

    @classmethod
    def of(cls, record: HookRecord) -> HookInfo:
        """What is shown of a record."""
        until_ms = record.retain_until_ms
        metadata = values.decode(record.metadata)
        return cls(
            record.hook_id,
            record.token,
            id_in_scope(record.instance_id),
            record.workflow,
            datetime.fromtimestamp(record.created_ms / 1000, UTC),
            metadata["metadata"] if record.is_webhook else metadata,
            record.is_webhook,
            None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC),
        )


async def resume_hook_of(
    host: Host,
    scope: str,
    given: object,
    payload: object,
    resume_id: str | None,
    checked_by: str | None = None,
) -> HookInfo:
    """Send a payload to whoever holds a token in a scope: see `Workflow.resume_hook`.

    `checked_by` is the name of the schema that the payload has been checked against. The hook's own is checked here, or else
    where the instance runs, which has its class.
    """
    refuse_in_body("resume_hook()")
    token = _token(given)
    if resume_id is not None:
        check_resume_id(resume_id)
    key = TokenKey(scope, token)
    named = (await host.hook(key)).schema
    if named not in (None, checked_by) and (schema := schemas.find(named)) is not None:
        payload, checked_by = schemas.checked(schema, payload), named
    stored = values.encode(payload, f'the payload for the hook "{token}"')
    return HookInfo.of(await host.resume_hook(key, stored, resume_id, checked_by))


async def hook_of(host: Host, scope: str, token: object) -> HookInfo:
    """Look a token up: see `Workflow.get_hook_by_token`."""
    return HookInfo.of(await host.hook(TokenKey(scope, _token(token))))


def _token(given: object) -> str:
    return given.token if isinstance(given, (Hook, HookInfo)) else check_token(given)


async def resume_hook(
    token: str | Hook | HookInfo, payload: Any = None, *, resume_id: str | None = None
) -> HookInfo:
    """Send a payload to the run that holds a token, in the project that runs: see `Workflow.resume_hook`."""
    return await resume_hook_of(
        current_host("resume_hook()"), current_scope(), token, payload, resume_id
    )


async def get_hook_by_token(token: str) -> HookInfo:
    """The hook that holds a token, in the project that runs: see `Workflow.get_hook_by_token`."""
    host, scope = current_host("get_hook_by_token()"), current_scope()
    return await durable_lookup(host, scope, token)


async def durable_lookup(host: Host, scope: str, token: object) -> HookInfo:
    """Look a token up; in the body of a `run()` once."""

    async def look() -> dict[str, Any]:
        return vars(await hook_of(host, scope, token))

    return HookInfo(**await durable("hook.get", look))


async def _resume_checked(
    schema: Any, token: str | Hook | HookInfo, payload: object, resume_id: str | None
) -> HookInfo:
    host, scope = current_host("resume()"), current_scope()
    checked = schemas.checked(schema, payload)
    name = schemas.name_of(schema)
    return await resume_hook_of(host, scope, token, checked, resume_id, checked_by=name)


class DefinedHook:
    """A kind of hook whose payloads have a schema: `define_hook(schema=Approval)`."""

    def __init__(self, schema: Any) -> None:
        schemas.name_of(schema)
        self._schema = schema

    def create(self, step: Any, name: str | None = None, **options: Any) -> Hook:
        """Open one in a run: as `step.create_hook`, with this schema."""
        return step.create_hook(name, schema=self._schema, **options)

    async def resume(
        self, token: str | Hook | HookInfo, payload: Any, *, resume_id: str | None = None
    ) -> HookInfo:
        """Check a payload, and send it to the run that holds the token.

        Raises:
            TypeValidationError: it does not match the schema; nothing is stored.
            HookNotFoundError: nobody takes payloads for the token.
        """
        return await _resume_checked(self._schema, token, payload, resume_id)


def define_hook(*, schema: Any) -> DefinedHook:
    """Define a kind of hook. `schema` is a dataclass, a pydantic model, or another class that msgspec can check."""
    return DefinedHook(schema)


class BaseHook:
    """A hook as a class: subclass it as a dataclass, or beside pydantic's `BaseModel`, and its objects are the payloads.

    @dataclass
    class Approval(BaseHook):
        approved: bool

    approval = await Approval.wait(step, token="document:1")     # in a run
    await Approval(approved=True).resume("document:1")            # outside
    """

    @classmethod
    def wait(cls, step: Any, name: str | None = None, **options: Any) -> Hook:
        """Open a hook whose payloads are objects of this class: as `step.create_hook`."""
        return step.create_hook(name, schema=cls, **options)

    async def resume(
        self, token: str | Hook | HookInfo, *, resume_id: str | None = None
    ) -> HookInfo:
        """Send this object to the run that holds the token."""
        return await _resume_checked(type(self), token, self, resume_id)
