"""`workflows list | describe | trigger | delete`, against a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.domain.status import InstanceStatus
from tests.unit.cli_client.served import Served


def output_of(emulator: Served, instance_id: str) -> Any:
    emulator.becomes("echo", instance_id, InstanceStatus.COMPLETE)
    detail = json.loads(emulator.says("instances", "describe", "echo", instance_id, "--json"))
    return detail["output"]


def test_workflows_are_listed_with_their_class_and_their_number_of_instances(
    emulator: Served,
) -> None:
    emulator.says("trigger", "echo")
    rows = [line.split() for line in emulator.says("list").splitlines()]
    assert rows == [
        ["Name", "Class", "Script", "Instances"],
        ["orders", "Work", "shop", "0"],
        ["waits", "Work", "shop", "0"],
        ["saga", "Work", "shop", "0"],
        ["secret", "Work", "shop", "0"],
        ["echo", "Work", "shop", "1"],
    ]


def test_a_page_of_workflows_can_be_chosen(emulator: Served) -> None:
    rows = json.loads(emulator.says("list", "--per-page", "2", "--page", "3", "--json"))
    assert [row["name"] for row in rows] == ["echo"]


def test_a_workflow_is_described(emulator: Served) -> None:
    emulator.says("trigger", "echo", "--id", "one")
    emulator.becomes("echo", "one", InstanceStatus.COMPLETE)
    emulator.says("trigger", "waits")
    assert emulator.says("describe", "echo") == (
        "echo\n"
        "  Class     Work\n"
        "  Script    shop\n"
        "  Triggered 2026-01-01 00:00:00.000Z\n"
        "  Instances 1 complete\n"
    )
    assert "Triggered never\n  Instances none\n" in emulator.says("describe", "saga")


def test_a_workflow_as_json_is_what_the_api_answers(emulator: Served) -> None:
    found = json.loads(emulator.says("describe", "echo", "--json"))
    assert (found["name"], found["class_name"], found["triggered_on"]) == ("echo", "Work", None)


def test_triggering_tells_the_id_and_passes_the_params(emulator: Served) -> None:
    said = emulator.says("trigger", "echo", '{"a": 1}', "--id", "one")
    assert said == 'Created instance "one" of "echo".\n'
    assert output_of(emulator, "one") == {"a": 1}


@pytest.mark.parametrize(
    ("given", "params"),
    [('"5"', "5"), ('"text"', "text"), ("null", None), ("[1, 2.5, true]", [1, 2.5, True])],
)
def test_params_arrive_as_the_json_value_that_was_given(
    emulator: Served, given: str, params: object
) -> None:
    emulator.says("trigger", "echo", given, "--id", "one")
    assert output_of(emulator, "one") == params


def test_without_params_the_payload_is_an_empty_object(emulator: Served) -> None:
    emulator.says("trigger", "echo", "--id", "one")
    assert output_of(emulator, "one") == {}


def test_params_come_from_a_file_or_the_standard_input(emulator: Served, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"from": "a file ✓"}', "utf-8")
    emulator.says("trigger", "echo", f"@{file}", "--id", "one")
    emulator.ask("trigger", "echo", "-", "--id", "two", stdin='{"from": "stdin"}')
    assert output_of(emulator, "one") == {"from": "a file ✓"}
    assert output_of(emulator, "two") == {"from": "stdin"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("{a:1}", "Expecting property name enclosed in double quotes at line 1, column 2: {a:1}"),
        ('{"a": 1,\n "b" 2}', "Expecting ':' delimiter at line 2, column 6: \"b\" 2}"),
        ("", "Expecting value at line 1, column 1: "),
        ("[NaN]", "there is no NaN in JSON"),
    ],
)
def test_params_that_are_not_json_are_refused_before_anything_starts(
    emulator: Served, given: str, complaint: str
) -> None:
    assert (
        emulator.refuses("trigger", "echo", given)
        == f"Error: PARAMS is not JSON: {complaint}".strip()
    )
    assert "Instances none" in emulator.says("describe", "echo")


@pytest.mark.parametrize("given", [r'"\ud83d"', r'{"a": ["x\ud83d"]}'])
def test_half_a_character_is_refused_where_it_was_typed(emulator: Served, given: str) -> None:
    assert emulator.refuses("trigger", "echo", given) == (
        r'Error: PARAMS has a text that is none in UTF-8: "\ud83d" is half of a character.'
    )
    assert "Instances none" in emulator.says("describe", "echo")


def test_params_that_cannot_be_read_are_refused(emulator: Served, tmp_path: Path) -> None:
    said = emulator.refuses("trigger", "echo", f"@{tmp_path / 'absent'}")
    assert said.startswith("Error: PARAMS cannot be read from @")


def test_an_id_that_is_taken_is_refused_in_the_words_of_the_server(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    said = emulator.refuses("trigger", "waits", "--id", "one")
    assert 'Workflow instance with id "one" already exists' in said


def test_deleting_a_workflow_deletes_its_instances(emulator: Served) -> None:
    emulator.says("trigger", "waits", "--id", "one")
    assert emulator.says("delete", "waits") == 'Deleted all instances of "waits".\n'
    assert 'Instance "one" does not exist' in emulator.refuses(
        "instances", "describe", "waits", "one"
    )


@pytest.mark.parametrize(
    "command",
    [["describe"], ["trigger"], ["delete"], ["instances", "list"], ["instances", "describe"]],
)
def test_an_unknown_workflow_is_answered_with_those_there_are(
    emulator: Served, command: list[str]
) -> None:
    said = emulator.refuses(*command, "nope")
    assert said.endswith(
        'Workflow "nope" does not exist. There are: echo, orders, saga, secret, waits'
    )
