"""`WorkflowInstance`: a handle to one instance, as Cloudflare's binding gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from bindings.convert import js_dict, options
from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
)
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.failure import Failure
from emulator.domain.instance import InstanceKey
from emulator.domain.names import check_event_type
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.errors import InvalidInput

_NO_PAYLOAD = object()


class WorkflowInstance:
    """A handle. Every method but `status` is committed before it returns (Cloudflare: Workers API, WorkflowInstance).

    All raise `InstanceNotFound` once the instance is gone.
    """

    def __init__(self, engine: Engine, key: InstanceKey) -> None:
        self._engine = engine
        self._key = key

    @property
    def id(self) -> str:
        """The instance's id."""
        return self._key.id

    def __repr__(self) -> str:
        return f"<WorkflowInstance {self._key.workflow}/{self._key.id}>"

    async def status(self) -> JsDict:
        """`{"status", "error", "output", "rollback"}`, all four always there.

        `error` is `{"message", "name"}` or None, `output` what `run()` returned or None, `rollback` None or
        `{"outcome": "complete" | "failed", "error"}`. A rollback under way shows as `running` (Cloudflare's binding).
        """
        return await self._engine.read(self._key, status_of)

    async def pause(self) -> None:
        """Stop after the attempts under way; nothing happens to an instance that does not run."""
        await self._engine.ask(self._key, PauseRequested())

    async def resume(self) -> None:
        """Go on after a pause; nothing happens to an instance that is not paused."""
        await self._engine.ask(self._key, ResumeRequested())

    async def terminate(
        self, options_: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> None:
        """End it. With `rollback`, its rollback handlers run first, and the call waits for them.

        Raises:
            CannotTerminate: it has ended.
        """
        given = options(options_, keywords, {"rollback": "rollback"}, "terminate()")
        rollback = given.get("rollback") or False
        if not isinstance(rollback, bool):
            raise InvalidInput(f"(body) rollback must be true or false, not {rollback!r}")
        await self._engine.ask(self._key, TerminateRequested(rollback))
        if rollback:
            await self._engine.until(self._key, lambda state: state.is_terminal or None)

    async def restart(self, options_: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Run it again under the same id and with the same params, whatever its status.

        With `from` (as a keyword `from_`), `{"name", "count": 1, "type": "do" | "sleep" | "waitForEvent"}`, results of
        steps that started before that step are kept. Events that were not taken are dropped.

        Raises:
            StepNotFound: there is no such step in its history.
        """
        given = options(options_, keywords, {"from": "from_", "from_": "from_"}, "restart()")
        target = given.get("from_")
        step = None if target is None else _step_key(target)
        await self._engine.ask(self._key, RestartRequested(step))

    async def delete(self) -> None:
        """Remove it, whatever it does; no rollback handler runs, and its id is free again."""
        await self._engine.ask(self._key, DeleteRequested())

    async def send_event(self, event: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Send an event: `type`, and a `payload` of at most 1 MiB that need not be given.

        It is kept until a `wait_for_event` of the type takes it; events of one type are taken in the order of sending.

        Raises:
            InvalidEventType: the type is missing or not allowed.
            InstanceFinished: the instance has ended.
            SerializationError: the payload cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: it is over 1 MiB.
        """
        given = options(event, keywords, {"type": "type", "payload": "payload"}, "send_event()")
        event_type = check_event_type(given.get("type"))
        payload = given.get("payload", _NO_PAYLOAD)
        stored = (
            None
            if payload is _NO_PAYLOAD
            else values.encode(payload, f'the payload of event "{event_type}"')
        )
        await self._engine.ask(self._key, EventSent(event_type, stored))

    sendEvent = send_event  # noqa: N815 - Cloudflare's JavaScript spelling


def status_of(state: InstanceState) -> JsDict:
    """The answer of `status()`."""
    status = InstanceStatus.RUNNING if state.status is InstanceStatus.ROLLING_BACK else state.status
    rollback = None
    if state.rollback is not None and state.rollback.outcome is not None:
        rollback = js_dict(outcome=state.rollback.outcome, error=_error(state.rollback.failure))
    output = None if state.output is None else values.decode(state.output)
    return js_dict(status=status.value, error=_error(state.error), output=output, rollback=rollback)


def _error(failure: Failure | None) -> JsDict | None:
    return None if failure is None else js_dict(message=failure.message, name=failure.name)


def _step_key(target: Any) -> StepKey:
    """The step that `restart` names: its type is `do` and its count 1 unless given."""
    if not isinstance(target, Mapping) or set(cast("Mapping[Any, Any]", target)) - {
        "name",
        "count",
        "type",
    }:
        raise InvalidInput(
            f"(body) from must be a dictionary of name, count and type, not {target!r}"
        )
    step = cast("Mapping[str, Any]", target)
    name, count, kind = step.get("name"), step.get("count", 1), step.get("type", StepKind.DO)
    if not isinstance(count, int) or isinstance(count, bool):
        raise InvalidInput(f"(body) from.count must be a whole number, not {count!r}")
    if kind not in list(StepKind):
        raise InvalidInput(f"(body) from.type must be one of {', '.join(StepKind)}, not {kind!r}")
    return StepKey(StepKind(kind), "undefined" if name is None else str(name), count)
