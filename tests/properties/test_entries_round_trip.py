"""Every entry comes back from its row as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.domain.entries import FACTS
from emulator.domain.instance import InstanceKey
from emulator.journal.port import EntryRow
from emulator.journal.rows import entry_from_row, entry_to_row, to_json
from tests.strategies import entries_of, facts_of


@pytest.mark.parametrize("event", sorted(FACTS))
@settings(max_examples=40)
@given(data=st.data())
def test_every_fact_comes_back_from_its_row(event: int, data: st.DataObject) -> None:
    entry = data.draw(facts_of(FACTS[event]).flatmap(entries_of))
    number, seq, event, at_ms, step, fact = entry_to_row(EntryRow(3, 7, entry))
    stored = (number, seq, event, at_ms, step, to_json(fact))
    assert entry_from_row(stored, InstanceKey("orders", "42")) == entry
