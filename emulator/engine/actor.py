"""One instance in memory: its state, its current incarnation, and its timers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import msgspec

from emulator.core.decision import Decision
from emulator.core.effects import (
    ArmTimer,
    Effect,
    Interrupt,
    InvokeAttempt,
    InvokeRollback,
    RejectStep,
    RequestSlot,
    ResolveStep,
    StartRun,
)
from emulator.core.inputs import (
    Input,
    RunInput,
    RunParked,
    SlotGranted,
    TimerFired,
    UnloadRequested,
)
from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.engine.incarnation import Incarnation
from emulator.engine.notices import Notices
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.streams import Streams
from emulator.engine.tokens import TokenMaker
from emulator.journal.port import InstanceRow
from emulator.timing.alarm import Timers
from emulator.timing.wheel import Timer

UNLOAD_AGAIN_MS = 10_000
"""How long after code that rests has been kept in memory for its own timers it is looked at again."""

FEW_STEPS = 16
"""Up to so many steps a replay costs nothing."""


class Said(msgspec.Struct, frozen=True, gc=False):
    """Something in the inbox that user code says, or that is said about it. Nobody waits for an answer.

    When the instance has left memory and come back since, incarnations are counted anew: what the former ones still say
    must not be taken for the new one's. So it says whose they were.
    """

    actor: InstanceActor
    item: RunInput


class InstanceActor:
    """An instance that is loaded. `number` is the journal's name for it, `stored_row` what the journal has of it.

    `is_waking` says which line of the queue it stands in, if it stands there.
    """

    def __init__(
        self,
        number: int,
        state: InstanceState,
        definition: WorkflowDefinition,
        timers: Timers,
        streams: Streams,
        notices: Notices,
        post: Callable[[InstanceKey, Input], None],
        say: Callable[[Said], None],
        tokens: TokenMaker,
    ) -> None:
        self.number = number
        self.key: InstanceKey = state.creation.key
        self.state = state
        self._loaded_steps = len(state.steps)
        self.timers = timers
        self.tokens = tokens
        self.streams = streams
        self.notices = notices
        self.stored_row: InstanceRow | None = None
        self.is_waking = False
        self._definition = definition
        self._post = post
        self._say = say
        self._incarnation: Incarnation | None = None
        self._armed: dict[StepKey, Timer[Callable[[], None]]] = {}
        self._unloading: Timer[Callable[[], None]] | None = None

    @property
    def is_live(self) -> bool:
        """Whether user code of the instance is in memory."""
        return self._incarnation is not None

    @property
    def is_worth_replaying(self) -> bool:
        """Whether a replay would say something new: the steps are few, or twice as many as at the last one.

        So all replays together cost no more than the steps themselves, also of a loop that rests after each.
        """
        return not FEW_STEPS < len(self.state.steps) < 2 * self._loaded_steps

    @property
    def armed(self) -> frozenset[StepKey]:
        """The steps whose timers have not gone off."""
        return frozenset(self._armed)

    def row(self) -> InstanceRow:
        """What listings show of it."""
        state = self.state
        return InstanceRow(
            self.number,
            state.creation,
            state.status,
            state.modified_ms,
            state.started_ms,
            state.ended_ms,
            self._is_waking_or_restless(),
            self._definition.expires_ms(state),
            dict(state.attributes),
        )

    def _is_waking_or_restless(self) -> bool:
        status = self.state.status
        if status is InstanceStatus.WAITING:
            if self._incarnation is not None:
                return self._incarnation.moves_by_itself()
            return self.stored_row is not None and self.stored_row.waking
        return self.is_waking and status is InstanceStatus.QUEUED

    def has_new_row(self) -> bool:
        """Whether what listings show has changed since it was stored."""
        stored, state = self.stored_row, self.state
        return (
            stored is None
            or stored.status is not state.status
            or stored.modified_ms != state.modified_ms
            or stored.started_ms != state.started_ms
            or stored.ended_ms != state.ended_ms
            or stored.attributes != state.attributes
        )

    def post(self, item: RunInput) -> None:
        """Put what user code says, or what is said about it, into the engine's inbox."""
        self._say(Said(self, item))

    def perform(self, decision: Decision) -> None:
        """Act on a decision that is committed."""
        if decision.timers_cleared:
            for timer in self._armed.values():
                self.timers.cancel(timer)
            self._armed.clear()
        for step, due_ms in decision.timers.items():
            self._arm(step, due_ms)
        for effect in decision.effects:
            self._ACTIONS[type(effect)](self, effect)

    def after(self, item: Input) -> None:
        """The decision on the input has been performed, whatever it was."""
        incarnation = self._incarnation
        if incarnation is None:
            return
        if isinstance(item, RunInput):
            if item.is_request and item.incarnation == incarnation.number:
                incarnation.outcomes.heard()
        elif isinstance(item, SlotGranted):
            incarnation.stir()
        incarnation.watch()

    def unload(self, parked: RunParked, *, after_ms: int) -> None:
        """Let code that rests leave memory then, if it still does. Code that has timers of its own stays until they are over."""
        if self._unloading is not None:
            self.timers.cancel(self._unloading)
            self._unloading = None
        incarnation = self._incarnation
        if incarnation is None or incarnation.number != parked.incarnation:
            return
        if after_ms == 0 and incarnation.moves_by_itself():
            after_ms = UNLOAD_AGAIN_MS
        if after_ms:
            due = partial(self.unload, parked, after_ms=0)
            self._unloading = self.timers.schedule_in(after_ms, due)
        else:
            self.post(UnloadRequested(parked.incarnation))

    def close(self) -> None:
        """Forget it: user code is unwound, timers are cancelled."""
        if self._unloading is not None:
            self.timers.cancel(self._unloading)
        if self._incarnation is not None:
            self._incarnation.close()
            self._incarnation = None
        for timer in self._armed.values():
            self.timers.cancel(timer)
        self._armed.clear()

    def _arm(self, step: StepKey, due_ms: int | None) -> None:
        timer = self._armed.pop(step, None)
        if timer is not None:
            self.timers.cancel(timer)
        if due_ms is not None:
            self._armed[step] = self.timers.schedule(due_ms, lambda: self._fire(step, due_ms))

    def _fire(self, step: StepKey, due_ms: int) -> None:
        self._armed.pop(step, None)
        self._post(self.key, TimerFired(step, due_ms))

    def _arm_again(self, effect: ArmTimer) -> None:
        self._arm(effect.step, effect.due_ms)

    def _resolve(self, effect: ResolveStep) -> None:
        if self._incarnation is not None:
            self._incarnation.resolve(effect)

    def _reject(self, effect: RejectStep) -> None:
        if self._incarnation is not None:
            self._incarnation.outcomes.reject(effect.step, effect.error)

    def _invoke(self, effect: InvokeAttempt) -> None:
        assert self._incarnation is not None
        self._incarnation.invoke(effect)

    def _invoke_rollback(self, effect: InvokeRollback) -> None:
        assert self._incarnation is not None
        self._incarnation.invoke_rollback(effect)

    def _start(self, effect: StartRun) -> None:
        if self._incarnation is not None:
            self._incarnation.close()
        self._incarnation = Incarnation(effect.incarnation, self._definition, self.state, self)
        self._incarnation.start(registering=effect.registering)

    def _interrupt(self, effect: Interrupt) -> None:
        if self._incarnation is None:
            return
        if effect.keep_handlers:
            self._incarnation.close(rollbacks_for=self.state.life.incarnation)
        else:
            self._incarnation.close()
            self._incarnation = None

    def _nothing(self, _: RequestSlot) -> None:
        """It was answered before the commit."""

    _ACTIONS: ClassVar[dict[type[Effect], Callable[[InstanceActor, Any], None]]] = {
        ArmTimer: _arm_again,
        Interrupt: _interrupt,
        InvokeAttempt: _invoke,
        InvokeRollback: _invoke_rollback,
        RejectStep: _reject,
        RequestSlot: _nothing,
        ResolveStep: _resolve,
        StartRun: _start,
    }
