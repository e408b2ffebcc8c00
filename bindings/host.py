"""What the binding needs of whoever runs the instances: an engine in this process, or an emulator over HTTP.

`Workflow` and `WorkflowInstance` check what they are given and speak Cloudflare's language; a `Host` is what is left. So
the same calls are refused in the same words, wherever the instances run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from bindings.convert import js_dict
from emulator.core.inputs import Input
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.engine.subscription import Subscription
from emulator.errors import InstanceAlreadyExists
from emulator.projection.events import EventFilter


class NewInstance(msgspec.Struct, frozen=True):
    """An instance to create. `params` is a stored value; a retention of None means the workflow's default.

    `code` is the hash of the code that a dynamic workflow shall run.
    """

    id: str
    params: msgspec.Raw
    success_retention_ms: int | None = None
    error_retention_ms: int | None = None
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
        self, workflow: str, given: Sequence[NewInstance], *, may_be_taken: bool
    ) -> list[InstanceAlreadyExists | None]:
        """Create instances, all in one commit; for each None, or that its id is taken.

        `may_be_taken` is False for ids that were made up just now.
        """
        ...

    async def ask(self, key: InstanceKey, item: Input) -> None:
        """Let an input take effect."""
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


class EngineHost:
    """The engine of this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.codes = engine.journal.codes
        self.now_ms = engine.now_ms

    async def create(
        self, workflow: str, given: Sequence[NewInstance], *, may_be_taken: bool
    ) -> list[InstanceAlreadyExists | None]:
        """See `Host`."""
        now_ms = self._engine.now_ms()
        creations = [
            Creation(
                workflow,
                each.id,
                each.params,
                now_ms,
                success_retention_ms=each.success_retention_ms,
                error_retention_ms=each.error_retention_ms,
                code=each.code,
            )
            for each in given
        ]
        return await self._engine.create(creations, may_be_taken=may_be_taken)

    async def ask(self, key: InstanceKey, item: Input) -> None:
        """See `Host`."""
        await self._engine.ask(key, item)

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._engine.read(key, _report)

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        await self._engine.until(key, lambda state: state.is_terminal or None)

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return Subscription(self._engine, key, wanted)


def _report(state: InstanceState) -> StatusReport:
    status = InstanceStatus.RUNNING if state.status is InstanceStatus.ROLLING_BACK else state.status
    rollback = None
    if state.rollback is not None and state.rollback.outcome is not None:
        rollback = RollbackReport(state.rollback.outcome, state.rollback.failure)
    output = msgspec.Raw(b"null") if state.output is None else state.output
    return StatusReport(status.value, state.error, output, rollback)


def _error(failure: Failure | None) -> JsDict | None:
    return None if failure is None else js_dict(message=failure.message, name=failure.name)
