"""Code that opens other hooks than the journal has ends its instance, and says what it expected."""

from __future__ import annotations

from emulator.core.inputs import (
    CreateRequested,
    HookRequested,
    PauseRequested,
    Recovered,
    ResumeRequested,
)
from emulator.domain.entries import HookCreated, WorkflowFailed
from emulator.domain.hooks import HookRequest, HookStage, step_name
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from tests.unit.core.test_hook_rules import held_by, opened, opens, started, wants
from tests.unit.core.vocabulary import LIVE, Case, given


def opens_another(token: str = "order:2", hook_id: str = "h9") -> HookRequested:
    step = StepKey(StepKind.HOOK, step_name(token, None), 1)
    return HookRequested(LIVE, step, HookRequest(hook_id, token))


def replayed(case: Case) -> Case:
    return case.crash().when(Recovered()).and_slot()


def test_another_token_in_a_replay_errors_the_instance_and_frees_the_old_one() -> None:
    case = replayed(opened()).when(opens_another())
    case.then_status(InstanceStatus.ERRORED)
    fact = case.last.entries[-1][1].fact
    assert isinstance(fact, WorkflowFailed)
    assert fact.error.name == "ReplayDivergenceError"
    assert '"token order:2-1"' in fact.error.message
    assert '"token order:1-1"' in fact.error.message
    assert case.last.hooks["h1"].stage is HookStage.RELEASED


def test_a_run_that_goes_on_after_a_pause_has_opened_nothing_yet() -> None:
    case = opened().when(PauseRequested(), ResumeRequested()).and_slot()
    case.when(opens_another()).then_status(InstanceStatus.ERRORED)


def test_what_was_expected_is_the_first_hook_that_the_replay_has_not_opened() -> None:
    case = replayed(opened().when(opens_another(hook_id="h2")))
    case.when(opens(), opens_another("order:3"))
    fact = case.last.entries[-1][1].fact
    assert isinstance(fact, WorkflowFailed)
    assert '"token order:2-1"' in fact.error.message
    assert '"token order:1-1"' not in fact.error.message


def test_a_replay_that_opens_the_old_hook_first_may_open_another() -> None:
    case = replayed(opened()).when(opens(), opens_another())
    assert isinstance(case.last.entries[-1][1].fact, HookCreated)


def test_a_claim_of_the_start_need_not_be_opened_before_another_hook() -> None:
    case = replayed(started()).when(opens_another())
    assert isinstance(case.last.entries[-1][1].fact, HookCreated)


def test_a_claim_of_the_start_is_never_what_was_expected() -> None:
    """Neither one that is opened stands for a hook that is not, nor is one that is not opened missed."""
    request = CreateRequested(wants("h0", "order:0"))
    for claim in ([], [opens_another("order:0", "h0")]):
        case = replayed(given().when(request).and_slot().when(opens())).when(*claim)
        case.when(opens_another()).then_status(InstanceStatus.ERRORED)
        fact = case.last.entries[-1][1].fact
        assert isinstance(fact, WorkflowFailed)
        assert '"token order:1-1"' in fact.error.message


def test_a_token_that_was_taken_stands_for_no_hook_that_is_missing() -> None:
    taken = opens_another("order:7", "h7")
    first = HookRequested(LIVE, taken.step, taken.hook, held_by("2"))
    case = replayed(opened().when(first)).when(taken)
    case.when(opens_another()).then_status(InstanceStatus.ERRORED)
