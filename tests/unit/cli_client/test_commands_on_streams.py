"""`workflow-emulator streams list` and `read` on a running emulator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from emulator.engine.programs import RunEvent
from emulator.engine.step_code import AttemptContext, StepCode
from emulator.engine.steps import StepContext
from tests.unit.cli_client.served import PATIENCE_S, Served, invoke, served
from tests.unit.rest.emulated import CONFIG
from wrangler_compat.server import Access


async def writes(event: RunEvent, step: StepContext) -> None:
    """Some chunks of a step, an event, a last chunk."""
    step.use_streams()

    async def callback(_: AttemptContext) -> None:
        for chunk in ("one\x1b[2J", {"two": 2}, b"\x00three\n"):
            await step.write("default", chunk)
        await step.close_stream("other")

    await step.do("write", StepCode(callback), CONFIG)
    await step.wait_for_event("go", "go", 3_600_000)
    await step.write("default", "last")


@pytest.fixture
def emulator() -> Generator[Served]:
    with served(runs={"writes": writes}) as running:
        running.says("trigger", "writes", "--id", "one")
        running.comes_to_wait("writes", "one")
        yield running


def ask(emulator: Served, *arguments: str) -> str:
    done = invoke("streams", *arguments, url=emulator.url)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def refusal(emulator: Served, *arguments: str) -> str:
    done = invoke("streams", *arguments, url=emulator.url)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    return done.stderr.strip()


def test_the_streams_of_an_instance_are_listed(emulator: Served) -> None:
    rows = [line.split() for line in ask(emulator, "list", "writes", "latest").splitlines()]
    assert rows == [["Stream", "Chunks", "State"], ["default", "3", "open"], ["other", "0", "done"]]
    assert json.loads(ask(emulator, "list", "writes", "one", "--json"))[0] == {
        "namespace": "default",
        "tailIndex": 2,
        "done": False,
    }


def test_what_is_there_is_read_texts_and_json_as_lines_bytes_as_they_are(emulator: Served) -> None:
    assert ask(emulator, "read", "writes", "one") == 'one\\x1b[2J\n{"two": 2}\n\x00three\n'
    assert ask(emulator, "read", "writes", "one", "--start-index", "-2") == (
        '{"two": 2}\n\x00three\n'
    )
    assert ask(emulator, "read", "writes", "latest", "--start-index", "3") == ""


@pytest.mark.parametrize("stream", ["other", "nobody wrote this"])
@pytest.mark.parametrize("options", [(), ("--follow",)])
def test_that_nothing_was_written_is_told(
    emulator: Served, stream: str, options: tuple[str, ...]
) -> None:
    if options:
        emulator.says("instances", "terminate", "writes", "one")
    done = invoke("streams", "read", "writes", "one", stream, *options, url=emulator.url)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f'"one" has written nothing to a stream "{stream}".\n'


def test_with_json_there_is_a_line_for_each_chunk_with_its_writer(emulator: Served) -> None:
    told = ask(emulator, "read", "writes", "one", "--json", "--start-index", "1")
    assert [json.loads(line) for line in told.splitlines()] == [
        {"index": 1, "value": {"two": 2}, "step": "write-1", "attempt": 1},
        {
            "index": 2,
            "value": {"$": "bytes", "value": "AHRocmVlCg=="},
            "step": "write-1",
            "attempt": 1,
        },
    ]


def test_a_stream_is_followed_to_its_end(emulator: Served) -> None:
    with follower(emulator, "--start-index", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '{"two": 2}\n'
        emulator.says("instances", "send-event", "writes", "one", "--type", "go")
        assert process.stderr is not None
        # Not `communicate`: it passes over what `readline` has read ahead.
        told, errors = process.stdout.read(), process.stderr.read()
        process.wait(PATIENCE_S)
    assert (process.returncode, told, errors) == (0, "\x00three\nlast\n", "")


def test_following_ends_when_the_instance_goes_or_at_control_c(emulator: Served) -> None:
    with follower(emulator) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    with follower(emulator) as process:
        assert process.stdout is not None
        process.stdout.readline()
        emulator.says("instances", "delete", "writes", "one")
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert errors.endswith('Instance "one" does not exist\n')


def test_mistakes_are_told_in_a_line(emulator: Served) -> None:
    assert refusal(emulator, "read", "writes", "two") == (
        'Error: (instance.not_found) Instance "two" does not exist'
    )
    assert 'Workflow "nothing" does not exist' in refusal(emulator, "list", "nothing", "two")
    nobody = invoke("streams", "list", "writes", "two", url="http://localhost:1")
    assert "No emulator answers" in nobody.stderr
    with served(Access("secret")) as other:
        assert "give the emulator's token with --token" in refusal(other, "read", "waits", "one")


@contextmanager
def follower(emulator: Served, *options: str) -> Generator[subprocess.Popen[str]]:
    """Follow the default stream in a process of its own."""
    program = [sys.executable, "-m", "wrangler_compat.cli.main", "streams", "read", "writes", "one"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("WORKFLOW_EMULATOR_API_TOKEN", None)
    process = subprocess.Popen(
        [*program, "--follow", "--url", emulator.url, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
