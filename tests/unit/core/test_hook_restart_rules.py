"""What a restart does to hooks: the whole takes the token of the start again, a part keeps what was before (P10)."""

from __future__ import annotations

import pytest

from emulator.core.inputs import (
    EventSent,
    RestartRequested,
    RunReturned,
    SlotGranted,
    TerminateRequested,
)
from emulator.domain.entries import EventReceived, HookCreated, HookReclaimed
from emulator.domain.hooks import HookRecord, HookStage, MinRetention
from emulator.domain.status import InstanceStatus
from emulator.errors import HookConflictError, StepNotFound
from tests.unit.core.test_hook_rules import (
    CHANNEL,
    RETENTION,
    THREE,
    TWO,
    T,
    disposes,
    held_by,
    hook,
    opened,
    opens,
    receives,
    resumes,
    started,
    take,
)
from tests.unit.core.vocabulary import LIVE, NULL, ONE, Case, asks_do, do, returns

A, B = do("a"), do("b")


def done(case: Case, *names: str) -> Case:
    for name in names:
        case.when(asks_do(name), returns(name))
    return case


def test_a_restart_of_the_whole_takes_the_token_of_the_start_again() -> None:
    case = done(started().when(opens()), "a").when(RunReturned(LIVE, ONE))
    assert not case.stored.hooks
    case.at(50).when(RestartRequested())
    assert case.stored.hooks["h1"].stage is HookStage.LIVE
    assert case.state.hooks["h1"].at_start
    case.and_slot().when(opens())
    assert case.resolved == [hook()]
    assert not case.last.entries, "it binds again"


def test_a_hook_is_no_step_to_restart_from() -> None:
    case = opened().when(RestartRequested(A)).then_refused(StepNotFound)
    assert case.last.refusal is not None
    assert case.last.refusal.hint.startswith("It has these steps: none. ")


def test_a_token_that_was_given_up_is_taken_again_too() -> None:
    case = started().when(opens(), disposes()).when(RestartRequested())
    assert case.stored.hooks["h1"].stage is HookStage.LIVE


@pytest.mark.parametrize(
    ("retention", "at_ms", "until_ms"),
    [
        (MinRetention(duration_ms=1_000), 300, 1_300),
        (MinRetention(until_ms=1_000), 300, 1_000),
        (MinRetention(until_ms=1_000), 3_000, 1_000),
        (None, 300, None),
    ],
)
def test_its_deadline_is_the_later_of_the_old_and_a_new_one(
    retention: MinRetention | None, at_ms: int, until_ms: int | None
) -> None:
    case = started(retention).at(at_ms).when(RestartRequested())
    assert case.stored.hooks["h1"].retain_until_ms == until_ms
    fact = next(each.fact for _, each in case.last.entries if isinstance(each.fact, HookCreated))
    assert fact.retain_until_ms == until_ms


def test_a_longer_deadline_of_the_old_run_is_kept() -> None:
    case = started(RETENTION).when(opens(retention=MinRetention(duration_ms=9_000)))
    case.at(100).when(RestartRequested())
    assert case.stored.hooks["h1"].retain_until_ms == 9_000


def test_a_restart_of_the_whole_drops_payloads_and_the_hooks_of_the_run() -> None:
    case = started().when(opens(), resumes(ONE), disposes(), opens(2))
    case.when(resumes(TWO, hook_id="h2"), RestartRequested())
    assert not case.state.mailbox
    assert list(case.stored.hooks) == ["h1"]
    assert case.last.hooks["h2"].stage is HookStage.RELEASED


@pytest.mark.parametrize("ends", [False, True])
def test_a_restart_is_refused_when_another_holds_the_token(ends: bool) -> None:
    case = started(RETENTION).when(opens(), disposes())
    if ends:
        case.when(TerminateRequested())
    before = case.state.status
    case.when(RestartRequested(None, (held_by("2"),))).then_refused(HookConflictError)
    refusal = case.last.refusal
    assert isinstance(refusal, HookConflictError)
    assert (refusal.token, refusal.conflicting_run_id) == (T, "2")
    assert refusal.conflicting_workflow == "mail"
    case.then_status(before)


def test_ones_own_hook_and_an_expired_one_are_in_nobodys_way() -> None:
    case = started(RETENTION).when(RunReturned(LIVE, ONE))
    case.when(RestartRequested(None, (case.stored.hooks["h1"],)))
    case.then_status(InstanceStatus.QUEUED)
    case.at(100).when(RestartRequested(None, (held_by("2", HookStage.RETAINED, 100),)))
    case.then_status(InstanceStatus.QUEUED)


