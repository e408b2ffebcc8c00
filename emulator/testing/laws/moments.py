"""The laws of a moment, asked at every commit; and those of two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from emulator.core.state import InstanceState
from emulator.domain.hooks import HookRecord, HookStage
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.port import InstanceRow
from emulator.testing.laws.breach import LawBroken
from emulator.testing.trace import (
    Trace,
)


def fold(live: InstanceState, folded: InstanceState) -> None:
    """The live state equals the fold of the journal."""
    for name in InstanceState.__slots__:
        mine, theirs = getattr(live, name), getattr(folded, name)
        if name != "life" and mine != theirs:
            text = f"{name} is {mine} live, {theirs} by the journal"
            raise LawBroken("fold", live.creation.key, text)


def agreement_of_row(row: InstanceRow, folded: InstanceState) -> None:
    """The row of an instance and the fold of its journal say the same."""
    shown = (row.status, row.modified_ms, row.started_ms, row.ended_ms, dict(row.attributes))
    true = (
        folded.status,
        folded.modified_ms,
        folded.started_ms,
        folded.ended_ms,
        folded.attributes,
    )
    if shown != true:
        raise LawBroken("agreement", row.creation.key, f"the row says {shown}, the fold {true}")


def agreement_of_hooks(folded: InstanceState, stored: Iterable[HookRecord], now_ms: int) -> None:
    """The hooks of an instance by the journal's table and by the fold of its journal are the same.

    What the end has left of a token may have gone, or to somebody else, once its time was up.
    """
    shown = {hook.hook_id: hook for hook in stored}
    for hook in folded.hooks.values():
        row = shown.pop(hook.hook_id, None)
        held_ms = 0 if hook.retain_until_ms is None else hook.retain_until_ms
        is_live = not folded.is_terminal and not hook.disposed_seq
        is_retained = folded.is_terminal and not hook.disposed_seq and held_ms > now_ms
        stage = row and row.stage
        if (is_live and stage is not HookStage.LIVE) or (is_retained and stage is None):
            text = f"{hook.token} is {stage} in the table, and held by the fold"
            raise LawBroken("agreement", folded.creation.key, text)
        is_over = folded.is_terminal and stage is HookStage.LIVE
        if is_over or (hook.disposed_seq and row is not None):
            text = f"{hook.token} is {stage} in the table, and not held by the fold"
            raise LawBroken("agreement", folded.creation.key, text)
        if row is not None and row.retain_until_ms != hook.retain_until_ms:
            text = (
                f"{hook.token} is retained until {row.retain_until_ms}, by the fold until {held_ms}"
            )
            raise LawBroken("agreement", folded.creation.key, text)
    for row in shown.values():
        if row.stage is HookStage.LIVE:
            raise LawBroken("agreement", folded.creation.key, f"{row.token} is not in the fold")


def agreement_of_counts(
    statuses: Iterable[InstanceStatus], counts: Mapping[InstanceStatus, int], where: str
) -> None:
    """The counts of a workflow's instances by status are those of its rows."""
    counted = Counter(statuses)
    if counted != counts:
        raise LawBroken("agreement", where, f"the counts are {dict(counts)}, the rows {counted}")


def deadlines(folded: InstanceState, kept: Mapping[StepKey, int]) -> None:
    """The stored timers of an instance that waits are deadlines of open steps; no sleep and no wait is without one."""
    if folded.status is not InstanceStatus.WAITING:
        return
    meant = {step.key: step.due_ms for step in folded.open.values() if step.due_ms is not None}
    for step in kept.keys() | meant.keys():
        # A retry that is due has none any more: it starts when the code asks for its step.
        is_retry = step.kind is StepKind.DO and step not in kept
        if kept.get(step) != meant.get(step) and not is_retry:
            text = f"the timer of {step.label} is {kept.get(step)}, its deadline {meant.get(step)}"
            raise LawBroken("deadlines", folded.creation.key, text)


def slots(statuses: Iterable[InstanceStatus], limit: int | None, where: str) -> None:
    """Never more instances of a workflow run than it has slots."""
    running = sum(
        status in (InstanceStatus.RUNNING, InstanceStatus.WAITING_FOR_PAUSE) for status in statuses
    )
    if limit is not None and running > limit:
        raise LawBroken("slots", where, f"{running} run, {limit} may")


def determinism(first: Trace, second: Trace) -> None:
    """The same seed leaves the same trace, byte for byte."""
    lines = zip(first.text().split("\n"), second.text().split("\n"), strict=False)
    for place, (one, other) in enumerate(lines):
        if one != other:
            raise LawBroken("determinism", f"record {place}", f"once {one}, then {other}")
    if len(first.records) != len(second.records):
        raise LawBroken(
            "determinism", "length", f"{len(first.records)} and {len(second.records)} records"
        )


def seclusion(tenant: str, alone: Sequence[str], beside: Sequence[str]) -> None:
    """What a tenant asks, is answered and has in its journals is the same whether there are other tenants or not."""
    for place, (one, other) in enumerate(zip(alone, beside, strict=False)):
        if one != other:
            text = f"alone: {one}, beside others: {other}"
            raise LawBroken("seclusion", f"{tenant}, line {place}", text)
    if len(alone) != len(beside):
        text = f"{len(alone)} lines alone, {len(beside)} beside others"
        raise LawBroken("seclusion", tenant, text)
