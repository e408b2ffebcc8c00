"""The detail of an instance: one fold of its journal, two renderings."""

from __future__ import annotations

import msgspec
import pytest

from emulator.core.evolve import fold
from emulator.domain import entries as facts
from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.instance import Creation, Schedule, TriggerSource
from emulator.domain.names import RESERVED
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.projection.detail import (
    Attempt,
    DoDetail,
    InstanceDetail,
    RollbackDetail,
    SleepDetail,
    WaitDetail,
    detail,
)
from emulator.projection.rendering import iso, local_detail, remote_detail

CREATION = Creation("shop", "o-1", msgspec.Raw(b'{"n":1}'), 5)
CONFIG = StepConfig(RetryConfig(2, 100), "1 minute")
BOOM = Failure("Boom", "no")
DO, NAP, WAIT = (StepKey(kind, "a", 1) for kind in (StepKind.DO, StepKind.SLEEP, StepKind.WAIT))
ONE = msgspec.Raw(b"1")

Happened = tuple[int, StepKey | None, Fact]

BEGUN: list[Happened] = [
    (10, None, facts.WorkflowQueued()),
    (11, None, facts.WorkflowStarted()),
    (12, None, facts.WorkflowRunning()),
]
DONE: list[Happened] = [
    (20, DO, facts.StepStarted(CONFIG, rollback=CONFIG)),
    (20, DO, facts.AttemptStarted(1)),
    (21, DO, facts.AttemptSucceeded(1)),
    (21, DO, facts.StepSucceeded(ONE)),
]


def entries(*happened: Happened) -> list[tuple[int, Entry]]:
    return [(seq, Entry(*each)) for seq, each in enumerate(happened, start=1)]


def seen(*happened: Happened, status: InstanceStatus = InstanceStatus.RUNNING) -> InstanceDetail:
    return detail(CREATION, status, entries(*happened))


def test_an_instance_that_has_only_been_created_was_queued_then() -> None:
    shown = seen((10, None, facts.WorkflowQueued()))
    assert (shown.queued_ms, shown.started_ms, shown.ended_ms) == (10, None, None)
    assert (shown.success, shown.output, shown.error, shown.steps) == (None, None, None, ())


def test_a_later_queue_does_not_move_the_first() -> None:
    shown = seen(*BEGUN, (13, None, facts.WorkflowQueued()), (14, None, facts.WorkflowRunning()))
    assert (shown.queued_ms, shown.started_ms) == (10, 11)


def test_every_end_is_told_apart() -> None:
    succeeded = seen(*BEGUN, (30, None, facts.WorkflowSucceeded(ONE)))
    failed = seen(*BEGUN, (30, None, facts.WorkflowFailed(BOOM)))
    terminated = seen(*BEGUN, (30, None, facts.WorkflowTerminated()))
    assert (succeeded.success, succeeded.output, succeeded.ended_ms) == (True, ONE, 30)
    assert (failed.success, failed.error, failed.ended_ms) == (False, BOOM, 30)
    assert (terminated.success, terminated.error, terminated.ended_ms) == (None, None, 30)


def test_every_attempt_has_its_times_and_its_error() -> None:
    [step] = seen(
        *BEGUN,
        (20, DO, facts.StepStarted(CONFIG)),
        (20, DO, facts.AttemptStarted(1)),
        (25, DO, facts.AttemptFailed(1, BOOM, 100)),
        (125, DO, facts.AttemptStarted(2)),
    ).steps
    assert step == DoDetail(
        "a-1", 20, CONFIG, attempts=(Attempt(20, 25, False, BOOM), Attempt(125))
    )


def test_a_step_that_succeeds_in_the_end_has_its_result_and_all_its_attempts() -> None:
    [step] = seen(
        *BEGUN,
        (20, DO, facts.StepStarted(CONFIG)),
        (20, DO, facts.AttemptStarted(1)),
        (25, DO, facts.AttemptFailed(1, BOOM, 100)),
        (125, DO, facts.AttemptStarted(2)),
        (126, DO, facts.AttemptInterrupted()),
        (130, DO, facts.AttemptStarted(2)),
        (131, DO, facts.AttemptSucceeded(2)),
        (131, DO, facts.StepSucceeded(ONE)),
    ).steps
    attempts = (Attempt(20, 25, False, BOOM), Attempt(130, 131, True))
    assert step == DoDetail("a-1", 20, CONFIG, False, 131, True, ONE, attempts=attempts)


