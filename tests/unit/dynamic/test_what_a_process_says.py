"""What the process of a tenant says: nothing of it may be more than the engine can store, or stop anybody else."""

from __future__ import annotations

import pytest

from emulator.domain.hooks import MinRetention, check_retention
from emulator.domain.limits import MAX_HOOK_RETENTION_MS
from emulator.errors import HookRetentionTooLong, InvalidHook

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("given", [{"until_ms": -(10**40)}, {"until_ms": -1}, {"duration_ms": 0}])
def test_a_retention_is_a_number_that_can_be_stored(given: dict[str, int]) -> None:
    with pytest.raises(InvalidHook):
        check_retention(MinRetention(**given), NOW_MS)


@pytest.mark.parametrize("far", [MAX_HOOK_RETENTION_MS + 1, 10**40])
def test_a_retention_has_an_end(far: int) -> None:
    for given in (MinRetention(duration_ms=far), MinRetention(until_ms=NOW_MS + far)):
        with pytest.raises(HookRetentionTooLong):
            check_retention(given, NOW_MS)


def test_an_instant_may_have_passed_since_the_code_named_it() -> None:
    """A replay opens the hook again with the same words, however late."""
    given = MinRetention(until_ms=NOW_MS - 1)
    assert check_retention(given, NOW_MS) is given
