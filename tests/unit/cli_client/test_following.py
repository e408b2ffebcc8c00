"""`--follow`: what it prints while an instance runs, and how it exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.unit.cli_client.served import PATIENCE_S, Served
from wrangler_compat.cli import following
from wrangler_compat.cli.client import Client, NotReached
from wrangler_compat.cli.wording import Json

MIDNIGHT = "2026-01-01T00:00:00.000Z"
FOLLOW_ONE = ("instances", "describe", "waits", "one", "--follow")


def test_an_instance_is_followed_until_it_completes(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    emulator.comes_to_wait("waits", "one")
    with follower(emulator, "instances", "describe", "waits", "latest", "--follow") as process:
        before = await_line(process, "… wait answer-1")
        event = ("--type", "answer", "--payload", '{"yes": true}')
        emulator.says("instances", "send-event", "waits", "one", *event)
        after, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    assert before + after == (
        "00:00:00.000Z  queued\n"
        "00:00:00.000Z  running\n"
        "00:00:00.000Z  ▶ first-1\n"
        "00:00:00.000Z  ✓ first-1 (0 ms)\n"
        '00:00:00.000Z  … wait answer-1 for the event "answer", until 2026-01-01 00:01:00.000Z\n'
        "00:00:00.005Z  ✓ wait answer-1 (5 ms)\n"
        "00:00:00.005Z  ✓ complete\n"
        'Output {"yes": true}\n'
    )


def test_the_exit_code_tells_that_an_instance_has_errored(emulator: Served) -> None:
    with follower(emulator, "trigger", "waits", "--id", "one", "--follow") as process:
        await_line(process, "… wait answer-1")
        emulator.advance(60_000)
        told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert told.endswith("✗ errored: WorkflowTimeoutError: Execution timed out after 60000ms\n")


def test_the_exit_code_tells_that_an_instance_was_terminated(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    emulator.says("instances", "terminate", "waits", "one")
    done = emulator.ask("instances", "describe", "waits", "one", "--follow")
    assert done.exit_code == 3
    assert done.stdout.endswith("■ terminated\n")


def test_with_json_the_instance_is_printed_and_the_progress_is_apart(emulator: Served) -> None:
    done = emulator.ask("trigger", "echo", "7", "--follow", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["output"] == 7
    assert done.stderr.endswith("✓ complete\n")


def test_an_instance_that_is_deleted_meanwhile_is_told(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    with follower(emulator, *FOLLOW_ONE) as process:
        await_line(process, "… wait answer-1")
        emulator.says("instances", "delete", "waits", "one")
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert errors == 'Error: (instance.not_found) Instance "one" does not exist\n'


def test_the_lines_come_while_it_runs(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    with follower(emulator, *FOLLOW_ONE) as process:
        await_line(process, "… wait answer-1")
        emulator.says("instances", "pause", "waits", "one")
        await_line(process, "paused")
        emulator.says("instances", "resume", "waits", "one")
        await_line(process, "goes on")
        emulator.says("instances", "send-event", "waits", "one", "--type", "answer")
        await_line(process, "✓ complete")
        assert process.wait(PATIENCE_S) == 0


def test_ctrl_c_ends_the_following_and_not_the_instance(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    with follower(emulator, *FOLLOW_ONE) as process:
        await_line(process, "… wait answer-1")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert errors == '"one" goes on; it is not followed any more.\n'
    emulator.comes_to_wait("waits", "one")


@contextmanager
def follower(emulator: Served, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run `workflow-emulator workflows …` in a process of its own; kill it at the end."""
    command = [sys.executable, "-P", "-m", "wrangler_compat.cli.main", "workflows", *arguments]
    environment = {**os.environ, "WORKFLOW_EMULATOR_URL": emulator.url}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_line(process: subprocess.Popen[str], part: str) -> str:
    """Read on until it says something; all that was read."""
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if part in line:
            return told
    raise AssertionError(f"it ended without saying {part!r}: {told}")


class Away(Client):
    """An emulator that is away for some looks; then the instance has completed."""

    def __init__(self, looks_in_vain: int) -> None:
        super().__init__("http://localhost")
        self.looks_in_vain = looks_in_vain
        self.status = "running"

    def detail(self, workflow: str, instance_id: str) -> Json:
        """Answer one look."""
        status, self.status = self.status, "complete"
        if status == "complete" and self.looks_in_vain:
            self.looks_in_vain -= 1
            raise NotReached("away")
        times = {"queued": MIDNIGHT, "start": MIDNIGHT, "end": None}
        return {"status": status, **times, "error": None, "output": 1, "steps": []}


def test_an_emulator_that_starts_anew_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0)
    with pytest.raises(SystemExit) as ended, Away(following.LOOKS_IN_VAIN) as client:
        following.follow(client, "waits", "one", as_json=False)
    assert ended.value.code == 0


def test_an_emulator_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0)
    with pytest.raises(NotReached), Away(following.LOOKS_IN_VAIN + 1) as client:
        following.follow(client, "waits", "one", as_json=False)
