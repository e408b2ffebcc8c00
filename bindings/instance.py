"""`WorkflowInstance`: a handle to one instance, as Cloudflare's binding gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from bindings.convert import options
from bindings.host import Host
from bindings.run import Run
from bindings.streams import WorkflowReadable, check_start_index
from bindings.subscription import WorkflowSubscription
from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
)
from emulator.domain import values
from emulator.domain.instance import InstanceKey
from emulator.domain.names import check_event_type, check_stream_name, plain_text
from emulator.domain.steps import CLOUDFLARE_KINDS, StepKey, StepKind
from emulator.domain.values import JsDict
from emulator.errors import InvalidInput, InvalidSubscription
from emulator.projection.events import event_filter

_NO_PAYLOAD = object()
_SUBSCRIBE = {"cursor": "cursor", "filter": "filter"}
_READABLE = {
    "namespace": "namespace",
    "start_index": "start_index",
    "startIndex": "start_index",
}


class WorkflowInstance:
    """A handle. What every method does that changes something is committed before it returns (Cloudflare: Workers API, WorkflowInstance).

    All raise `InstanceNotFound` once the instance is gone.
    """

    def __init__(self, host: Host, key: InstanceKey) -> None:
        self._host = host
        self._key = key

    @property
    def id(self) -> str:
        """The instance's id."""
        return self._key.id

    def __repr__(self) -> str:
        return f"<WorkflowInstance {self._key.workflow}/{self._key.id}>"

    @property
    def run(self) -> Run:
        """The same instance in the words of the Workflow SDK."""
        return Run(self._host, self._key)

    async def status(self) -> JsDict:
        """`{"status", "error", "output", "rollback"}`, all four always there.

        `error` is `{"message", "name"}` or None, `output` what `run()` returned or None, `rollback` None or
        `{"outcome": "complete" | "failed", "error"}`. A rollback under way shows as `running` (Cloudflare's binding).
        """
        return (await self._host.status(self._key)).shown()

    async def pause(self) -> None:
        """Stop after the attempts under way; nothing happens to an instance that does not run."""
        await self._host.ask(self._key, PauseRequested())

    async def resume(self) -> None:
        """Go on after a pause; nothing happens to an instance that is not paused."""
        await self._host.ask(self._key, ResumeRequested())

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
        await self._host.ask(self._key, TerminateRequested(rollback))
        if rollback:
            await self._host.ended(self._key)

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
        await self._host.ask(self._key, RestartRequested(step))

    async def delete(self) -> None:
        """Remove it, whatever it does; no rollback handler runs, and its id is free again."""
        await self._host.ask(self._key, DeleteRequested())

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
        await self._host.ask(self._key, EventSent(event_type, stored))

    def subscribe(
        self, options_: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> WorkflowSubscription:
        """Follow its events, from the beginning of its log to the terminal one.

        `cursor` is the `eventId` of the last event to leave out; `filter` a list of the types of events that are wanted.
        After a restart the log is fresh: events up to a cursor from before are not shown.

        Raises:
            InvalidSubscription: an option is unknown or not valid.
        """
        try:
            given = options(options_, keywords, _SUBSCRIBE, "subscribe()")
        except TypeError as error:
            raise InvalidSubscription(detail=str(error)) from None
        wanted = event_filter(given.get("cursor"), given.get("filter"))
        return WorkflowSubscription(self._host.events(self._key, wanted))

    def readable(
        self, options_: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> WorkflowReadable:
        """Read a stream that it writes: `async for chunk in instance.readable(): …`, to the end of the stream.

        `namespace` is that of `step.get_writable()`. `start_index` is the index of the first chunk wanted, 0 if not given;
        a negative one counts from the end. One beyond the last chunk waits for it.

        Raises:
            InvalidStream: an option is not valid.
            WorkflowContextError: when it is read in `run()`.
        """
        given = options(options_, keywords, _READABLE, "readable()")
        namespace = check_stream_name(given.get("namespace"))
        start_index = check_start_index(given.get("start_index", 0))
        return WorkflowReadable(self._host, self._key, namespace, start_index)

    async def list_streams(self) -> list[JsDict]:
        """The streams that have been written to or closed: `{"namespace", "tailIndex", "done"}` of each, by name."""
        return [each.shown() for each in await self._host.streams(self._key)]

    async def stream_info(self, namespace: str | None = None) -> JsDict:
        """`{"namespace", "tailIndex", "done"}`: the index of the last chunk (-1: none), and whether no more can come.

        Raises:
            InvalidStream: no stream can have this name.
        """
        return (await self._host.stream(self._key, check_stream_name(namespace))).shown()

    sendEvent = send_event  # noqa: N815 - Cloudflare's JavaScript spelling
    listStreams = list_streams  # noqa: N815
    streamInfo = stream_info  # noqa: N815


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
    if kind not in CLOUDFLARE_KINDS:
        known = ", ".join(CLOUDFLARE_KINDS)
        raise InvalidInput(f"(body) from.type must be one of {known}, not {kind!r}")
    named = plain_text(name) if isinstance(name, str) else str(name)
    return StepKey(StepKind(kind), "undefined" if name is None else named, int(count))
