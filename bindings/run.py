"""`Run`: a handle to an instance in the words of the Workflow SDK. `run.run_id == instance.id`.

In the body of a `run()` each of its methods is a durable step of its own: two calls may differ, each is the same in every
replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from bindings.ambient import current_host, durable, here
from bindings.host import Host, StatusReport
from bindings.streams import WorkflowReadable, check_start_index
from emulator.core.inputs import TerminateRequested, WakeUpRequested
from emulator.domain import values
from emulator.domain.instance import InstanceKey, id_in_scope
from emulator.domain.names import (
    check_instance_id,
    check_reason,
    check_stream_name,
    check_workflow_name,
)
from emulator.domain.status import InstanceStatus
from emulator.errors import (
    CannotTerminate,
    EntityConflictError,
    InstanceNotFound,
    InvalidInput,
    WorkflowContextError,
    WorkflowRunCancelledError,
    WorkflowRunFailedError,
    WorkflowRunNotFoundError,
)

T = TypeVar("T")

_FIRST_PATIENCE_S: Final = 60.0
_PAUSE_MS: Final = 1_000
"""For how long a run waits for another at first, and how long it pauses then: long enough to give its slot away."""

_STATUSES: Final = {
    InstanceStatus.QUEUED: "pending",
    InstanceStatus.COMPLETE: "completed",
    InstanceStatus.ERRORED: "failed",
    InstanceStatus.TERMINATED: "cancelled",
}
"""The Workflow SDK's words; everything else is "running"."""


