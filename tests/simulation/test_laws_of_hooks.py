"""The laws of hooks catch the violations that are planted for them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from emulator.core import hooks as rules
from emulator.core.evolve import fold
from emulator.core.state import InstanceState
from emulator.domain.entries import (
    Entry,
    EventReceived,
    Fact,
    HookCreated,
    HookDisposed,
    HookReclaimed,
    WaitCompleted,
    WaitStarted,
    WorkflowQueued,
    WorkflowSucceeded,
    channel,
)
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.domain.steps import StepKey, StepKind
from emulator.engine.engine import Engine
from emulator.engine.hooks import holder
from emulator.errors import HookConflictError
from emulator.journal.port import Commit, Cut, EntryRow
from emulator.testing import simulation
from emulator.testing.laws import hooks, moments
from emulator.testing.laws.breach import LawBroken
from emulator.testing.simulation import LAWS, Simulation, SimulationFailed
from emulator.testing.trace import Answered, Asked, ProcessEnded, Trace
from tests.simulation.test_laws import CREATION, DONE, KEY, History

T = "order:1"
HOOK = StepKey(StepKind.HOOK, "token order:1", 1)
TAKE = [StepKey(StepKind.WAIT, "token order:1-1", turn) for turn in range(3)]
CHANNEL = channel("h1")
ONE, TWO = msgspec.Raw(b"1"), msgspec.Raw(b"2")


def row(
    stage: HookStage = HookStage.LIVE,
    *,
    hook_id: str = "h1",
    owner: str = "1",
    until_ms: int | None = None,
) -> HookRecord:
    return HookRecord(hook_id, "orders", owner, T, 0, retain_until_ms=until_ms, stage=stage)


def stores(*records: HookRecord) -> Commit:
    return Commit(hooks={record.hook_id: record for record in records})


class Holder(History):
    """The instance holds the token."""

    now_ms: int

    def __init__(self) -> None:
        super().__init__()
        self.then(HookCreated("h1", T), HOOK, row())

    def then(
        self,
        fact: Fact,
        step: StepKey | None = None,
        *records: HookRecord,
        after_ms: int = 0,
        cut: Cut | None = None,
    ) -> Holder:
        self.now_ms += after_ms
        self._seq += 1
        commit = stores(*records)
        commit.entries.append(EntryRow(1, self._seq, Entry(self.now_ms, step, fact)))
        if cut is not None:
            commit.cuts.append(cut)
        self.commit(commit)
        return self

    def passes(self, ms: int) -> Holder:
        self.now_ms += ms
        return self

    def receives(self, *payloads: msgspec.Raw) -> Holder:
        for payload in payloads:
            self.then(EventReceived(CHANNEL, payload))
        return self

    def takes(self, turn: int, payload: msgspec.Raw) -> Holder:
        self.then(WaitStarted(CHANNEL, 0, None), TAKE[turn])
        return self.then(WaitCompleted(9, 0, payload), TAKE[turn])

    def restarts(self, *put_back: msgspec.Raw, steps: frozenset[StepKey] | None) -> Holder:
        commit = Commit(cuts=[Cut(1, steps)])
        for fact in (WorkflowQueued(), *(EventReceived(CHANNEL, each) for each in put_back)):
            self._seq += 1
            commit.entries.append(EntryRow(1, self._seq, Entry(self.now_ms, None, fact)))
        self.commit(commit)
        return self

    def ends(self, stage: HookStage = HookStage.RELEASED, until_ms: int | None = None) -> Holder:
        return self.then(WorkflowSucceeded(DONE), None, row(stage, until_ms=until_ms))

    def told(
        self, outcome: str, *during: Fact | Commit, sent: tuple[str, str | None] = ("1", None)
    ) -> Holder:
        self.trace.add(Asked(1, 1, InstanceKey("", T), hooks.RESUME, sent))
        for happening in during:
            if isinstance(happening, Commit):
                self.commit(happening)
            else:
                self.then(happening)
        self.trace.add(Answered(1, outcome))
        return self

    def started(self, key: InstanceKey, outcome: str) -> Holder:
        self.trace.add(Asked(2, 1, key, "create", T))
        self.trace.add(Answered(2, outcome))
        return self


OTHERS = row(hook_id="h2", owner="2")

GOOD: dict[str, Callable[[], History]] = {
    "takes its payloads": lambda: Holder().receives(ONE, TWO).takes(0, ONE).takes(1, TWO).ends(),
    "gives up and another gets it": lambda: (
        Holder().then(HookDisposed(), HOOK, row(HookStage.RELEASED), OTHERS).ends()
    ),
    "is retained, and another gets it in time": lambda: (
        Holder().ends(HookStage.RETAINED, 100).passes(100).commit(stores(OTHERS))
    ),
    "is restarted": lambda: (
        Holder().receives(ONE, TWO).takes(0, ONE).restarts(ONE, TWO, steps=frozenset({TAKE[0]}))
        .takes(1, ONE).takes(2, TWO).ends()
    ),
    "is restarted after it had ended": lambda: (
        Holder().receives(ONE, TWO).takes(0, ONE).ends().restarts(ONE, steps=frozenset({TAKE[0]}))
        .then(HookReclaimed(), HOOK, row()).takes(1, ONE).ends()
    ),
    "is restarted as a whole": lambda: (
        Holder().receives(ONE).restarts(steps=None).then(HookCreated("h1", T), HOOK, row()).ends()
    ),
    "answers": lambda: (
        Holder().told("done", EventReceived(CHANNEL, ONE)).ends().told("hook_not_found")
    ),
    "answers a repetition": lambda: (
        Holder().then(EventReceived(CHANNEL, ONE, "resume r1")).told("done", sent=("1", "r1"))
        .told("resume_conflict", sent=("2", "r1")).ends()
    ),
    "refuses a start": lambda: (
        Holder().started(InstanceKey("orders", "t1"), "hook_conflict").ends()
    ),
}  # fmt: skip

BROKEN: dict[str, tuple[Callable[[Trace], None], Callable[[], History]]] = {
    "another gets a token that is held": (hooks.owner, lambda: Holder().commit(stores(OTHERS))),
    "another gets a token that is retained": (
        hooks.owner,
        lambda: Holder().ends(HookStage.RETAINED, 100).commit(stores(OTHERS)),
    ),
    "two get a token at once": (
        hooks.owner,
        lambda: History().commit(stores(row(), OTHERS)),
    ),
    "a hook is created and not stored": (
        hooks.owner,
        lambda: History().then(HookCreated("h1", T), HOOK),
    ),
    "an instance that is gone holds a token": (
        hooks.owner,
        lambda: Holder().commit(Commit(deleted=[1])),
    ),
    "the second payload is taken first": (
        hooks.payloads,
        lambda: Holder().receives(ONE, TWO).takes(0, TWO),
    ),
    "a payload is taken twice": (
        hooks.payloads,
        lambda: Holder().receives(ONE).takes(0, ONE).takes(1, ONE),
    ),
    "a payload is taken after the end": (
        hooks.payloads,
        lambda: Holder().receives(ONE).ends().restarts(steps=frozenset()).takes(0, ONE),
    ),
    "a restart loses a payload": (
        hooks.payloads,
        lambda: (
            Holder().receives(ONE, TWO).takes(0, ONE).restarts(ONE, steps=frozenset({TAKE[0]}))
            .then(HookDisposed(), HOOK, row(HookStage.RELEASED))
        ),
    ),
    "a restart puts payloads back in another order": (
        hooks.payloads,
        lambda: (
            Holder().receives(ONE, TWO).takes(0, ONE).restarts(TWO, ONE, steps=frozenset({TAKE[0]}))
        ),
    ),
    "an acknowledged payload is not there": (hooks.answered, lambda: Holder().told("done")),
    "an acknowledged payload came before": (
        hooks.answered,
        lambda: Holder().receives(ONE).told("done"),
    ),
    "a payload is refused by a hook that lives": (
        hooks.answered,
        lambda: Holder().told("hook_not_found"),
    ),
    "a resume id is in conflict with nothing": (
        hooks.answered,
        lambda: (
            Holder().then(EventReceived(CHANNEL, ONE, "resume r1"))
            .told("resume_conflict", sent=("1", "r1"))
        ),
    ),
    "a payload is there that a full disk refused": (
        hooks.answered,
        lambda: Holder().told("engine.stopped", EventReceived(CHANNEL, ONE)),
    ),
    "a start is refused for a token that is free": (
        hooks.answered,
        lambda: Holder().ends().started(InstanceKey("orders", "t1"), "hook_conflict"),
    ),
    "a refused start leaves an instance behind": (
        hooks.answered,
        lambda: Holder().started(KEY, "hook_conflict"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GOOD)
def test_a_good_life_breaks_no_law(what: str) -> None:
    trace = GOOD[what]().trace
    for law in (hooks.owner, hooks.payloads, hooks.answered):
        law(trace)


@pytest.mark.parametrize("what", BROKEN)
def test_a_law_notices_that(what: str) -> None:
    law, history = BROKEN[what]
    with pytest.raises(LawBroken, match=f"^{law.__name__}: "):
        law(history().trace)


def test_every_law_of_hooks_has_a_planted_violation() -> None:
    ours = {law for law in LAWS if law.__module__ == hooks.__name__}
    assert {law for law, _ in BROKEN.values()} == ours


def test_who_is_answered_by_a_process_that_crashed_cannot_know() -> None:
    history = Holder().told("engine.stopped", EventReceived(CHANNEL, ONE))
    history.trace.add(ProcessEnded(1, "crash"))
    hooks.answered(history.trace)


@pytest.mark.parametrize(
    ("ends", "disposes", "stored"),
    [
        (False, False, []),
        (False, False, [row(HookStage.RETAINED, until_ms=100)]),
        (False, False, [row(until_ms=99)]),
        (False, False, [row(until_ms=100), OTHERS]),
        (False, True, [row(until_ms=100)]),
        (True, False, [row(until_ms=100)]),
        (True, False, []),
    ],
)
def test_agreement_notices_another_table(
    ends: bool, disposes: bool, stored: list[HookRecord]
) -> None:
    entries: list[tuple[StepKey | None, Fact]] = [
        (None, WorkflowQueued()),
        (HOOK, HookCreated("h1", T, retain_until_ms=100)),
    ]
    entries += [(HOOK, HookDisposed())] if disposes else []
    entries += [(None, WorkflowSucceeded(DONE))] if ends else []
    numbered = enumerate(entries, 1)
    folded = fold(CREATION, ((seq, Entry(0, step, fact)) for seq, (step, fact) in numbered))
    stage = HookStage.RETAINED if ends else HookStage.LIVE
    true = [] if disposes else [row(stage, until_ms=100)]
    moments.agreement_of_hooks(folded, true, 50)
    with pytest.raises(LawBroken, match=r"^agreement: "):
        moments.agreement_of_hooks(folded, stored, 50)
    if ends:
        moments.agreement_of_hooks(folded, [], 100)


# Faults that are planted in the rules themselves.


def test_the_simulation_finds_rules_that_let_everybody_have_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def conflict(token: str, holder: HookRecord | None, now_ms: int) -> HookConflictError | None:
        return None

    monkeypatch.setattr(rules, "conflict", conflict)
    assert "agreement: " in _first_failure()


def test_the_simulation_finds_rules_that_forget_payloads_in_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    survivors = rules.survivors

    def forgetful(state: InstanceState, first_seq: int) -> rules.Survivors:
        return rules.Survivors(survivors(state, first_seq).hooks, [])

    monkeypatch.setattr(rules, "survivors", forgetful)
    assert "payloads: " in _first_failure()


def test_the_simulation_finds_an_engine_that_acknowledges_what_it_drops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resume(engine: Engine, token: TokenKey, *_: object) -> HookRecord:
        return await holder(engine, token)

    monkeypatch.setattr(simulation, "resume", resume)
    assert "answered: " in _first_failure()


def _first_failure() -> str:
    for seed in range(300):
        try:
            Simulation(seed).run()
        except SimulationFailed as failure:
            return str(failure)
    return "no seed failed"
