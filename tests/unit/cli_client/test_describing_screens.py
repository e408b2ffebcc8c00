"""What `instances describe` shows, whole screens at a time."""

from __future__ import annotations

from emulator.domain.status import InstanceStatus
from tests.unit.cli_client.served import Served


def test_a_finished_instance(emulator: Served) -> None:
    emulator.says("trigger", "orders", '{"n": 1}', "--id", "one")
    emulator.advance(1_000)
    emulator.advance(60_000)
    emulator.says(
        "instances", "send-event", "orders", "one", "--type", "approved", "--payload", "7"
    )
    emulator.becomes("orders", "one", InstanceStatus.COMPLETE)
    assert emulator.says("instances", "describe", "orders", "one") == SCREEN_FINISHED


def test_an_instance_that_waits_for_a_retry(emulator: Served) -> None:
    emulator.says("trigger", "orders", "--id", "one")
    emulator.comes_to_wait("orders", "one")
    assert emulator.says("instances", "describe", "orders", "one") == SCREEN_RETRYING


def test_an_instance_that_waits_for_an_event(emulator: Served) -> None:
    emulator.says("trigger", "waits", '"x"', "--id", "one")
    emulator.comes_to_wait("waits", "one")
    assert emulator.says("instances", "describe", "waits", "one") == SCREEN_WAITING


def test_an_instance_whose_wait_timed_out(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    emulator.advance(60_000)
    emulator.becomes("waits", "one", InstanceStatus.ERRORED)
    assert emulator.says("instances", "describe", "waits", "one") == SCREEN_ERRORED


def test_an_instance_that_was_rolled_back(emulator: Served) -> None:
    emulator.says("trigger", "saga", "--id", "one")
    emulator.comes_to_wait("saga", "one")
    emulator.says("instances", "terminate", "saga", "one", "--rollback")
    assert emulator.says("instances", "describe", "saga", "one") == SCREEN_ROLLED_BACK


def test_an_instance_without_steps(emulator: Served) -> None:
    emulator.says("trigger", "echo", '{"text": "[red]\\u001b[31mü"}', "--id", "one")
    emulator.becomes("echo", "one", InstanceStatus.COMPLETE)
    assert emulator.says("instances", "describe", "echo", "one") == SCREEN_ECHO


SCREEN_FINISHED = SCREEN_RETRYING = SCREEN_WAITING = SCREEN_ERRORED = SCREEN_ROLLED_BACK = (
    SCREEN_ECHO
) = ""
