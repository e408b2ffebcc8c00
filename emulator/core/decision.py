"""The decision in the making: what the rules write into.

A rule records entries, and sees at once what they change: `record` evolves the state. Beside the entries a decision
holds the timers that follow from them, the effects, and a refusal if the rules refuse; a refused decision is empty.
"""

from __future__ import annotations

import msgspec

from emulator.core.effects import (
    ArmTimer,
    Effect,
    Interrupt,
    RejectStep,
    RequestSlot,
    ResolveStep,
    StartRun,
)
from emulator.core.evolve import cut, evolve
from emulator.core.state import HookState, InstanceState, StepState
from emulator.domain.entries import (
    Entry,
    Fact,
    WorkflowFailed,
    WorkflowSucceeded,
    WorkflowTerminated,
)
from emulator.domain.hooks import HookRecord, HookStage
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey
from emulator.errors import EmulatorError


class Decision(msgspec.Struct, gc=False):
    """What follows from one input.

    `timers` are the deadlines to store (None: none any more), after all older ones have gone if `timers_cleared`.
    `taken` are the events that leave the mailbox; `hooks` are those that have changed, as they are to be stored; `told` is the answer to who asked. `cut_steps` says what a restart removes (see `journal.port.Cut`).
    """

    state: InstanceState
    now_ms: int
    entries: list[tuple[int, Entry]] = []
    effects: list[Effect] = []
    timers: dict[StepKey, int | None] = {}
    timers_cleared: bool = False
    taken: list[int] = []
    refusal: EmulatorError | None = None
    cut_made: bool = False
    cut_steps: frozenset[StepKey] | None = None
    deleted: bool = False
    told: object = None
    hooks: dict[str, HookRecord] = {}

    # what is written

    def record(self, step: StepKey | None, fact: Fact) -> int:
        """Add an entry and apply it; returns its number."""
        entry = Entry(self.now_ms, step, fact)
        seq = self.state.seq + 1
        evolve(self.state, seq, entry)
        self.entries.append((seq, entry))
        return seq

    def note_hook(self, hook: HookState, *, released: bool = False) -> None:
        """Store what has become of a hook, or that nothing is left of it."""
        stage = HookStage.RELEASED if released else hook.stage(self.state.ended_ms)
        self.hooks[hook.hook_id] = hook.record(self.state.creation, stage)

    def release_hooks(self) -> None:
        """Give every token up, also those that are retained."""
        for hook in self.state.hooks.values():
            self.note_hook(hook, released=True)

    def end(self, fact: WorkflowSucceeded | WorkflowFailed | WorkflowTerminated) -> None:
        """Record the end: nothing of the instance waits or runs any more, and its tokens are free or retained."""
        self.clear_timers()
        self.record(None, fact)
        for hook in self.state.hooks.values():
            if not hook.disposed_seq:
                self.note_hook(hook)
        self.stop_run()

    def cut(self, steps: frozenset[StepKey] | None) -> None:
        """Remove what a restart removes, from the state and from the journal."""
        for hook in self.state.hooks.values():
            if steps is None or hook.step in steps:
                self.note_hook(hook, released=True)
        cut(self.state, steps)
        self.cut_made = True
        self.cut_steps = steps
        self.clear_timers()

    def arm(self, step: StepKey, due_ms: int) -> None:
        """Store a deadline, and wake at it."""
        self.timers[step] = due_ms

    def disarm(self, step: StepKey) -> None:
        """Forget a deadline."""
        self.timers[step] = None

    def clear_timers(self) -> None:
        """Forget every deadline."""
        self.timers.clear()
        self.timers_cleared = True

    # what is to be done

    def arm_again(self, step: StepState) -> None:
        """Wake at a deadline that is stored already."""
        assert step.due_ms is not None
        self.effects.append(ArmTimer(step.key, step.due_ms))

    def reject(self, step: StepKey, error: EmulatorError) -> None:
        """Refuse what `run()` asked for."""
        self.state.life.requested.pop(step, None)
        self.effects.append(RejectStep(step, error))

    def answer(self, step: StepState) -> None:
        """Hand the outcome of an ended step to the code that asked for it, if it is there and may go on."""
        life = self.state.life
        if step.key in life.requested and self.state.status is not InstanceStatus.WAITING:
            del life.requested[step.key]
            life.at_rest = False
            self.effects.append(ResolveStep(step.key, step.outcome, step.finished_seq))

    def wake(self) -> None:
        """Ask for a slot: the instance waits, and has something to do."""
        self.effects.append(RequestSlot(waking=True))

    def go_on(self, step: StepState | None = None) -> None:
        """Let the code see that a step has ended: it is told, or its instance woken.

        So is one that ran when the process died, and has not been taken up yet: it may have lost its slot since.
        """
        if self.state.status is InstanceStatus.WAITING or not self.state.life.running:
            self.wake()
        else:
            assert step is not None
            self.answer(step)

    def start_run(self, *, registering: bool = False) -> None:
        """Begin an incarnation."""
        life = self.state.life
        life.incarnation += 1
        life.running = True
        life.registering = registering
        life.handlers.clear()
        life.opened.clear()
        life.disposed.clear()
        self.effects.append(StartRun(life.incarnation, registering))

    def stop_run(self, *, keep_handlers: bool = False) -> None:
        """End the incarnation. Its number moves on first, so that nothing it still says counts."""
        life = self.state.life
        life.incarnation += 1
        life.running = life.at_rest = life.registering = False
        life.requested.clear()
        life.in_flight.clear()
        life.held.clear()
        if not keep_handlers:
            life.handlers.clear()
        self.effects.append(Interrupt(keep_handlers))
