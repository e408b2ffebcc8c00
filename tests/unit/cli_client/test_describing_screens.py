"""What `instances describe` shows, whole screens at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from emulator.domain.status import InstanceStatus
from tests.unit.cli_client.served import PATIENCE_S, Served

FINISHED = """\
orders / one
  Status    ✓ complete
  Trigger   api
  Params    {"n": 1}
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
  End       2026-01-01 00:01:01.010Z  (1 min 1 s)
  Output    {"charge": {"params": {"n": 1}}, "approval": 7}
Steps
├── ✓ charge-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output {"params":{"n":1}}
├── ✓ nothing-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output null
├── ✓ flaky-1  2026-01-01 00:00:00.000Z  1 s
│   ├── ✗ attempt 1  2026-01-01 00:00:00.000Z  0 ms
│   │   └── Boom: no
│   ├── ✓ attempt 2  2026-01-01 00:00:01.000Z  0 ms
│   └── output 2
├── ✓ sleep nap-1  2026-01-01 00:00:01.000Z  1 min
└── ✓ wait approval-1  2026-01-01 00:01:01.005Z  5 ms
    └── event {"type":"approved","payload":7,"timestamp":"2026-01-01T00:01:01.010Z"}
"""
RETRYING = """\
orders / one
  Status    ▶ running
  Trigger   api
  Params    {"n": 1}
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
Steps
├── ✓ charge-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output {"params":{"n":1}}
├── ✓ nothing-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output null
└── ▶ flaky-1  2026-01-01 00:00:00.000Z
    ├── ✗ attempt 1  2026-01-01 00:00:00.000Z  0 ms
    │   └── Boom: no
    └── … waits for the next attempt
"""
WAITING = """\
waits / one
  Status    … waiting
  Trigger   api
  Params    "x"
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
Steps
├── ✓ first-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output "one"
└── … wait answer-1  2026-01-01 00:00:00.000Z  until 2026-01-01 00:01:00.000Z
    └── for the event "answer"
"""
ERRORED = """\
waits / one
  Status    ✗ errored
  Trigger   api
  Params    "x"
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
  End       2026-01-01 00:01:00.000Z  (1 min)
  Error     WorkflowTimeoutError: Execution timed out after 60000ms
Steps
├── ✓ first-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output "one"
└── ✗ wait answer-1  2026-01-01 00:00:00.000Z  1 min
    └── WorkflowTimeoutError: Execution timed out after 60000ms
"""
ROLLED_BACK = """\
saga / one
  Status    ■ terminated
  Trigger   api
  Params    {}
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
  End       2026-01-01 00:00:00.005Z  (5 ms)
  Rollback  complete
Steps
├── ✓ reserve-1  2026-01-01 00:00:00.000Z  0 ms
│   └── output "r"
├── · wait hold-1  2026-01-01 00:00:00.000Z
│   └── for the event "hold"
└── ✓ rollback of reserve-1  2026-01-01 00:00:00.005Z  0 ms
"""
ECHO = """\
echo / one
  Status    ✓ complete
  Trigger   api
  Params    {"text": "[red]\\u001b[31m\\u009bü"}
  Queued    2026-01-01 00:00:00.000Z
  Start     2026-01-01 00:00:00.000Z
  End       2026-01-01 00:00:00.000Z  (0 ms)
  Output    {"text": "[red]\\u001b[31m\\u009bü"}
No steps
"""


def test_a_finished_instance_is_shown_with_its_output(emulator: Served) -> None:
    emulator.says("trigger", "orders", '{"n": 1}', "--id", "one")
    emulator.comes_to_a_timer("orders", "one")
    emulator.advance(1_000)
    emulator.comes_to_wait("orders", "one")
    emulator.advance(60_000)
    emulator.comes_to_wait("orders", "one")
    event = ("--type", "approved", "--payload", "7")
    emulator.says("instances", "send-event", "orders", "one", *event)
    emulator.becomes("orders", "one", InstanceStatus.COMPLETE)
    assert emulator.says("instances", "describe", "orders", "one") == FINISHED


def test_a_step_between_two_attempts_is_shown_as_unfinished(emulator: Served) -> None:
    emulator.says("trigger", "orders", '{"n": 1}', "--id", "one")
    emulator.comes_to_a_timer("orders", "one")
    assert emulator.says("instances", "describe", "orders", "one") == RETRYING


def test_an_open_wait_tells_its_event_and_its_deadline(emulator: Served) -> None:
    emulator.says("trigger", "waits", '"x"', "--id", "one")
    emulator.comes_to_wait("waits", "one")
    assert emulator.says("instances", "describe", "waits", "one") == WAITING


def test_a_wait_that_timed_out_is_shown_with_the_error(emulator: Served) -> None:
    emulator.says("trigger", "waits", '"x"', "--id", "one")
    emulator.comes_to_a_timer("waits", "one")
    emulator.advance(60_000)
    emulator.becomes("waits", "one", InstanceStatus.ERRORED)
    assert emulator.says("instances", "describe", "waits", "one") == ERRORED


def test_a_rollback_is_shown_after_the_steps(emulator: Served) -> None:
    emulator.says("trigger", "saga", "--id", "one")
    emulator.comes_to_wait("saga", "one")
    emulator.says("instances", "terminate", "saga", "one", "--rollback")
    assert emulator.says("instances", "describe", "saga", "one") == ROLLED_BACK


def test_markup_and_control_characters_are_shown_and_not_obeyed(emulator: Served) -> None:
    emulator.says("trigger", "echo", '{"text": "[red]\\u001b[31m\\u009bü"}', "--id", "one")
    emulator.becomes("echo", "one", InstanceStatus.COMPLETE)
    assert emulator.says("instances", "describe", "echo", "one") == ECHO


def test_an_encoding_without_the_signs_is_no_error(emulator: Served) -> None:
    emulator.says("trigger", "echo", "--id", "one")
    emulator.becomes("echo", "one", InstanceStatus.COMPLETE)
    command = [sys.executable, "-P", "-m", "wrangler_compat.cli.main", "workflows"]
    done = subprocess.run(
        [*command, "instances", "describe", "echo", "--url", emulator.url],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert r"\u2713 complete" in done.stdout


@pytest.mark.parametrize(("variables", "has_escapes"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_who_asks_for_no_colour_gets_none(
    emulator: Served, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], has_escapes: bool
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in emulator.says("list")) == has_escapes


def test_who_reads_only_the_first_line_breaks_nothing_off(emulator: Served) -> None:
    emulator.says("trigger", "echo", "--id", "one")
    emulator.becomes("echo", "one", InstanceStatus.COMPLETE)
    command = [sys.executable, "-P", "-m", "wrangler_compat.cli.main", "workflows"]
    with subprocess.Popen(
        [*command, "instances", "describe", "echo", "--url", emulator.url], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"echo / one\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