def test_a_step_of_the_engines_own_is_not_shown() -> None:
    own = StepKey(StepKind.DO, f"{RESERVED}own", 1)
    assert seen(*BEGUN, (20, own, facts.StepStarted(CONFIG))).steps == ()


def test_a_failed_step_has_the_error_of_its_last_attempt_unless_it_has_its_own() -> None:
    delay = Failure("NonRetryableDelayError", "bad delay")
    for own, expected in ((None, BOOM), (delay, delay)):
        [step] = seen(
            *BEGUN,
            (20, DO, facts.StepStarted(CONFIG)),
            (20, DO, facts.AttemptStarted(1)),
            (25, DO, facts.AttemptFailed(1, BOOM)),
            (25, DO, facts.StepFailed(own)),
        ).steps
        assert isinstance(step, DoDetail)
        assert (step.success, step.end_ms, step.error) == (False, 25, expected)


def test_a_pause_shifts_what_is_open_as_the_core_does() -> None:
    until = StepKey(StepKind.SLEEP, "until", 1)
    over = StepKey(StepKind.SLEEP, "over", 1)
    happened: list[Happened] = [
        *BEGUN,
        (20, over, facts.SleepStarted(5, 25)),
        (25, over, facts.SleepCompleted()),
        (30, NAP, facts.SleepStarted(1_000, 1_030)),
        (30, until, facts.SleepStarted(1_000, 1_030, until=True)),
        (30, WAIT, facts.WaitStarted("paid", 500, 530)),
        (100, None, facts.WorkflowPaused()),
        (140, None, facts.WorkflowQueued(shift_ms=40)),
        (140, None, facts.WorkflowRunning()),
    ]
    shown = {step.name: step for step in seen(*happened).steps if isinstance(step, SleepDetail)}
    assert {name: step.due_ms for name, step in shown.items()} == {
        "over-1": 25,
        "a-1": 1_070,
        "until-1": 1_030,
    }
    state = fold(CREATION, entries(*happened))
    resting = [s for s in seen(*happened).steps if isinstance(s, SleepDetail | WaitDetail)]
    assert [step.due_ms for step in resting if step.end_ms is None] == [
        step.due_ms for step in state.open.values()
    ]


def test_a_wait_that_gave_its_event_back_took_none() -> None:
    started = (10, WAIT, facts.WaitStarted("paid", 1_000, 1_010))
    took = (40, WAIT, facts.WaitCompleted(9, 39, ONE))
    back = seen(*BEGUN, started, took, (41, WAIT, facts.WaitAbandoned()))
    assert back.steps == seen(*BEGUN, started).steps


def test_a_wait_shows_what_it_took_or_that_nothing_came() -> None:
    started: Happened = (30, WAIT, facts.WaitStarted("paid", 500, 530))
    took = seen(*BEGUN, started, (40, WAIT, facts.WaitCompleted(9, 39, ONE)))
    gave_up = seen(*BEGUN, started, (530, WAIT, facts.WaitTimedOut(BOOM)))
    assert took.steps == (WaitDetail("a-1", 30, 530, "paid", 40, 39, ONE),)
    assert gave_up.steps == (WaitDetail("a-1", 30, 530, "paid", 530, error=BOOM),)


def test_an_event_in_the_mailbox_is_not_seen() -> None:
    assert seen(*BEGUN, (20, None, facts.EventReceived("paid"))).steps == ()


