"""What everybody is told when the engine has stopped by itself."""

import pytest

from emulator.engine.turn import stopped_by
from emulator.errors import (
    EngineStopped,
    JournalCorrupt,
    JournalRemoved,
    JournalUnavailable,
    StorageError,
)

KEPT = EngineStopped().hint


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (JournalUnavailable("The disk is full."), KEPT),
        (RuntimeError("a bug"), KEPT),
        (JournalRemoved("It has gone."), JournalRemoved.hint),
        (JournalCorrupt("It is damaged."), ""),
    ],
)
def test_only_a_journal_that_is_whole_is_promised_to_be_there(reason: Exception, hint: str) -> None:
    stopped = stopped_by(reason)
    assert stopped.hint == hint
    assert getattr(stopped, "__notes__", []) == ([hint] if hint else [])
    if isinstance(reason, StorageError):
        assert reason.message in stopped.message
