"""Hooks: tokens and payloads (specification of hooks 1, 2, 10.3)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from emulator.core.effects import HookOwner, RequestSlot, ResolveStep
from emulator.core.inputs import (
    AttributesRequested,
    CreateRequested,
    DeleteRequested,
    HookDisposeRequested,
    HookRequested,
    HookResumed,
    PauseRequested,
    ReceiveRequested,
    Recovered,
    RestartRequested,
    ResumeRequested,
    RunParked,
    RunRaised,
    RunReturned,
    SlotGranted,
    TerminateRequested,
    TimerFired,
    UnloadRequested,
    WakeUpRequested,
)
from emulator.domain.entries import (
    AttributesChanged,
    EventReceived,
    HookBound,
    HookConflicted,
    HookCreated,
    HookDisposed,
    SleepCompleted,
    WaitCompleted,
    WaitStarted,
    WaitTimedOut,
    WorkflowQueued,
    channel,
)
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord, HookRequest, HookStage, MinRetention, step_name
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import (
    HookNotFoundError,
    HookResumeConflictError,
    InstanceFinished,
    InvalidAttributes,
)
from tests.unit.core.vocabulary import (
    BOOM,
    CONFIG,
    LIVE,
    NULL,
    ONE,
    Case,
    asks_do,
    asks_sleep,
    given,
    raises,
    returns,
    running,
    sleep,
)

T = "order:1"
TWO = msgspec.Raw(b"2")
THREE = msgspec.Raw(b"3")
CHANNEL = channel("h1")
RETENTION = MinRetention(duration_ms=1_000)


def hook(count: int = 1, token: str = T) -> StepKey:
    return StepKey(StepKind.HOOK, step_name(token, None), count)


def take(turn: int, count: int = 1) -> StepKey:
    return StepKey(StepKind.WAIT, hook(count).label, turn)


def wants(
    hook_id: str = "h1", token: str = T, retention: MinRetention | None = None
) -> HookRequest:
    return HookRequest(hook_id, token, min_retention=retention)


def opens(
    count: int = 1,
    *,
    holder: HookRecord | None = None,
    retention: MinRetention | None = None,
    metadata: msgspec.Raw = NULL,
    schema: str | None = None,
) -> HookRequested:
    request = HookRequest(f"h{count}", T, metadata, retention, schema=schema)
    return HookRequested(LIVE, hook(count), request, holder)


def receives(
    turn: int = 1, count: int = 1, timeout_ms: int | None = None, again: int = 0
) -> ReceiveRequested:
    return ReceiveRequested(LIVE, take(turn, count), f"h{count}", timeout_ms, again)


def disposes(count: int = 1) -> HookDisposeRequested:
    return HookDisposeRequested(LIVE, f"h{count}")


def resumes(
    payload: msgspec.Raw = ONE, resume_id: str | None = None, hook_id: str = "h1"
) -> HookResumed:
    return HookResumed(hook_id, payload, resume_id)


def held_by(
    instance_id: str, stage: HookStage = HookStage.LIVE, until_ms: int | None = None
) -> HookRecord:
    return HookRecord("hx", "mail", instance_id, T, 0, retain_until_ms=until_ms, stage=stage)


def created(retention: MinRetention | None = None) -> Case:
    """Created with a token, and not begun."""
    return given().when(CreateRequested(wants(retention=retention)))


def started(retention: MinRetention | None = None) -> Case:
    """Created with a token, and running."""
    return created(retention).and_slot()


def opened() -> Case:
    """It runs, and has opened a hook itself."""
    return running().when(opens())


# claims and registrations


def test_what_create_claims_is_held_with_the_first_entry() -> None:
    case = created(RETENTION)
    case.then(
        WorkflowQueued(),
        hook(),
        HookCreated("h1", T, NULL, 1_000, 1_000, at_start=True),
        RequestSlot(waking=False),
    )
    assert case.stored.hooks["h1"].stage is HookStage.LIVE


def test_opening_the_claim_registers_nothing() -> None:
    case = started().when(opens(holder=held_by("1001")))
    case.then(ResolveStep(hook(), None, 2))


def test_opening_the_claim_can_retain_it_longer_and_never_shorter() -> None:
    case = started(RETENTION).at(500).when(opens(retention=MinRetention(duration_ms=400)))
    case.then(hook(), HookBound(1_000, NULL), ResolveStep(hook(), None, 2))
    case = started(RETENTION).at(500).when(opens(retention=MinRetention(until_ms=1_001)))
    case.then(hook(), HookBound(1_001, NULL), ResolveStep(hook(), None, 2))
    assert case.stored.hooks["h1"].retain_until_ms == 1_001


def test_opening_the_claim_adds_metadata_and_schema_once() -> None:
    case = started().when(opens(metadata=ONE, schema="m:A"))
    case.then(hook(), HookBound(None, ONE, "m:A"), ResolveStep(hook(), None, 2))
    case.crash().when(Recovered()).and_slot()
    case.at(900).when(opens(metadata=TWO, retention=RETENTION))
    case.then(ResolveStep(hook(), None, 2))


def test_opening_the_claim_can_add_one_of_them_alone() -> None:
    case = started().when(opens(metadata=ONE))
    case.then(hook(), HookBound(None, ONE), ResolveStep(hook(), None, 2))
    case = started().when(opens(schema="m:A"))
    case.then(hook(), HookBound(None, NULL, "m:A"), ResolveStep(hook(), None, 2))


def test_metadata_of_the_start_stays() -> None:
    request = HookRequest("h1", T, ONE)
    case = given().when(CreateRequested(request)).and_slot().when(opens(metadata=TWO, schema="m:A"))
    assert case.stored.hooks["h1"].metadata == ONE
    assert case.stored.hooks["h1"].schema == "m:A"


def test_a_free_token_is_held_at_once_and_by_the_replay_too() -> None:
    case = running().at(5).when(opens(retention=RETENTION))
    fact = HookCreated("h1", T, NULL, 1_005, 1_000)
    case.then(hook(), fact, ResolveStep(hook(), None, case.state.seq))
    seq = case.state.seq
    case.crash().when(Recovered()).and_slot().at(77).when(opens(retention=RETENTION))
    case.then(ResolveStep(hook(), None, seq))
    assert case.stored.hooks["h1"].retain_until_ms == 1_005, "counted from the first registration"


@pytest.mark.parametrize(
    "holder",
    [
        held_by("2"),
        held_by("2", until_ms=1),
        held_by("2", HookStage.RETAINED, 101),
    ],
)
def test_a_taken_token_is_a_conflict_that_names_the_owner_for_ever(holder: HookRecord) -> None:
    case = running().at(100).when(opens(holder=holder))
    owner = HookOwner("mail", "2")
    case.then(hook(), HookConflicted(T, "mail", "2"), ResolveStep(hook(), owner, case.state.seq))
    assert not case.stored.hooks
    seq = case.state.seq
    case.crash().when(Recovered()).and_slot().when(opens())
    case.then(ResolveStep(hook(), owner, seq))


@pytest.mark.parametrize(
    "holder", [held_by("2", HookStage.RETAINED, 100), held_by("2", HookStage.RELEASED)]
)
def test_a_token_whose_time_is_up_is_free(holder: HookRecord) -> None:
    case = running().at(100).when(opens(holder=holder))
    assert case.stored.hooks["h1"].instance_id == "1001"


def test_a_second_hook_of_ones_own_token_is_a_conflict_with_oneself() -> None:
    case = opened()
    case.when(opens(2, holder=case.stored.hooks["h1"]))
    assert case.state.steps[hook(2)].outcome == HookOwner("orders", "1001")


def test_a_token_can_be_opened_again_after_it_was_given_up() -> None:
    case = started().when(opens(), disposes())
    released = held_by("1001", HookStage.RELEASED)
    case.when(opens(2, holder=released))
    assert list(case.stored.hooks) == ["h2"]
    assert not case.stored.hooks["h2"].retain_until_ms


def test_a_hook_is_registered_while_a_pause_is_pending() -> None:
    case = running().when(asks_do("a"), PauseRequested(), opens(), returns("a"))
    case.then_status(InstanceStatus.PAUSED)
    assert "h1" in case.stored.hooks


def test_a_hook_that_is_opened_by_code_that_rested_is_answered_when_it_may_run() -> None:
    case = running().when(asks_sleep("nap"), RunParked(LIVE)).when(opens())
    assert not case.resolved
    case.and_slot()
    assert case.resolved == [hook()]


# payloads


def test_payloads_wait_for_the_code_and_are_taken_in_their_order() -> None:
    case = created().when(resumes(ONE)).then(EventReceived(CHANNEL, ONE))
    case.when(resumes(TWO), resumes(THREE)).when(SlotGranted(), opens())
    for turn, payload in enumerate((ONE, TWO, THREE), 1):
        case.when(receives(turn))
        assert case.resolved == [take(turn)]
        outcome = case.state.steps[take(turn)].outcome
        assert getattr(outcome, "payload", None) == payload
    case.when(receives(4)).then(take(4), WaitStarted(CHANNEL, 0, None))
    assert not case.state.mailbox


def test_a_payload_is_taken_by_whoever_waits_longest() -> None:
    case = opened().when(receives(1), receives(2), resumes())
    assert case.resolved == [take(1)]
    assert case.when(resumes(TWO)).resolved == [take(2)]


def test_a_wait_for_a_payload_can_have_a_timeout() -> None:
    case = opened().when(receives(timeout_ms=50)).then_armed(**{hook().label: 50})
    case.at(50).when(TimerFired(take(1), 50))
    assert case.resolved == [take(1)]
    assert case.when(resumes()).then(EventReceived(CHANNEL, ONE)).state.mailbox


def test_a_payload_wakes_an_instance_that_has_left_memory() -> None:
    case = opened().when(receives(), RunParked(LIVE), UnloadRequested(LIVE))
    case.then_status(InstanceStatus.WAITING)
    case.when(resumes()).and_slot().when(opens(), receives())
    assert case.resolved == [take(1)]


def test_a_pause_buffers_payloads() -> None:
    case = opened().when(receives(), PauseRequested())
    case.when(resumes(ONE)).then(EventReceived(CHANNEL, ONE)).when(resumes(TWO))
    case.then_status(InstanceStatus.PAUSED)
    case.when(ResumeRequested()).and_slot().when(opens(), receives())
    assert case.resolved == [take(1)]
    assert case.when(receives(2)).resolved == [take(2)]


def test_hooks_do_not_take_each_others_payloads_nor_an_events() -> None:
    case = opened().when(HookRequested(LIVE, hook(1, "b"), wants("hb", "b")))
    case.when(receives(), resumes(hook_id="hb"))
    assert not case.resolved


# resume ids


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_resume_id_counts_once(is_taken: bool, crashes: bool) -> None:
    case = opened()
    if is_taken:
        case.when(receives())
    case.when(resumes(ONE, "r1"))
    if crashes:
        case.crash()
    case.when(resumes(ONE, "r1")).then_nothing()
    case.when(resumes(TWO, "r1")).then_refused(HookResumeConflictError)
    case.when(resumes(ONE, "r2"))
    assert case.last.entries


def test_a_resume_id_of_one_hook_is_not_another_hooks() -> None:
    case = opened().when(HookRequested(LIVE, hook(1, "b"), wants("hb", "b")))
    case.when(resumes(ONE, "r1"), resumes(ONE, "r1", "hb")).then_refused(HookResumeConflictError)


def test_a_payload_for_a_hook_that_is_gone_is_refused() -> None:
    """Its token was looked up before that."""
    opened().when(RestartRequested(), resumes()).then_refused(HookNotFoundError)
    opened().when(RunReturned(LIVE, ONE), resumes()).then_refused(HookNotFoundError)


def test_payloads_without_a_resume_id_are_all_different() -> None:
    assert len(opened().when(resumes(), resumes()).state.mailbox) == 2


# the end of a hook


def test_disposing_frees_the_token_though_it_is_retained() -> None:
    case = started(RETENTION).when(opens(), disposes()).then(hook(), HookDisposed())
    assert not case.stored.hooks
    case.when(disposes()).then_nothing()
    case.when(resumes()).then_refused(HookNotFoundError)
    case.when(RunReturned(LIVE, ONE))
    assert not case.last.hooks, "nothing of it is stored again"


def test_what_has_arrived_can_be_taken_after_disposing_and_then_that_is_said() -> None:
    case = opened().when(resumes(), disposes(), receives())
    assert case.resolved == [take(1)]
    case.when(receives(2))
    error = case.state.steps[take(2)].outcome
    assert isinstance(error, Failure)
    assert (error.name, error.fields) == ("HookDisposedError", {"token": T})


def test_giving_up_a_token_that_another_holds_changes_nothing() -> None:
    running().when(opens(holder=held_by("2")), disposes()).then_nothing()


def test_disposing_ends_the_waits() -> None:
    case = opened().when(receives(1), receives(2), disposes())
    assert case.resolved == [take(1), take(2)]
    assert isinstance(case.state.steps[take(2)].outcome, Failure)


def test_disposing_wakes_code_that_rested() -> None:
    case = opened().when(receives(), RunParked(LIVE)).then_status(InstanceStatus.WAITING)
    case.when(disposes()).and_slot()
    assert case.resolved == [take(1)]


def test_a_replay_disposes_once() -> None:
    case = opened().when(disposes()).crash().when(Recovered()).and_slot()
    case.when(opens(), disposes()).then_nothing()
    case.when(receives())
    facts = [type(entry.fact) for _, entry in case.last.entries]
    assert facts == [WaitStarted, WaitTimedOut]


ENDS: dict[str, Callable[[Case], Case]] = {
    "returns": lambda case: case.when(RunReturned(LIVE, ONE)),
    "raises": lambda case: case.when(RunRaised(LIVE, BOOM)),
    "is terminated": lambda case: case.when(TerminateRequested()),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_frees_tokens(how: str) -> None:
    case = ENDS[how](started().when(opens()))
    assert not case.stored.hooks
    case.when(resumes()).then_refused(HookNotFoundError)


@pytest.mark.parametrize("how", ENDS)
def test_an_end_keeps_a_token_that_is_retained(how: str) -> None:
    case = ENDS[how](started(RETENTION).at(999))
    assert case.stored.hooks["h1"].stage is HookStage.RETAINED
    assert case.stored.hooks["h1"].holds_at(999)
    assert not case.stored.hooks["h1"].holds_at(1_000)
    case.when(resumes()).then_refused(HookNotFoundError)


@pytest.mark.parametrize("how", ENDS)
def test_a_deadline_that_passed_before_the_end_frees_the_token_at_the_end(how: str) -> None:
    case = started(RETENTION).at(2_000)
    assert case.when(resumes()).stored.hooks["h1"].stage is HookStage.LIVE
    assert not ENDS[how](case).stored.hooks


def test_terminating_in_the_queue_frees_the_token() -> None:
    assert not created().when(TerminateRequested()).stored.hooks
    retained = created(RETENTION).when(TerminateRequested()).stored.hooks["h1"]
    assert retained.stage is HookStage.RETAINED


def test_payloads_that_nobody_took_go_with_the_end() -> None:
    case = opened().when(resumes(), RunReturned(LIVE, ONE))
    assert not case.state.mailbox


def test_a_rollback_takes_no_payloads_and_keeps_the_token_until_it_is_over() -> None:
    case = opened().when(asks_do("a", rollback=CONFIG), returns("a"), TerminateRequested(True))
    case.then_status(InstanceStatus.ROLLING_BACK)
    case.when(resumes()).then_refused(HookNotFoundError)
    assert case.stored.hooks["h1"].stage is HookStage.LIVE
    case.when(TerminateRequested()).then_status(InstanceStatus.TERMINATED)
    assert not case.stored.hooks


def test_a_replay_for_rollback_handlers_registers_nothing_and_disposes_nothing() -> None:
    case = opened().when(asks_do("a", rollback=CONFIG), returns("a"))
    case.when(RunRaised(LIVE, BOOM)).crash().when(Recovered())
    case.when(opens()).then(ResolveStep(hook(), None, 4))
    case.when(disposes()).then_nothing()
    case.when(opens(2)).then_nothing()


@pytest.mark.parametrize("retention", [None, RETENTION])
@pytest.mark.parametrize("is_over", [False, True])
def test_deleting_frees_every_token(retention: MinRetention | None, is_over: bool) -> None:
    case = started(retention)
    if is_over:
        case.when(RunReturned(LIVE, ONE))
    case.when(DeleteRequested())
    assert not case.stored.hooks
    assert case.last.hooks["h1"].stage is HookStage.RELEASED


# wakeUp and attributes


def test_waking_up_ends_the_sleeps_that_are_named_or_all() -> None:
    case = running().when(asks_sleep("a"), asks_sleep("b"), asks_sleep("c"))
    case.when(WakeUpRequested(("b-1", "zzz-1"))).then(
        sleep("b"), SleepCompleted(), ResolveStep(sleep("b"), None, case.state.seq)
    )
    assert case.last.told == 1
    assert case.when(WakeUpRequested()).last.told == 2
    assert not case.stored.timers
    assert case.when(WakeUpRequested()).last.told == 0


def test_waking_up_starts_what_sleeps_outside_of_memory() -> None:
    case = running().when(asks_sleep("a"), RunParked(LIVE), UnloadRequested(LIVE))
    assert case.when(WakeUpRequested()).last.told == 1
    case.and_slot().when(asks_sleep("a"))
    assert case.resolved == [sleep("a")]


def test_waking_up_does_not_resume_a_paused_instance() -> None:
    case = running().when(asks_sleep("a"), PauseRequested(), WakeUpRequested())
    assert case.last.told == 1
    case.then(sleep("a"), SleepCompleted()).then_status(InstanceStatus.PAUSED)


@pytest.mark.parametrize("how", ENDS)
def test_waking_up_wakes_nothing_after_the_end(how: str) -> None:
    case = ENDS[how](running().when(asks_sleep("a"))).when(WakeUpRequested())
    assert case.last.told == 0
    case.then_nothing()


def test_attributes_are_set_changed_and_removed() -> None:
    case = given().when(CreateRequested(attributes={"a": "1", "b": "2"}))
    assert case.state.attributes == {"a": "1", "b": "2"}
    case.when(AttributesRequested({"a": None, "b": "3"})).then(
        AttributesChanged({"a": None, "b": "3"})
    )
    assert case.state.attributes == {"b": "3"}


def test_there_are_only_so_many_attributes() -> None:
    case = running().when(AttributesRequested({str(n): "1" for n in range(64)}))
    case.when(AttributesRequested({"x": "1"})).then_refused(InvalidAttributes)
    case.when(AttributesRequested({"x": "1", "0": None}))
    assert len(case.state.attributes) == 64


@pytest.mark.parametrize("how", ENDS)
def test_attributes_stay_after_the_end(how: str) -> None:
    case = ENDS[how](running()).when(AttributesRequested({"a": "1"}))
    case.then_refused(InstanceFinished)


def test_a_failing_step_between_payloads_loses_none() -> None:
    case = opened().when(receives(), resumes(ONE), asks_do("a"), raises("a"), resumes(TWO))
    case.crash().when(Recovered()).and_slot().when(opens(), receives())
    assert case.resolved == [take(1)]
    case.when(receives(2))
    assert case.resolved == [take(2)]
    received = case.stored.entries[case.state.steps[take(2)].finished_seq].fact
    assert isinstance(received, WaitCompleted)
    assert received.payload == TWO
