"""`Run`: a handle to an instance in the words of the Workflow SDK. `run.run_id == instance.id`.

In the body of a `run()` each of its methods is a durable step of its own: two calls may differ, each is the same in every
replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bindings.ambient import current_host, durable, here
from bindings.host import Host, StatusReport
from emulator.core.inputs import TerminateRequested, WakeUpRequested
from emulator.domain import values
from emulator.domain.instance import InstanceKey, id_in_scope
from emulator.domain.status import InstanceStatus
from emulator.errors import (
    CannotTerminate,
    EntityConflictError,
    InstanceNotFound,
    WorkflowContextError,
    WorkflowRunCancelledError,
    WorkflowRunFailedError,
    WorkflowRunNotFoundError,
)

_STATUSES: Final = {
    InstanceStatus.QUEUED: "pending",
    InstanceStatus.COMPLETE: "completed",
    InstanceStatus.ERRORED: "failed",
    InstanceStatus.TERMINATED: "cancelled",
}
"""The Workflow SDK's words; everything else is "running"."""

_MAX_REASON_UNITS: Final = 512


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

        Raises:
            WorkflowRunFailedError: it failed.
            WorkflowRunCancelledError: it was cancelled.
            WorkflowRunNotFoundError: there is no such run, or no longer.
            WorkflowContextError: it is the very run that asks.
        """
        place = here.get()
        if place is not None and place.key == self._key:
            raise WorkflowContextError("A run cannot wait for itself.")
        return await durable("run.return_value", self._return_value)

    async def _return_value(self) -> Any:
        key = await self._resolved()
        try:
            await self._host.ended(key)
            report = await self._host.status(key)
        except InstanceNotFound:
            raise WorkflowRunNotFoundError(run_id=self.run_id) from None
        match _word(report):
            case "completed":
                return values.decode(report.output)
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
            ValueError: the reason has over 512 UTF-16 units.
            EntityConflictError: it has completed or failed.
            WorkflowRunNotFoundError: there is no such run.
        """
        check_reason(reason)
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

    @property
    def _host(self) -> Host:
        return self._given_host or current_host("A Run")

    async def _report(self) -> StatusReport:
        try:
            return await self._host.status(await self._resolved())
        except InstanceNotFound:
            raise WorkflowRunNotFoundError(run_id=self.run_id) from None

    async def _ask(self, item: TerminateRequested | WakeUpRequested) -> Any:
        try:
            return await self._host.ask(await self._resolved(), item)
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


def get_run(run_id: str, workflow: str | None = None) -> Run:
    """A handle to a run of the project that runs. Without `workflow` it is looked for in all of them when it is used."""
    return Run(None, InstanceKey(workflow or "", run_id))


def check_reason(reason: str | None) -> None:
    """Refuse a reason for a cancellation that is too long.

    Raises:
        ValueError: it has over 512 UTF-16 units.
    """
    if reason is not None and len(reason.encode("utf-16-le")) // 2 > _MAX_REASON_UNITS:
        raise ValueError(f"A reason has at most {_MAX_REASON_UNITS} characters.")


def _word(report: StatusReport) -> str:
    return _STATUSES.get(InstanceStatus(report.status), "running")