class Run:
    """A run, which need not exist. `workflow_name` is empty where only its id was given, and is looked up then."""

    def __init__(self, host: Host | None, key: InstanceKey) -> None:
        self._given_host = host
        self._key = key

    def __repr__(self) -> str:
        return f"<Run {self._key.workflow}/{self.run_id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def run_id(self) -> str:
        """The id of the instance."""
        return id_in_scope(self._key.id)

    @property
    def workflow_name(self) -> str:
        """The name of its workflow."""
        return self._key.workflow

    async def exists(self) -> bool:
        """Whether there is such a run."""

        async def look() -> bool:
            try:
                await self._report()
            except WorkflowRunNotFoundError:
                return False
            return True

        return await durable("run.exists", look)

    async def status(self) -> str:
        """`pending`, `running`, `completed`, `failed` or `cancelled`.

        Raises:
            WorkflowRunNotFoundError: there is no such run.
        """

        async def look() -> str:
            return _word(await self._report())

        return await durable("run.status", look)

    async def return_value(self) -> Any:
        """Wait for its end, and give what it returned.

        In the body of a `run()` the wait pauses now and then, at ever longer intervals: so a run that holds the only slot of
        its workflow lets the one go on that it waits for.

        Raises:
            WorkflowRunFailedError: it failed.
            WorkflowRunCancelledError: it was cancelled.
            WorkflowRunNotFoundError: there is no such run, or no longer.
            WorkflowContextError: it is the very run that asks.
        """
        place = here.get()
        if place is None or place.body is None:
            [value] = await self._result(None)
            return value
        patience_s = _FIRST_PATIENCE_S
        while True:
            look = partial(self._result, patience_s)
            if found := await place.body.run_reserved("run.return_value", look):
                return found[0]
            await place.body.rest("run.return_value", _PAUSE_MS)
            patience_s *= 2

    async def _result(self, patience_s: float | None) -> list[Any]:
        """What it returned, alone in a list; an empty one if it has not ended in time."""
        key = await self._resolved()
        place = here.get()
        if place is not None and place.key == key:
            raise WorkflowContextError("A run cannot wait for itself.")
        try:
            async with asyncio.timeout(patience_s):
                await self._host.ended(key)
            report = await self._host.status(key)
        except TimeoutError:
            return []
        except InstanceNotFound:
            raise WorkflowRunNotFoundError(run_id=self.run_id) from None
        match _word(report):
            case "completed":
                return [values.decode(report.output)]
            case "failed" if report.error is not None:
                raise WorkflowRunFailedError(
                    run_id=self.run_id,
                    error_name=report.error.name,
                    error_message=report.error.message,
                )
            case _:
                raise WorkflowRunCancelledError(run_id=self.run_id)

    async def cancel(self, reason: str | None = None) -> None:
        """End it, without rollback. One that is cancelled stays so.

        Raises:
            InvalidInput: the reason is no text, or has over 512 UTF-16 units.
            EntityConflictError: it has completed or failed.
            WorkflowRunNotFoundError: there is no such run.
        """
        if reason is not None:
            reason = check_reason(reason)
        await durable("run.cancel", lambda: self._cancel(reason))

    async def _cancel(self, reason: str | None) -> None:
        try:
            await self._ask(TerminateRequested(reason=reason))
        except CannotTerminate:
            word = _word(await self._report())
            if word != "cancelled":
                text = f'Workflow run "{self.run_id}" has {word}, it cannot be cancelled.'
                raise EntityConflictError(text) from None

    async def wake_up(self, correlation_ids: Sequence[str] | None = None) -> int:
        """End its sleeps now: those of these ids (the sleep's name and count, such as "nap-1"), or all; how many.

        Raises:
            WorkflowRunNotFoundError: there is no such run.
        """
        labels = None if correlation_ids is None else tuple(correlation_ids)
        return await durable("run.wake_up", lambda: self._ask(WakeUpRequested(labels)))

    async def attributes(self) -> dict[str, str]:
        """Its attributes.

        Raises:
            WorkflowRunNotFoundError: there is no such run.
        """

        async def look() -> dict[str, str]:
            return (await self._report()).attributes

        return await durable("run.attributes", look)

    def readable(self, *, namespace: str | None = None, start_index: int = 0) -> WorkflowReadable:
        """Read a stream that it writes: see `WorkflowInstance.readable`. Not in the body of a `run()`.

        Raises:
            InvalidStream: the name or the index is not valid.
            InvalidInput: the handle does not know its workflow.
        """
        if not self._key.workflow:
            raise InvalidInput("Say which workflow is meant: get_run(run_id, workflow).")
        start = check_start_index(start_index)
        return WorkflowReadable(self._host, self._key, check_stream_name(namespace), start)

    async def stream_info(self, *, namespace: str | None = None) -> dict[str, Any]:
        """`{"namespace", "tailIndex", "done"}` of a stream.

        Raises:
            WorkflowRunNotFoundError: there is no such run.
        """
        name = check_stream_name(namespace)

        async def look() -> dict[str, Any]:
            return (await self._found(self._host.stream(await self._resolved(), name))).shown()

        return await durable("run.stream_info", look)

    async def list_streams(self) -> list[dict[str, Any]]:
        """The same of all its streams, by name.

        Raises:
            WorkflowRunNotFoundError: there is no such run.
        """

        async def look() -> list[dict[str, Any]]:
            found = await self._found(self._host.streams(await self._resolved()))
            return [each.shown() for each in found]

        return await durable("run.list_streams", look)

    @property
    def _host(self) -> Host:
        return self._given_host or current_host("A Run")

    async def _report(self) -> StatusReport:
        return await self._found(self._host.status(await self._resolved()))

    async def _ask(self, item: TerminateRequested | WakeUpRequested) -> Any:
        return await self._found(self._host.ask(await self._resolved(), item))

    async def _found(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except InstanceNotFound:
            raise WorkflowRunNotFoundError(run_id=self.run_id) from None

    async def _resolved(self) -> InstanceKey:
        """Its name, with the workflow if only the id was given."""
        if not self._key.workflow:
            found = await self._host.find(self._key.id)
            if found is None:
                raise WorkflowRunNotFoundError(run_id=self.run_id)
            self._key = found
        return self._key

    terminate = cancel
    returnValue = return_value  # noqa: N815 - the Workflow SDK's spelling
    wakeUp = wake_up  # noqa: N815
    streamInfo = stream_info  # noqa: N815
    listStreams = list_streams  # noqa: N815


def get_run(run_id: str, workflow: str | None = None) -> Run:
    """A handle to a run of the project that runs. Without `workflow` it is looked for in all of them when it is used.

    Raises:
        InvalidInstanceId: no run can have this id.
        InvalidWorkflowName: no workflow can have this name.
    """
    name = "" if workflow is None else check_workflow_name(workflow)
    return Run(None, InstanceKey(name, check_instance_id(run_id)))


def _word(report: StatusReport) -> str:
    return _STATUSES.get(InstanceStatus(report.status), "running")
