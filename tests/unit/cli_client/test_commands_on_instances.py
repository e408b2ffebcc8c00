"""`workflows instances …`, against a server."""

from __future__ import annotations

import json

import httpx
import pytest

from emulator.domain.status import InstanceStatus
from tests.unit.cli_client.served import Served


def ids_of(emulator: Served, *options: str) -> list[str]:
    rows = json.loads(emulator.says("instances", "list", "waits", *options, "--json"))
    return [row["id"] for row in rows]


@pytest.fixture
def three(emulator: Served) -> Served:
    """Three instances of `waits`, ten seconds between them: the first is through."""
    for name in ("one", "two", "three"):
        emulator.says("trigger", "waits", "--id", name)
        emulator.comes_to_wait("waits", name)
        emulator.advance(10_000)
    emulator.says("instances", "send-event", "waits", "one", "--type", "answer")
    emulator.becomes("waits", "one", InstanceStatus.COMPLETE)
    return emulator


def test_instances_are_listed_the_newest_first(three: Served) -> None:
    rows = [line.split("  ") for line in three.says("instances", "list", "waits").splitlines()]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["Id", "Status", "Created", "Ended", "Trigger"],
        ["three", "waiting", "2026-01-01 00:00:20.010Z", "-", "api"],
        ["two", "waiting", "2026-01-01 00:00:10.005Z", "-", "api"],
        ["one", "complete", "2026-01-01 00:00:00.000Z", "2026-01-01 00:00:30.015Z", "api"],
    ]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--reverse"], ["one", "two", "three"]),
        (["--status", "complete"], ["one"]),
        (["--per-page", "2"], ["three", "two"]),
        (["--per-page", "2", "--page", "2"], ["one"]),
        (["--date-start", "2026-01-01T00:00:15Z"], ["three"]),
        (["--date-end", "2026-01-01T00:00:05Z"], ["one"]),
        (["--page", "9"], []),
    ],
)
def test_a_listing_can_be_narrowed(three: Served, options: list[str], ids: list[str]) -> None:
    assert ids_of(three, *options) == ids


def test_a_listing_says_when_there_is_more(three: Served) -> None:
    done = three.ask("instances", "list", "waits", "--per-page", "2")
    assert (done.exit_code, done.stderr) == (0, "Page 1 of 2, 3 instances in all.\n")


def test_a_page_that_is_not_there_is_told_with_those_that_are(three: Served) -> None:
    done = three.ask("instances", "list", "waits", "--page", "9", "--per-page", "2")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "There is no page 9, but 2 pages: 3 instances in all.\n"


def test_no_instances_are_no_error(emulator: Served) -> None:
    done = emulator.ask("instances", "list", "echo")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == 'The workflow "echo" has no such instances.\n'


def test_a_date_that_is_none_is_refused(emulator: Served) -> None:
    said = emulator.refuses("instances", "list", "echo", "--date-start", "soon")
    assert said == (
        'Error: date_start: Invalid ISO datetime: got "soon"; expected one such as 2026-11-30T12:00:00Z'
    )


def test_latest_is_the_newest_instance(three: Served) -> None:
    assert three.says("instances", "describe", "waits").startswith("waits / three\n")
    assert three.says("instances", "describe", "waits", "latest").startswith("waits / three\n")
    assert three.says("instances", "pause", "waits", "latest") == '"three" is paused.\n'


def test_there_may_be_no_latest_instance(emulator: Served) -> None:
    said = emulator.refuses("instances", "describe", "echo", "latest")
    assert said == 'Error: The workflow "echo" has no instances.'


def test_an_instance_is_paused_and_resumed(three: Served) -> None:
    assert three.says("instances", "pause", "waits", "two") == '"two" is paused.\n'
    assert three.says("instances", "resume", "waits", "two").startswith('"two" is ')
    three.comes_to_wait("waits", "two")


@pytest.mark.parametrize(
    ("status", "instance_id", "what_it_is"),
    [("pause", "one", "complete"), ("resume", "one", "complete"), ("resume", "two", "waiting")],
)
def test_where_there_is_nothing_to_pause_or_resume_that_is_told(
    three: Served, status: str, instance_id: str, what_it_is: str
) -> None:
    said = three.says("instances", status, "waits", instance_id)
    assert said == f'Nothing happened: "{instance_id}" is {what_it_is}.\n'


