"""The state of an instance: the fold of its journal, and beside it the life that no journal holds.

`InstanceState` is changed by `evolve` alone, in place: a step costs the same, however many came before it. Only
`life` belongs to the rules of `decide`: it says what the current incarnation has asked for, and dies with it. And
`modifiers` belong to tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from emulator.core.effects import Outcome, ReceivedEvent
from emulator.core.inputs import StepRequest
from emulator.core.modifiers import Modifiers
from emulator.domain.config import StepConfig
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord, HookStage
from emulator.domain.instance import Creation
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey


class StepState(msgspec.Struct, gc=False):
    """One step. `finished_seq` is the number of the entry that ended it (0: open), `start_seq` of the one that began it.

    `due_ms` is the deadline that is open: a sleep's end, a wait's timeout, a retry. A `do` has `config`, `attempt` (the
    last one started) and `in_flight`; a wait has `event_type`, and `again` (see `WaitStarted`); a hook that has its token
    has `hook_id`; `until` marks a `sleep_until`. `abandoned`: the code has cancelled it; `returned` are the events that the
    wait gave back then, `deadline_ms` is when it gives up.
    """

    key: StepKey
    start_seq: int
    finished_seq: int = 0
    outcome: Outcome = None
    due_ms: int | None = None
    config: StepConfig | None = None
    attempt: int = 0
    in_flight: bool = False
    error: Failure | None = None
    rollback: StepConfig | None = None
    timeout_ms: int = 0
    again: int = 0
    event_type: str = ""
    hook_id: str = ""
    abandoned: bool = False
    returned: tuple[ReceivedEvent, ...] = ()
    deadline_ms: int | None = None
    until: bool = False


@dataclass(slots=True)
class HookState:
    """A hook that the instance holds, or has held. `step` is the step that opened it.

    `created_seq` and `disposed_seq` are the numbers of the entries that say so (0: not disposed of). `at_start`: claimed by
    whoever created the instance; `is_bound`: opened by `run()` since, with a word on its retention or metadata.
    """

    step: StepKey
    created_seq: int
    created_ms: int
    hook_id: str
    token: str
    metadata: msgspec.Raw
    retain_until_ms: int | None = None
    retention_ms: int | None = None
    is_webhook: bool = False
    schema: str | None = None
    at_start: bool = False
    is_bound: bool = False
    disposed_seq: int = 0

    def stage(self, ended_ms: int | None) -> HookStage:
        """What is left of it, in an instance that has ended or not."""
        if self.disposed_seq:
            return HookStage.RELEASED
        if ended_ms is None:
            return HookStage.LIVE
        is_retained = self.retain_until_ms is not None and self.retain_until_ms > ended_ms
        return HookStage.RETAINED if is_retained else HookStage.RELEASED

    def record(self, creation: Creation, stage: HookStage) -> HookRecord:
        """What is stored of it."""
        return HookRecord(
            self.hook_id,
            creation.workflow,
            creation.id,
            self.token,
            self.created_ms,
            self.metadata,
            self.retain_until_ms,
            self.is_webhook,
            self.schema,
            stage,
        )


@dataclass(slots=True)
class RollbackState:
    """A rollback, under way or over. `current` is the step being compensated, `due_ms` its retry if one is due.

    `pending` are the steps not compensated yet, the next one last. `error` began it; `reason` is that of who terminates; `failure` is the handler's that stopped it; `outcome` is None while it goes on.
    """

    error: Failure
    total_steps: int
    terminating: bool
    reason: str | None = None
    outcome: Literal["complete", "failed"] | None = None
    failure: Failure | None = None
    pending: list[StepKey] = field(default_factory=list[StepKey])
    current: StepKey | None = None
    attempt: int = 0
    in_flight: bool = False
    due_ms: int | None = None


class Life(msgspec.Struct, gc=False):
    """What the current incarnation has asked for. `running`: a `run()` is up.

    `requested`: asked and not answered. `in_flight`: callbacks being called. `held`: asked while nothing new may start.
    `at_rest`: it has come to rest since it was last told or asked something.
    `registering`: it runs only to find rollback handlers; `handlers` are the steps whose handler it holds.
    `opened` are the hooks that it has opened, of those that it has opened before, `disposed` those that it has given up.
    `losses`: how many runs in a row were lost, `finished_at_loss` the finished steps at the last (see `core.losses`).
    """

    incarnation: int = 0
    running: bool = False
    at_rest: bool = False
    registering: bool = False
    requested: dict[StepKey, None] = {}
    in_flight: set[StepKey] = set()
    held: list[StepRequest] = []
    handlers: set[StepKey] = set()
    opened: set[StepKey] = set()
    disposed: set[str] = set()
    losses: int = 0
    finished_at_loss: int = 0


@dataclass(slots=True)
class InstanceState:
    """An instance. `seq` is the number of its last entry; `open` are the steps that have not ended, by age.

    `waits` are those of them that wait for an event, by its type and by age; a type that none waits for is not there.
    `deliveries` are the ids of the events that came with one, taken since or not; `hooks` are by id, by age.
    """

    creation: Creation
    status: InstanceStatus = InstanceStatus.QUEUED
    seq: int = 0
    steps: dict[StepKey, StepState] = field(default_factory=dict[StepKey, StepState])
    open: dict[StepKey, StepState] = field(default_factory=dict[StepKey, StepState])
    waits: dict[str, dict[StepKey, StepState]] = field(
        default_factory=dict[str, dict[StepKey, StepState]]
    )
    mailbox: dict[int, ReceivedEvent] = field(default_factory=dict[int, ReceivedEvent])
    deliveries: set[str] = field(default_factory=set[str])
    hooks: dict[str, HookState] = field(default_factory=dict[str, HookState])
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    modified_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    paused_ms: int | None = None
    output: msgspec.Raw | None = None
    error: Failure | None = None
    rollback: RollbackState | None = None
    life: Life = field(default_factory=Life, compare=False)
    modifiers: Modifiers | None = field(default=None, compare=False)

    def hook_of(self, step: StepKey) -> HookState | None:
        """The hook that a step has opened; None if it has none, or another instance holds its token."""
        opened = self.steps.get(step)
        return None if opened is None else self.hooks.get(opened.hook_id)

    @property
    def is_terminal(self) -> bool:
        """Nothing but a restart or a delete can happen to it any more."""
        return self.status in TERMINAL
