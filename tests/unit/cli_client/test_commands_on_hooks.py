"""`hooks list | get | resume`, and the tokens with which instances are created."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import Result

from emulator.domain.status import InstanceStatus
from emulator.engine.programs import RunEvent
from emulator.engine.steps import StepContext
from tests.unit.cli_client.served import Served, invoke, served
from tests.unit.rest.emulated import REMOTE

T0 = "2026-01-01 00:00:00.000Z"
LATER = "2026-01-01 00:00:00.005Z"


async def collects(event: RunEvent, step: StepContext) -> object:
    """Takes payloads through the hook that its params name, until one is null."""
    params: Any = event.payload
    hook = step.create_hook(token=params["token"], metadata=msgspec.Raw(b'{"by":"me"}'))
    taken: list[object] = []
    while (payload := await hook.receive()) is not None:
        taken.append(payload)
    return taken


@pytest.fixture
def emulator() -> Generator[Served]:
    with served(runs={"collects": collects, "more": collects}) as running:
        yield running


def ask(emulator: Served, *arguments: str, stdin: str | None = None) -> Result:
    return invoke("hooks", *arguments, url=emulator.url, stdin=stdin)


def says(emulator: Served, *arguments: str, stdin: str | None = None) -> str:
    """Run what must succeed; what it prints to stdout."""
    done = ask(emulator, *arguments, stdin=stdin)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def refuses(emulator: Served, *arguments: str) -> str:
    """Run what must fail with one line on stderr; that line."""
    done = ask(emulator, *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def trigger(emulator: Served, token: str, *more: str, workflow: str = "collects") -> None:
    params = json.dumps({"token": token})
    emulator.says("trigger", workflow, params, "--id", token, "--hook", token, *more)
    emulator.comes_to_wait(workflow, token)


def output_of(emulator: Served, instance_id: str) -> Any:
    emulator.becomes("collects", instance_id, InstanceStatus.COMPLETE)
    detail = emulator.says("instances", "describe", "collects", instance_id, "--json")
    return json.loads(detail)["output"]


def test_hooks_are_listed_with_their_holders(emulator: Served) -> None:
    assert ask(emulator, "list").stderr == "There are no such hooks.\n"
    trigger(emulator, "one", "--min-retention", "1 day")
    trigger(emulator, "two", workflow="more")
    rows = [line.split("  ") for line in says(emulator, "list").splitlines()]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["Token", "Workflow", "Instance", "Status", "Created", "Kept until"],
        ["one", "collects", "one", "waiting", T0, "2026-01-02 00:00:00.000Z"],
        ["two", "more", "two", "waiting", LATER, "-"],
    ]
    for query, tokens in (
        (["--workflow", "more"], ["two"]),
        (["--id", "one"], ["one"]),
        (["--workflow", "more", "--id", "one"], []),
        ([], ["one", "two"]),
    ):
        listed = json.loads(says(emulator, "list", "--json", *query))
        assert [each["token"] for each in listed] == tokens
    assert "nothing" in refuses(emulator, "list", "--workflow", "nothing")


def test_all_pages_are_listed(emulator: Served) -> None:
    url = f"{emulator.url}{REMOTE}/collects/instances/batch"
    for start in (0, 60):
        tokens = [f"t{number}" for number in range(start, start + 60)]
        batch = [{"params": {"token": token}, "hook": token} for token in tokens]
        assert httpx.post(url, json=batch).status_code == 200
    assert len(json.loads(says(emulator, "list", "--json"))) == 120


def test_a_hook_is_shown(emulator: Served) -> None:
    trigger(emulator, "one", "--min-retention", "1 day")
    shown = json.loads(says(emulator, "get", "one", "--json"))
    assert says(emulator, "get", "one") == (
        "one\n"
        f"  Id        {shown['hookId']}\n"
        "  Held by   collects / one\n"
        "  Status    waiting\n"
        f"  Created   {T0}\n"
        "  Kept      until 2026-01-02 00:00:00.000Z\n"
        '  Metadata  {"by": "me"}\n'
        "  Webhook   no\n"
    )
    assert '"order/2"' in refuses(emulator, "get", "order/2")
    emulator.says("instances", "delete", "collects", "one")
    assert "No hook" in refuses(emulator, "get", "one")


def test_a_payload_is_sent_in_every_form(emulator: Served, tmp_path: Path) -> None:
    trigger(emulator, "one")
    (tmp_path / "payload.json").write_text('{"from": "file"}')
    assert says(emulator, "resume", "one", '"text"') == 'Sent the payload to "one".\n'
    says(emulator, "resume", "one", f"@{tmp_path / 'payload.json'}")
    says(emulator, "resume", "one", "-", stdin="[1]")
    for _ in range(2):
        answer = json.loads(says(emulator, "resume", "one", "2", "--resume-id", "k", "--json"))
        assert (answer["runId"], answer["resumeId"]) == ("one", "k")
    assert "resume id" in refuses(emulator, "resume", "one", "3", "--resume-id", "k")
    assert "is not JSON" in refuses(emulator, "resume", "one", "{")
    says(emulator, "resume", "one")
    assert output_of(emulator, "one") == ["text", {"from": "file"}, [1], 2]
    assert "No hook takes payloads" in refuses(emulator, "resume", "one", "4")


def test_an_instance_whose_token_is_taken_is_not_created(emulator: Served) -> None:
    trigger(emulator, "one")
    said = emulator.refuses("trigger", "collects", "--hook", "one")
    assert '"one" is already in use by another workflow (run "one")' in said
    assert "min_retention needs a hook" in emulator.refuses(
        "trigger", "collects", "--min-retention", "1 day"
    )
    rows = json.loads(emulator.says("instances", "list", "collects", "--json"))
    assert [row["id"] for row in rows] == ["one"]


def test_an_instance_is_described_with_its_hooks(emulator: Served) -> None:
    trigger(emulator, "one")
    screen = emulator.says("instances", "describe", "collects", "one")
    assert "  Hook      one\n" in screen
    assert "… wait token one-1-1" in screen
    assert "for a payload of its hook" in screen
    says(emulator, "resume", "one")
    emulator.becomes("collects", "one", InstanceStatus.COMPLETE)
    assert "Hook " not in emulator.says("instances", "describe", "collects", "one")
    followed = emulator.ask("instances", "describe", "collects", "one", "--follow")
    assert followed.exit_code == 0
    assert "for a payload of its hook" in followed.output


def test_a_resume_id_may_have_any_letter(emulator: Served) -> None:
    trigger(emulator, "one")
    answers = [
        json.loads(says(emulator, "resume", "one", "1", "--resume-id", "é-1", "--json"))
        for _ in range(2)
    ]
    assert [each["resumeId"] for each in answers] == ["é-1", "é-1"]