def test_an_event_is_sent_with_its_payload(three: Served) -> None:
    said = three.says(
        "instances", "send-event", "waits", "two", "--type", "answer", "--payload", '{"n": [1]}'
    )
    assert said == 'Sent the event "answer" to "two".\n'
    three.becomes("waits", "two", InstanceStatus.COMPLETE)
    detail = json.loads(three.says("instances", "describe", "waits", "two", "--json"))
    assert detail["output"] == {"n": [1]}


@pytest.mark.parametrize(("payload", "output"), [((), {}), (("--payload", "null"), None)])
def test_the_payload_of_an_event_is_an_empty_object_unless_given(
    three: Served, payload: tuple[str, ...], output: object
) -> None:
    three.says("instances", "send-event", "waits", "two", "--type", "answer", *payload)
    three.becomes("waits", "two", InstanceStatus.COMPLETE)
    detail = json.loads(three.says("instances", "describe", "waits", "two", "--json"))
    assert detail["output"] == output


def test_a_payload_that_is_not_json_is_refused(three: Served) -> None:
    said = three.refuses(
        "instances", "send-event", "waits", "two", "--type", "answer", "--payload", "{a:1}"
    )
    assert "column 2" in said


def test_an_instance_is_restarted(three: Served) -> None:
    assert three.says("instances", "restart", "waits", "one").startswith('"one" is ')
    three.comes_to_wait("waits", "one")


def test_an_instance_is_restarted_from_a_step(three: Served) -> None:
    options = ["--from-step-name", "answer", "--from-step-type", "waitForEvent"]
    three.says("instances", "restart", "waits", "one", *options, "--from-step-count", "1")
    three.comes_to_wait("waits", "one")
    [first, wait] = json.loads(three.says("instances", "describe", "waits", "one", "--json"))[
        "steps"
    ]
    assert first["start"] == "2026-01-01T00:00:00.000Z"
    assert wait["start"] == "2026-01-01T00:00:30.015Z"


def test_a_restart_from_an_unknown_step_is_refused_in_the_words_of_the_server(
    three: Served,
) -> None:
    said = three.refuses("instances", "restart", "waits", "one", "--from-step-name", "answer")
    assert said == (
        'Error: (instance.cannot_restart) Step "answer" not found in execution history. '
        'It has these steps: "answer" (waitForEvent), "first" (do). The type is do unless another is given.'
    )


def test_a_count_of_a_step_wants_its_name(three: Served) -> None:
    done = three.ask("instances", "restart", "waits", "one", "--from-step-count", "2")
    assert done.exit_code == 2
    assert "need --from-step-name" in done.stderr


def test_an_instance_is_terminated_once(three: Served) -> None:
    assert three.says("instances", "terminate", "waits", "two") == '"two" is terminated.\n'
    assert "Cannot terminate instance" in three.refuses("instances", "terminate", "waits", "two")


def test_a_termination_with_rollback_runs_the_handlers(emulator: Served) -> None:
    emulator.says("trigger", "saga", "--id", "one")
    emulator.comes_to_wait("saga", "one")
    emulator.says("instances", "terminate", "saga", "one", "--rollback")
    assert "rollback of reserve-1" in emulator.says("instances", "describe", "saga", "one")


def test_instances_are_deleted(three: Served) -> None:
    assert three.says("instances", "delete", "waits", "one", "latest") == (
        'Deleted "one".\nDeleted "three".\n'
    )
    assert ids_of(three) == ["two"]


def test_what_cannot_be_deleted_is_told_and_the_rest_is_deleted(three: Served) -> None:
    done = three.ask("instances", "delete", "waits", "nope", "one", "--json")
    assert done.exit_code == 1
    assert done.stderr == 'Error: Instance "nope" does not exist\n'
    assert json.loads(done.stdout)["deleted"] == [{"id": "one"}]


@pytest.mark.parametrize(
    "command", ["describe", "pause", "resume", "restart", "terminate", "send-event"]
)
def test_an_unknown_instance_is_answered_in_one_line(emulator: Served, command: str) -> None:
    options = ["--type", "answer"] if command == "send-event" else []
    said = emulator.refuses("instances", command, "waits", "nope", *options)
    assert said == 'Error: (instance.not_found) Instance "nope" does not exist'


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (["pause", "waits", "two"], {"status", "timestamp"}),
        (["terminate", "waits", "two"], {"status", "timestamp"}),
        (["send-event", "waits", "two", "--type", "answer"], {"instanceId", "timestamp"}),
        (["delete", "waits", "two"], {"deleted", "errors"}),
    ],
)
def test_json_is_what_the_api_answers(three: Served, command: list[str], keys: set[str]) -> None:
    assert json.loads(three.says("instances", *command, "--json")).keys() == keys