def test_a_restart_from_a_step_keeps_hooks_and_payloads_from_before_it() -> None:
    case = opened().when(resumes(ONE), receives(1))
    case = done(case, "a").when(resumes(TWO), receives(2), resumes(THREE))
    case.when(RestartRequested(A))
    assert case.stored.hooks["h1"].stage is HookStage.LIVE
    case.and_slot().when(opens(), receives(1), asks_do("a"), returns("a"))
    case.when(receives(2))
    assert case.resolved == [take(2)]
    assert _payload(case, 2) == TWO
    case.when(receives(3))
    assert _payload(case, 3) == THREE


def test_a_restart_from_a_step_takes_the_hooks_again_that_the_end_freed() -> None:
    case = done(opened(), "a").when(RunReturned(LIVE, ONE))
    assert not case.stored.hooks
    case.when(RestartRequested(A))
    assert case.stored.hooks["h1"].stage is HookStage.LIVE
    case.and_slot().when(opens(), resumes(), receives())
    assert case.resolved == [take(1)]


def test_a_restart_from_a_step_takes_a_hook_again_that_was_given_up_after_it() -> None:
    case = done(opened(), "a").when(disposes())
    case.when(RestartRequested(A))
    assert (hook(), HookReclaimed()) in [(each.step, each.fact) for _, each in case.last.entries]
    assert case.stored.hooks["h1"].stage is HookStage.LIVE
    case.when(SlotGranted(), opens(), disposes())
    assert not case.stored.hooks, "and gives it up again"


def test_a_restart_from_a_step_leaves_a_hook_that_was_given_up_before_it() -> None:
    case = done(opened().when(disposes()), "a").when(RestartRequested(A, (held_by("2"),)))
    case.then_status(InstanceStatus.QUEUED)
    assert not case.stored.hooks


def test_a_restart_from_a_step_removes_the_hooks_that_came_after_it() -> None:
    case = done(opened(), "a").when(disposes(), opens(2)).when(RestartRequested(A))
    assert list(case.stored.hooks) == ["h1"]
    assert list(case.state.hooks) == ["h1"]


def test_a_restart_from_a_step_is_refused_when_another_holds_a_token_that_it_keeps() -> None:
    case = done(opened(), "a").when(disposes())
    case.when(RestartRequested(A, (held_by("2"),))).then_refused(HookConflictError)
    case.then_status(InstanceStatus.RUNNING)


def test_a_restart_from_the_claim_holds_it_on() -> None:
    case = done(started(RETENTION).when(opens()), "a").at(10).when(RestartRequested(hook()))
    assert case.stored.hooks["h1"].retain_until_ms == 1_010
    assert case.state.hooks["h1"].at_start
    case.when(RestartRequested(hook(), (held_by("2"),))).then_refused(HookConflictError)


def test_payloads_of_a_kept_hook_stay_and_events_go() -> None:
    case = done(opened().when(resumes(), EventSent("paid")), "a").when(RestartRequested(A))
    assert [event.event_type for event in case.state.mailbox.values()] == [CHANNEL]
    assert EventReceived(CHANNEL, ONE) in [each.fact for _, each in case.last.entries]


def test_a_resume_id_is_known_after_a_restart_that_keeps_its_payload() -> None:
    case = done(opened().when(resumes(ONE, "r1")), "a").when(RestartRequested(A))
    case.when(resumes(ONE, "r1")).then_nothing()
    case.when(RestartRequested())
    assert not case.state.deliveries


def test_a_wait_from_before_the_step_keeps_what_it_took() -> None:
    case = done(opened().when(receives(1)), "a").when(resumes(ONE), RestartRequested(A))
    assert not case.state.mailbox
    case.and_slot().when(opens(), receives(1))
    assert case.resolved == [take(1)]


def test_a_restart_from_the_wait_that_took_a_payload_gives_it_back() -> None:
    case = opened().when(receives(), resumes(), RestartRequested(take(1)))
    assert EventReceived(CHANNEL, ONE) in [each.fact for _, each in case.last.entries]
    case.and_slot().when(opens(), receives())
    assert case.resolved == [take(1)]


def test_a_conflict_from_before_the_step_stays_and_one_from_after_is_asked_anew() -> None:
    case = done(started().when(opens(2, holder=held_by("2"))), "a")
    case.when(opens(3, holder=held_by("2"))).when(RestartRequested(A))
    assert hook(2) in case.state.steps
    assert hook(3) not in case.state.steps


def _payload(case: Case, turn: int) -> object:
    return getattr(case.state.steps[take(turn)].outcome, "payload", NULL)


def test_a_record_tells_the_restart_who_holds_a_token() -> None:
    holder = HookRecord("hx", "mail", "9", "another", 0)
    started().when(RestartRequested(None, (holder,))).then_status(InstanceStatus.QUEUED)
