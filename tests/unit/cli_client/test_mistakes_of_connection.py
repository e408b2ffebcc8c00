"""What the commands say when there is no emulator, or it does not want them: one line, exit code 1."""

from __future__ import annotations

import socket

import pytest

from tests.unit.cli_client.served import Served, invoke, served
from wrangler_compat.server import Access

COMMANDS = [
    ["list"],
    ["describe", "echo"],
    ["trigger", "echo"],
    ["trigger", "echo", "--follow"],
    ["delete", "echo"],
    ["instances", "list", "echo"],
    ["instances", "describe", "echo", "latest"],
    ["instances", "describe", "echo", "one", "--follow"],
    ["instances", "send-event", "echo", "one", "--type", "answer"],
    ["instances", "pause", "echo", "one"],
    ["instances", "delete", "echo", "one"],
]


@pytest.fixture
def silent_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_an_emulator_it_says_where_it_looked_and_how_to_start_one(
    silent_url: str, command: list[str]
) -> None:
    done = invoke("workflows", *command, url=silent_url)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: No emulator answers at {silent_url}: start one with `workflow-emulator dev`, "
        "or give its address with --url.\n"
    )


@pytest.mark.parametrize("url", ["localhost:8787", "ftp://localhost", "http://[", "http://a b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    done = invoke("workflows", "list", "--url", url, url="http://localhost")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert url in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("workflows", "list"),
        ("hooks", "list"),
        ("streams", "list", "echo", "one"),
        ("streams", "read", "echo", "one"),
        ("dynamic", "list"),
    ],
)
def test_something_else_that_answers_is_no_emulator(
    emulator: Served, command: tuple[str, ...]
) -> None:
    done = invoke(*command, "--url", f"{emulator.url}/elsewhere", url="")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is no workflow-emulator (HTTP 200)" in done.stderr


def test_a_slash_after_the_address_does_no_harm(emulator: Served) -> None:
    done = invoke("workflows", "list", "--url", f"{emulator.url}/", url="")
    assert done.exit_code == 0


def test_the_token_is_sent_and_asked_for() -> None:
    with served(Access("s3cret")) as emulator:
        assert emulator.refuses("list") == (
            "Error: Authentication error: give the emulator's token with --token, "
            "or in WORKFLOW_EMULATOR_API_TOKEN."
        )
        assert emulator.ask("list", "--token", "s3cret").exit_code == 0


def test_a_name_with_a_slash_stays_one_part_of_the_path(emulator: Served) -> None:
    said = emulator.refuses("instances", "describe", "waits", "one/status")
    assert said.endswith('Instance "one/status" does not exist')


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_of_dots_is_a_name_and_no_way_up(emulator: Served, name: str) -> None:
    assert f'Workflow "{name}" does not exist' in emulator.refuses("describe", name)
    for command in (["hooks", "get", name], ["streams", "read", "waits", "one", name]):
        done = invoke(*command, url=emulator.url)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "does not exist" in done.stderr or f'"{name}"' in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["workflows", "describe", ""], "WORKFLOW"),
        (["workflows", "delete", ""], "WORKFLOW"),
        (["workflows", "instances", "describe", "waits", ""], "ID"),
        (["workflows", "instances", "delete", "waits", "one", ""], "ID..."),
        (["workflows", "instances", "send-event", "waits", "one", "--type", ""], "--type"),
        (["hooks", "get", ""], "TOKEN"),
        (["hooks", "resume", "", "{}"], "TOKEN"),
        (["streams", "read", "waits", "one", ""], "[NAMESPACE]"),
        (["dynamic", "list", ""], "[TENANT]"),
    ],
)
def test_an_empty_name_is_refused_before_it_is_asked_for(command: list[str], name: str) -> None:
    done = invoke(*command, url="http://127.0.0.1:9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: '{name}' cannot be empty.\n"


def test_an_empty_payload_is_one(emulator: Served) -> None:
    done = invoke("hooks", "resume", "nobody", '""', url=emulator.url)
    assert 'No hook takes payloads for the token "nobody"' in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["workflows", "describe", "\udcff"],
        ["workflows", "instances", "list", "waits", "--attribute", "a=\udcff"],
        ["workflows", "instances", "send-event", "waits", "\udcff", "--type", "a"],
        ["hooks", "resume", "a", "--resume-id", "\udcff"],
    ],
)
def test_what_is_not_utf8_is_refused_in_words(command: list[str]) -> None:
    done = invoke(*command, url="http://127.0.0.1:9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert r"\udcff cannot be sent: it is no text in UTF-8." in done.stderr


@pytest.mark.parametrize("token", ["é", "", " a", "a\nb"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_told(token: str) -> None:
    done = invoke("workflows", "list", "--token", token, url="http://127.0.0.1:9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: The API token can only have letters, digits, signs of ASCII and spaces between them.\n"
    )
