"""What the process of a tenant says: nothing of it may be more than the engine can store, or stop anybody else."""

from __future__ import annotations

import msgspec
import pytest

from bindings.dynamic import messages
from bindings.dynamic.messages import FromProcess
from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.domain.hooks import MinRetention, check_retention
from emulator.domain.limits import MAX_HOOK_RETENTION_MS
from emulator.errors import HookRetentionTooLong, InvalidHook

NOW_MS = 1_800_000_000_000
NULL = messages.NULL
CONFIG = PRODUCTION_DEFAULTS


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


EVERYTHING: list[messages.Message] = [
    messages.AskDo(1, 1, "a", CONFIG, False, None, False),
    messages.AskSleep(1, 1, "a", 1),
    messages.AskSleepUntil(1, 1, "a", 1),
    messages.AskWait(1, 1, "a", "go", 1),
    messages.AskHook(1, 1, None, None, NULL, None, False),
    messages.AskReceive(1, 1, 1, 1, 1, 1),
    messages.DisposeHook(1, 1),
    messages.AskHost(1, 1, messages.FindCall("a")),
    messages.Abandon(1, 1),
    messages.Quiet(1),
    messages.Ended(1, NULL),
    messages.Failed(1, messages.Told("Error", "no")),
    messages.Returned(1, NULL),
    messages.Raised(1, messages.Told("Error", "no"), True),
]


@pytest.mark.parametrize("said", EVERYTHING, ids=lambda said: type(said).__name__)
def test_a_number_that_no_journal_holds_is_no_message(said: messages.Message) -> None:
    numbers = [name for name in said.__struct_fields__ if type(getattr(said, name)) is int]
    assert numbers
    for name in numbers:
        for number in (2**53, -(10**40)):
            forged = msgspec.json.encode(msgspec.structs.replace(said, **{name: number}))
            with pytest.raises(msgspec.ValidationError, match=name):
                msgspec.json.decode(forged, type=FromProcess)


def test_every_message_of_a_process_is_tried() -> None:
    tried = {type(said) for said in EVERYTHING}
    assert tried == {*FromProcess.__args__} - {messages.Pong}
