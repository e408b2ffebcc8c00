"""The engine under crashes, full disks, jumping clocks and impatient clients: whatever the seed, the laws hold."""

from __future__ import annotations

import pytest

from emulator.engine import admission
from emulator.testing.laws import moments
from emulator.testing.simulation import Simulation


def test_the_laws_hold_for_seed(seed: int) -> None:
    Simulation(seed).run()


def test_the_laws_hold_if_only_the_first_of_a_queue_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "HEAD_KEYS", 1)
    for seed in range(30):
        Simulation(seed).run()


def test_a_fault_that_was_found_stays_away(regression: int) -> None:
    Simulation(regression).run()


def test_the_same_seed_leaves_the_same_trace() -> None:
    for seed in range(20):
        moments.determinism(Simulation(seed).run(), Simulation(seed).run())


def test_seeds_differ() -> None:
    traces = {Simulation(seed).run().text() for seed in range(10)}
    assert len(traces) == 10
