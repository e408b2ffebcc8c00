"""`workflow-emulator schedules list` and `fire` on a running emulator."""

from __future__ import annotations

import json

from emulator.testing.clock import EPOCH_MS
from tests.unit.cli_client.served import invoke, served

SCHEDULES = {"echo": ["0 0 * * *"], "waits": ["*/5 * * * *", "0 12 * * FRI"]}


def test_the_schedules_are_listed_with_their_next_times() -> None:
    with served(schedules=SCHEDULES) as emulator:
        listed = invoke("schedules", "list", url=emulator.url)
        rows = [line.split("  ") for line in listed.stdout.splitlines()]
        assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
            ["Workflow", "Cron", "Next"],
            ["waits", "*/5 * * * *", "2026-01-01 00:05:00.000Z"],
            ["waits", "0 12 * * FRI", "2026-01-02 12:00:00.000Z"],
            ["echo", "0 0 * * *", "2026-01-02 00:00:00.000Z"],
        ]
        as_json = invoke("schedules", "list", "--json", url=emulator.url)
        assert [each["workflow"] for each in json.loads(as_json.stdout)] == [
            "waits",
            "waits",
            "echo",
        ]


def test_that_there_are_no_schedules_is_told() -> None:
    with served() as emulator:
        listed = invoke("schedules", "list", url=emulator.url)
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert listed.stderr == "There are no schedules.\n"


def test_a_schedule_is_fired_now() -> None:
    with served(schedules=SCHEDULES) as emulator:
        fired = invoke("schedules", "fire", "echo", url=emulator.url)
        assert fired.stdout == f'Created instance "0 0 * * *-{EPOCH_MS}" of "echo".\n'
        emulator.advance(1)
        fired = invoke("schedules", "fire", "waits", "--cron", "0 12 * * FRI", url=emulator.url)
        assert fired.stdout == f'Created instance "0 12 * * FRI-{EPOCH_MS + 1}" of "waits".\n'
        assert "cron" in emulator.says("instances", "describe", "echo", "latest")


def test_a_workflow_with_several_schedules_wants_to_be_told_which() -> None:
    with served(schedules=SCHEDULES) as emulator:
        refused = invoke("schedules", "fire", "waits", url=emulator.url)
    assert refused.exit_code == 1
    assert '"*/5 * * * *", "0 12 * * FRI". Say which one to fire.' in refused.stderr


def test_what_is_not_scheduled_is_refused() -> None:
    with served(schedules=SCHEDULES) as emulator:
        refused = invoke("schedules", "fire", "orders", url=emulator.url)
        assert refused.stderr == "Error: The workflow orders has no schedules.\n"
        refused = invoke("schedules", "fire", "nothing", url=emulator.url)
        assert 'Workflow "nothing" does not exist' in refused.stderr
