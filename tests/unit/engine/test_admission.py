"""The slots of one workflow and the two lines before them, without an engine."""

from __future__ import annotations

import msgspec
import pytest

from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.engine import admission
from emulator.engine.admission import HOLDS_A_SLOT, Admission, refill
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, InstanceRow

S = InstanceStatus


class Slots:
    """An admission, and a journal that is told what an engine would tell it; `granted` are those who came out of the queue."""

    def __init__(self, limit: int | None) -> None:
        self.granted: list[str] = []
        self.admission = Admission("orders", limit, lambda key: self.granted.append(key.id))
        self._journal = MemoryJournal()
        self._rows: dict[str, InstanceRow] = {}

    async def store(self, name: str, status: InstanceStatus, *, waking: bool = False) -> None:
        """Commit that an instance is so."""
        before = self._rows.get(name)
        number = len(self._rows) + 1 if before is None else before.number
        made = Creation("orders", name, msgspec.Raw(b"null"), 1)
        row = self._rows[name] = InstanceRow(number, made, status, 1, waking=waking)
        created = [row] if before is None else []
        await self._journal.commit(Commit(created=created, updated={number: row}))

    async def asks(self, name: str, *, waking: bool = False) -> bool:
        """Ask for a slot; whether there was one."""
        has_slot = self.admission.acquire(_key(name), waking=waking)
        await self.becomes(name, S.RUNNING if has_slot else S.QUEUED, waking=waking)
        return has_slot

    async def becomes(self, name: str, status: InstanceStatus, *, waking: bool = False) -> None:
        """Take note of a status, and store it."""
        self.admission.settle(_key(name), status)
        await self.store(name, status, waking=waking)

    async def refill(self) -> None:
        """Look into the journal, if there is a reason to."""
        await refill([self.admission], self._journal)


def _key(name: str) -> InstanceKey:
    return InstanceKey("orders", name)


async def full(*waiting: str, limit: int = 1) -> Slots:
    """All slots are taken, by `h1`, `h2` and so on; nobody stood in the queue before these."""
    slots = Slots(limit)
    await slots.refill()
    for number in range(limit):
        assert await slots.asks(f"h{number + 1}")
    for name in waiting:
        assert not await slots.asks(name)
    return slots


@pytest.mark.parametrize("waking", [True, False])
async def test_who_stood_in_the_queue_in_a_former_life_goes_before_who_comes(
    *, waking: bool
) -> None:
    slots = Slots(1)
    await slots.store("old", S.QUEUED, waking=waking)
    assert not await slots.asks("new", waking=waking)
    await slots.refill()
    assert slots.granted == ["old"]


async def test_who_wakes_goes_before_who_is_new() -> None:
    slots = await full("new")
    assert not await slots.asks("woken", waking=True)
    await slots.becomes("h1", S.COMPLETE)
    assert slots.granted == ["woken"]
    await slots.becomes("woken", S.RUNNING)
    await slots.becomes("woken", S.COMPLETE)
    assert slots.granted == ["woken", "new"]


async def test_nobody_is_looked_for_in_the_journal_without_a_slot() -> None:
    slots = Slots(1)
    assert slots.admission.is_short
    slots.admission.claim(_key("holder"))
    assert not slots.admission.is_short


async def test_nobody_is_looked_for_while_one_who_has_a_slot_has_not_heard_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "HEAD_KEYS", 1)
    slots = Slots(2)
    await slots.store("a", S.QUEUED)
    await slots.store("b", S.QUEUED)
    await slots.store("c", S.QUEUED)
    await slots.refill()
    assert slots.granted == ["a"]
    assert not slots.admission.is_short
    await slots.becomes("a", S.RUNNING)
    await slots.refill()
    assert slots.granted == ["a", "b"]


async def test_a_free_slot_is_for_who_wakes_and_not_for_who_is_newer_than_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "HEAD_KEYS", 1)
    slots = Slots(3)
    await slots.store("a", S.QUEUED)
    await slots.store("b", S.QUEUED)
    await slots.refill()
    assert slots.granted == ["a"], "of b only the journal knows"
    assert not await slots.asks("late")
    assert await slots.asks("woken", waking=True)


@pytest.mark.parametrize("status", S)
async def test_who_runs_pauses_or_is_rolled_back_keeps_his_slot(status: InstanceStatus) -> None:
    slots = await full("next")
    await slots.becomes("h1", status)
    keeps = status in HOLDS_A_SLOT or status is S.QUEUED
    assert slots.granted == ([] if keeps else ["next"])
    assert slots.admission.holds(_key("h1")) is keeps


async def test_who_has_a_slot_need_not_ask_for_it_again() -> None:
    slots = await full("next")
    assert await slots.asks("h1", waking=True)


async def test_only_as_many_get_their_slots_back_as_there_are() -> None:
    slots = Slots(1)
    for name in ("a", "b"):
        slots.admission.claim(_key(name))
    assert slots.admission.holds(_key("a"))
    assert not slots.admission.holds(_key("b"))


@pytest.mark.parametrize("waking", [True, False])
async def test_who_has_left_the_queue_gets_no_slot(*, waking: bool) -> None:
    slots = await full()
    assert not await slots.asks("gone", waking=waking)
    assert not await slots.asks("next", waking=waking)
    await slots.becomes("gone", S.PAUSED)
    await slots.becomes("h1", S.COMPLETE)
    assert slots.granted == ["next"]


async def test_who_stands_in_one_line_and_asks_for_the_other_gets_one_slot() -> None:
    slots = await full("twice", limit=2)
    assert not await slots.asks("twice", waking=True)
    await slots.becomes("h1", S.COMPLETE)
    await slots.becomes("h2", S.COMPLETE)
    assert slots.granted == ["twice"]


async def test_without_a_limit_all_have_slots() -> None:
    slots = Slots(None)
    await slots.refill()
    assert all([await slots.asks(str(number)) for number in range(100)])
