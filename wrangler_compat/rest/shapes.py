"""The shapes of what both APIs answer, from which their OpenAPI documents are made.

Handlers build plain dictionaries; these types say what is in them (specification http-api 2.3 and 3). A test holds
every answer of the test suite against the documents, so that the two cannot drift apart.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from emulator.domain.instance import TriggerSource
from emulator.domain.limits import MAX_BATCH_INSTANCES, MAX_LOOKUP_ID_CHARS
from emulator.domain.status import InstanceStatus

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    """An object that has these fields and no others."""


InstanceId = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=MAX_LOOKUP_ID_CHARS, pattern=r"^[a-zA-Z0-9, */#_-]+$"),
]


class InstanceIds(Shape):
    """The body that names instances to delete."""

    instances: Annotated[
        list[InstanceId], msgspec.Meta(min_length=1, max_length=MAX_BATCH_INSTANCES)
    ]


class Done(Shape):
    """That it is done."""

    success: Literal[True]


class Deleted(Shape):
    """That it is deleted."""

    status: Literal["ok"]
    success: Literal[True]


class StatusChanged(Shape):
    """How an instance is after its status was changed."""

    status: InstanceStatus
    timestamp: Instant


class DeletedInstance(Shape):
    """One that was there."""

    id: str


class MissingInstance(Shape):
    """One that was not there."""

    id: str
    code: int
    message: str


class BatchDeleted(Shape):
    """What became of each id of a batch."""

    deleted: list[DeletedInstance]
    errors: list[MissingInstance]


class Error(Shape):
    """How an attempt, a step or an instance failed."""

    name: str
    message: str


class Attempt(Shape):
    """One try at a step. Without `end` it is under way."""

    start: Instant
    end: Instant | None
    success: bool | None
    error: Error | None


class Retries(Shape):
    """How a step is retried, as its author wrote it."""

    limit: Count
    delay: int | float | str
    backoff: Literal["constant", "linear", "exponential"]


class StepConfig(Shape):
    """The config of a step."""

    retries: Retries
    timeout: int | float | str
    sensitive: Literal["output"] | msgspec.UnsetType = msgspec.UNSET


class LocalDo(Shape, tag_field="type", tag="step"):
    """A `step.do`. Without a result there is no `output`."""

    name: str
    start: Instant
    end: Instant | None
    success: bool | None
    config: StepConfig
    attempts: list[Attempt]
    output: Any | msgspec.UnsetType = msgspec.UNSET


class RemoteDo(Shape, tag_field="type", tag="step"):
    """A `step.do`. `output` is JSON text, shortened to 1024 characters."""

    name: str
    start: Instant
    end: Instant | None
    success: bool | None
    config: StepConfig
    attempts: list[Attempt]
    output: str | None


class RemoteRollback(RemoteDo, tag="rollback"):
    """A rollback handler, in the same words."""


class Sleep(Shape, tag_field="type", tag="sleep"):
    """A `step.sleep` or `step.sleep_until`."""

    name: str
    start: Instant
    end: Instant | None
    finished: bool
    error: Error | None


class Event(Shape):
    """An event that was taken."""

    type: str
    timestamp: Instant
    payload: Any | msgspec.UnsetType = msgspec.UNSET


class LocalWait(Shape, tag_field="type", tag="waitForEvent"):
    """A `step.wait_for_event`."""

    name: str
    start: Instant
    end: Instant | None
    finished: bool
    error: Error | None
    output: Event | None


class RemoteWait(Shape, tag_field="type", tag="waitForEvent"):
    """A `step.wait_for_event`. `output` is JSON text, shortened to 1024 characters."""

    name: str
    start: Instant
    end: Instant | None
    finished: bool
    error: Error | None
    output: str | None
    event_type: str


class Trigger(Shape):
    """What started or ended an instance."""

    source: TriggerSource


class Termination(Shape, tag_field="type", tag="termination"):
    """That the instance was ended from outside."""

    trigger: Trigger


class LocalWorkflow(Shape):
    """A workflow of the project."""

    name: str
    class_name: str
    script_name: str


class LocalWorkflowDetail(LocalWorkflow):
    """A workflow of the project, and how many instances it has by status."""

    instances: dict[str, Count]


class WorkflowCount(Shape):
    """How many workflows there are."""

    count: Count


class LocalPage(Shape):
    """Where a list is, and how many instances the workflow has by status."""

    page: Count
    per_page: Count
    total_count: Count
    total_pages: Count
    status_counts: dict[str, Count]


class LocalRow(Shape):
    """An instance in a list."""

    id: str
    status: InstanceStatus
    created_on: Instant


class ClaimedHook(Shape, rename="camel"):
    """The hook that an instance was created with."""

    hook_id: str
    token: str


class LocalCreated(Shape):
    """The id of an instance that was created."""

    id: str
    hook: ClaimedHook | msgspec.UnsetType = msgspec.UNSET


class LocalInstanceDetail(Shape):
    """An instance with its steps."""

    status: InstanceStatus
    params: Any
    queued: Instant
    start: Instant | None
    end: Instant | None
    output: Any
    error: Error | None
    steps: list[LocalDo | Sleep | LocalWait]
    step_count: Count


class WorkflowBinding(Shape, rename="camel"):
    """A binding of the Worker to a workflow."""

    id: str
    binding_name: str
    class_name: str
    script_name: str


class WorkerBindings(Shape, rename="camel"):
    """The bindings of the Worker by kind; only workflows are emulated."""

    kv: list[Any]
    d1: list[Any]
    r2: list[Any]
    do: list[Any]
    workflows: list[WorkflowBinding]
    send_email: list[Any]
    flagship: list[Any]


class WorkerTriggers(Shape):
    """The cron triggers of the Worker."""

    crons: list[str]


class LocalWorker(Shape, rename="camel"):
    """A Worker that runs on this machine."""

    is_self: bool
    name: str
    bindings: WorkerBindings
    triggers: WorkerTriggers
    persistence_scope: str


class PageInfo(Shape):
    """Where a list is."""

    page: Count
    per_page: Count
    count: Count
    total_count: Count
    total_pages: Count


class InstancePageInfo(Shape):
    """Where a list of instances is: `page` and `total_pages` if a page was asked for, else a `cursor` if there is more."""

    per_page: Count
    count: Count
    total_count: Count
    page: Count | msgspec.UnsetType = msgspec.UNSET
    total_pages: Count | msgspec.UnsetType = msgspec.UNSET
    cursor: str | msgspec.UnsetType = msgspec.UNSET


class Account(Shape):
    """The one account there is."""

    id: str
    name: str


class Membership(Shape):
    """The membership of the one account there is."""

    id: str
    status: Literal["accepted"]
    account: Account


class WorkflowIdentity(Shape):
    """What a workflow is called, and where it is defined."""

    id: str
    name: str
    class_name: str
    script_name: str
    created_on: Instant
    modified_on: Instant
    triggered_on: Instant | None


class CronNext(Shape):
    """A schedule, and when it is due next."""

    cron: str
    next_instance: Instant


class RemoteWorkflow(WorkflowIdentity):
    """A workflow, how many instances it has by status, and its schedules."""

    instances: dict[InstanceStatus, Count]
    script_deleted: bool
    schedules: list[CronNext]


class RemoteWorkflowUpdated(WorkflowIdentity):
    """A workflow as it is in the configuration, which a deployment does not change here."""

    version_id: str
    is_deleted: Literal[0]
    terminator_running: Literal[0]


class StepLimit(Shape):
    """How many steps an instance may have."""

    steps: Count


class InstanceLimit(Shape):
    """How many instances may run at once; null for any number."""

    limit: Count | None


class DefaultRetention(Shape):
    """How long finished instances are kept that were created without a retention, in milliseconds."""

    success_retention: Count
    error_retention: Count


class VersionIdentity(Shape):
    """The one version of a workflow that there is here."""

    id: str
    workflow_id: str
    class_name: str
    created_on: Instant
    modified_on: Instant


class Version(VersionIdentity):
    """The version with its limits."""

    has_dag: Literal[False]
    language: Literal["python"]
    limits: StepLimit
    concurrency: InstanceLimit
    default_retention: DefaultRetention


class VersionGraph(VersionIdentity):
    """The version; graphs are not drawn here."""

    graph: None


class InstanceIdentity(Shape):
    """What an instance is called, and how it is."""

    id: str
    status: InstanceStatus
    version_id: str
    workflow_id: str
    trigger_source: TriggerSource


class InstanceShort(InstanceIdentity):
    """An instance that was created."""

    hook: ClaimedHook | msgspec.UnsetType = msgspec.UNSET


class RemoteRow(InstanceIdentity):
    """An instance in a list."""

    created_on: Instant
    modified_on: Instant
    started_on: Instant | None
    ended_on: Instant | None
    attributes: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class CronRun(Shape, rename="camel"):
    """The scheduled time that an instance stands for, in milliseconds since 1970."""

    cron: str
    scheduled_time: int


class Rollback(Shape):
    """How the rollback went."""

    outcome: Literal["complete", "failed"]
    error: Error | None


class RemoteInstanceDetail(Shape):
    """An instance with its steps."""

    status: InstanceStatus
    params: Any
    trigger: Trigger
    version_id: str = msgspec.field(name="versionId")
    queued: Instant
    start: Instant | None
    end: Instant | None
    success: bool | None
    error: Error | None
    output: Any
    rollback: Rollback | None
    step_count: Count
    steps: list[RemoteDo | RemoteRollback | Sleep | RemoteWait | Termination]
    schedule: CronRun | msgspec.UnsetType = msgspec.UNSET


class StepResult(Shape):
    """What a step came to: "running" with an error means that it waits for a retry."""

    status: Literal["running", "waiting", "complete", "errored"]
    error: Error | None
    output: Any | msgspec.UnsetType = msgspec.UNSET
    event_type: str | msgspec.UnsetType = msgspec.UNSET


class TerminationOfMany(Shape):
    """Whether the instances are ended now, or another request is doing that."""

    status: Literal["ok", "already_running"]


class EventSent(Shape, rename="camel"):
    """That an event was sent."""

    instance_id: str
    timestamp: Instant