def test_the_reason_of_an_end_is_told(three: Served) -> None:
    three.says("instances", "terminate", "waits", "two", "--reason", "no stock")
    page = httpx.get(f"{three.url}/cdn-cgi/local/explorer/workflows/waits/instances/two")
    assert "<dt>Reason</dt><dd>no stock</dd>" in page.text


def test_all_unfinished_instances_are_ended(three: Served) -> None:
    said = three.says("instances", "terminate-all", "waits")
    assert said == 'Ended 2 unfinished instances of "waits".\n'
    assert (
        three.says("instances", "terminate-all", "waits")
        == 'Ended 0 unfinished instances of "waits".\n'
    )
    assert ids_of(three, "--status", "terminated") == ["three", "two"]
    assert ids_of(three, "--status", "complete") == ["one"]


def test_the_instances_of_one_status_are_ended(three: Served) -> None:
    three.says("instances", "pause", "waits", "two")
    said = three.says("instances", "terminate-all", "waits", "--status", "paused", "--json")
    assert json.loads(said) == {"status": "ok"}
    assert ids_of(three, "--status", "terminated") == ["two"]
    assert ids_of(three, "--status", "waiting") == ["three"]


@pytest.fixture
def sleeper(emulator: Served) -> Served:
    """An instance of `orders` that sleeps for a minute."""
    emulator.says("trigger", "orders", "--id", "tired")
    emulator.comes_to_a_timer("orders", "tired")
    emulator.advance(1_000)
    emulator.comes_to("orders", "tired", "nap-1")
    return emulator


@pytest.mark.parametrize("steps", [(), ("nap-1",), ("nap-1", "nap-2")])
def test_a_sleeper_is_woken(sleeper: Served, steps: tuple[str, ...]) -> None:
    said = sleeper.says("instances", "wake-up", "orders", "latest", *steps)
    assert said == '"tired" wakes up from 1 sleep.\n'
    detail = json.loads(sleeper.says("instances", "describe", "orders", "tired", "--json"))
    [nap] = [step for step in detail["steps"] if step["name"] == "nap-1"]
    assert nap["finished"]


def test_who_does_not_sleep_is_not_woken(sleeper: Served) -> None:
    done = sleeper.ask("instances", "wake-up", "orders", "tired", "doze-1")
    assert (done.exit_code, done.stdout, done.stderr) == (
        1,
        "",
        '"tired" does not sleep there. It sleeps in "nap-1".\n',
    )
    sleeper.says("instances", "wake-up", "orders", "tired")
    done = sleeper.ask("instances", "wake-up", "orders", "tired", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"stoppedCount": 0})
    assert sleeper.refuses("instances", "wake-up", "orders", "nobody").startswith("Error: ")


def test_instances_are_found_by_their_attributes(three: Served) -> None:
    for name, attributes in {
        "four": {"customer": "7"},
        "five": {"customer": "7", "n": "1"},
    }.items():
        body = {"id": name, "attributes": attributes}
        httpx.post(f"{three.url}/cdn-cgi/local/explorer/api/workflows/waits/instances", json=body)
    assert ids_of(three, "--attribute", "customer=7") == ["five", "four"]
    assert ids_of(three, "--attribute", "customer=7", "--attribute", "n=1") == ["five"]
    said = three.refuses("instances", "list", "waits", "--attribute", "customer")
    assert said == 'Error: attribute: expected NAME=VALUE, such as "customer=7"'


def test_an_event_that_no_wait_can_be_for_is_not_sent(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    told = emulator.refuses("instances", "send-event", "waits", "one", "--type", "a.b")
    assert "The type 'a.b': (workflow.invalid_event_type)" in told


def test_an_event_for_an_instance_that_has_ended_is_not_sent(three: Served) -> None:
    told = three.refuses("instances", "send-event", "waits", "one", "--type", "answer")
    assert '"one" has ended (complete), and takes no events.' in told