def test_a_rollback_that_fails_shows_its_handlers_attempts_and_error() -> None:
    shown = seen(
        *BEGUN,
        *DONE,
        (30, None, facts.RollbackStarted(BOOM, 1)),
        (30, DO, facts.RollbackStepStarted()),
        (30, DO, facts.RollbackAttemptStarted(1)),
        (31, DO, facts.RollbackAttemptFailed(1, BOOM, 100)),
        (131, DO, facts.RollbackAttemptStarted(2)),
        (132, DO, facts.RollbackAttemptFailed(2, BOOM)),
        (132, DO, facts.RollbackStepFailed()),
        (132, None, facts.RollbackFailed(1, 0)),
        (132, None, facts.WorkflowFailed(BOOM)),
        status=InstanceStatus.ERRORED,
    )
    assert shown.rollback == RollbackDetail("failed", BOOM)
    assert shown.steps[1] == DoDetail(
        "a-1",
        30,
        CONFIG,
        is_rollback=True,
        end_ms=132,
        success=False,
        error=BOOM,
        attempts=(Attempt(30, 31, False, BOOM), Attempt(131, 132, False, BOOM)),
    )
    assert [step["type"] for step in local_detail(shown)["steps"]] == ["step"]
    remote = remote_detail(shown, "v")
    assert [step["type"] for step in remote["steps"]] == ["step", "rollback"]
    assert remote["rollback"] == {"outcome": "failed", "error": {"name": "Boom", "message": "no"}}


def test_a_rollback_shows_what_it_has_compensated_and_what_stopped_it() -> None:
    second = StepKey(StepKind.DO, "b", 1)
    delay = Failure("NonRetryableDelayError", "bad delay")
    compensated: list[Happened] = [
        *BEGUN,
        *DONE,
        (22, second, facts.StepStarted(CONFIG, rollback=CONFIG)),
        (30, None, facts.RollbackStarted(BOOM, 2)),
        (30, second, facts.RollbackStepStarted()),
        (30, second, facts.RollbackAttemptStarted(1)),
        (31, second, facts.RollbackAttemptSucceeded(1)),
        (31, second, facts.RollbackStepSucceeded()),
    ]
    shown = seen(
        *compensated,
        (31, DO, facts.RollbackStepStarted()),
        (31, DO, facts.RollbackAttemptStarted(1)),
        (33, DO, facts.RollbackAttemptFailed(1, BOOM)),
        (33, DO, facts.RollbackStepFailed(delay)),
        (33, None, facts.RollbackFailed(2, 1)),
    )
    assert shown.rollback == RollbackDetail("failed", delay)
    assert shown.steps[2] == DoDetail(
        "b-1", 30, CONFIG, True, 31, True, attempts=(Attempt(30, 31, True),)
    )
    whole = seen(*compensated, (31, None, facts.RollbackCompleted(2, 2)))
    assert whole.rollback == RollbackDetail("complete")


def test_a_terminated_instance_ends_with_a_termination_in_either_order() -> None:
    ended = (40, None, facts.WorkflowTerminated())
    slept = (30, NAP, facts.SleepStarted(1_000, 1_030))
    shown = seen(*BEGUN, *DONE, slept, ended, status=InstanceStatus.TERMINATED)
    remote = remote_detail(shown, "v")
    kinds = ["step", "sleep", "termination"]
    assert [step["type"] for step in remote["steps"]] == kinds
    backwards = remote_detail(shown, "v", descending=True)
    assert [step["type"] for step in backwards["steps"]] == kinds[::-1]
    bare = remote_detail(shown, "v", with_steps=False)
    assert (bare["steps"], bare["step_count"], remote["step_count"]) == ([], 3, 3)


def test_the_output_of_a_sensitive_step_is_shown_to_nobody() -> None:
    secret = StepConfig(RetryConfig(2, 100), "1 minute", sensitive="output")
    shown = seen(*BEGUN, (20, DO, facts.StepStarted(secret)), *DONE[1:])
    [local], [remote] = local_detail(shown)["steps"], remote_detail(shown, "v")["steps"]
    assert (local["output"], remote["output"]) == ("[REDACTED]", '"[REDACTED]"')
    assert local["config"]["sensitive"] == remote["config"]["sensitive"] == "output"


def test_an_open_sleep_ends_when_it_is_planned_to_or_not_yet() -> None:
    shown = seen(*BEGUN, (20, NAP, facts.SleepStarted(1_000, 1_020)))
    [local], [remote] = local_detail(shown)["steps"], remote_detail(shown, "v")["steps"]
    assert (local["end"], local["finished"]) == (None, False)
    assert (remote["end"], remote["finished"]) == (iso(1_020), False)


def test_no_output_is_not_the_output_null() -> None:
    running = seen(*BEGUN, (20, DO, facts.StepStarted(CONFIG)), (20, DO, facts.AttemptStarted(1)))
    done = seen(*BEGUN, *DONE[:-1], (21, DO, facts.StepSucceeded(msgspec.Raw(b"null"))))
    for shown, remote_output in ((running, None), (done, "null")):
        assert "output" not in local_detail(shown)["steps"][0]
        assert remote_detail(shown, "v")["steps"][0]["output"] == remote_output


def test_an_event_without_payload_shows_none() -> None:
    started: Happened = (30, WAIT, facts.WaitStarted("paid", 500, 530))
    shown = seen(*BEGUN, started, (40, WAIT, facts.WaitCompleted(9, 39)))
    assert local_detail(shown)["steps"][0]["output"] == {"type": "paid", "timestamp": iso(39)}
    shown = seen(*BEGUN, started, (40, WAIT, facts.WaitCompleted(9, 39, ONE)))
    event = {"type": "paid", "payload": 1, "timestamp": iso(39)}
    assert local_detail(shown)["steps"][0]["output"] == event


def test_an_open_wait_shows_neither_an_event_nor_an_error() -> None:
    shown = seen(*BEGUN, (30, WAIT, facts.WaitStarted("paid", 500, 530)))
    for [step] in (local_detail(shown)["steps"], remote_detail(shown, "v")["steps"]):
        assert (step["output"], step["error"], step["finished"]) == (None, None, False)


def test_a_wait_ends_when_it_took_its_event_or_else_when_it_gives_up() -> None:
    started: Happened = (30, WAIT, facts.WaitStarted("paid", 500, 530))
    [still_open] = remote_detail(seen(*BEGUN, started), "v")["steps"]
    took = seen(*BEGUN, started, (40, WAIT, facts.WaitCompleted(9, 39, ONE)))
    [over] = remote_detail(took, "v")["steps"]
    assert (still_open["end"], over["end"]) == (iso(530), iso(40))
    assert over["output"] == f'{{"type":"paid","payload":1,"timestamp":"{iso(39)}"}}'


@pytest.mark.parametrize(("length", "is_cut"), [(1_024, False), (1_025, True)])
def test_a_long_output_is_cut_where_cloudflare_cuts_it(*, length: int, is_cut: bool) -> None:
    text = '"' + "x" * (length - 2) + '"'
    result = facts.StepSucceeded(msgspec.Raw(text.encode()))
    shown = seen(*BEGUN, *DONE[:-1], (21, DO, result))
    expected = f"{text[:1_024]}[truncated output]" if is_cut else text
    assert remote_detail(shown, "v")["steps"][0]["output"] == expected


def test_a_scheduled_instance_shows_its_schedule() -> None:
    creation = msgspec.structs.replace(
        CREATION, source=TriggerSource.CRON, schedule=Schedule("* * * * *", 60_000)
    )
    remote = remote_detail(detail(creation, InstanceStatus.QUEUED, []), "v")
    assert remote["trigger"] == {"source": "cron"}
    assert remote["schedule"] == {"cron": "* * * * *", "scheduledTime": 60_000}


def test_an_instant_is_written_as_cloudflare_does_however_far_it_is() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"
    assert iso(2**62) == "9999-12-31T23:59:59.999Z"


def test_of_each_attribute_the_last_change_counts() -> None:
    shown = seen(
        *BEGUN,
        (13, None, facts.AttributesChanged({"who": "me", "what": "this"})),
        (14, None, facts.AttributesChanged({"who": "you", "what": None})),
    )
    assert shown.attributes == {"who": "you"}
