"""`workflow-emulator run`, as a process of its own on a project written for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 30

WRANGLER = """{
  "name": "shop", "main": "entry.py", "compatibility_date": "2026-11-01",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
import threading

from workers import WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        print("said by the user's code")

        @step.do("price", config={"retries": {"limit": 1, "delay": 0}})
        async def price(ctx):
            if ctx["attempt"] == 1:
                raise KeyError("mug")
            return 900

        @step.do("hang", config={"retries": {"limit": 0, "delay": 1}, "timeout": 50})
        def hang():
            threading.Event().wait()

        cents = await price()
        match event["payload"].get("then"):
            case "fail":
                raise ValueError("sold out")
            case "end":
                await (await self.env.ORDERS.get(event["instanceId"])).terminate()
            case "wait":
                await step.wait_for_event("never", "never", timeout="1 hour")
            case "hang":
                await hang()
        return {"cents": cents, "id": event["instanceId"]}
"""

ECHO = """
from workers import WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        return event["payload"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ENTRY)
    return tmp_path


def command(project: Path, *arguments: str) -> list[str]:
    main = [sys.executable, "-P", "-m", "wrangler_compat.cli.main"]
    return [*main, "run", str(project), *arguments]


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ended(command(project, *arguments), project)


def ended(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def told(stderr: str) -> list[str]:
    """The lines of progress, without their times."""
    return [
        line.partition("Z  ")[2].partition(" (")[0] for line in stderr.splitlines() if "Z  " in line
    ]


def test_the_output_goes_to_stdout_and_all_else_to_stderr(project: Path) -> None:
    done = run(project, "orders", "{}", "--id", "one")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"cents": 900, "id": "one"})
    assert "said by the user's code\n" in done.stderr
    assert told(done.stderr) == [
        "queued",
        "running",
        "▶ price-1",
        "✗ price-1, attempt 1: KeyError: 'mug'",
        "▶ price-1, attempt 2",
        "✓ price-1",
        "✓ complete",
    ]


def test_a_failure_is_logged_after_the_start_of_its_attempt(project: Path) -> None:
    for _ in range(3):
        said = run(project, "orders").stderr
        lines = [line.partition("Z  ")[2] or line for line in said.splitlines()]
        [warning] = [at for at, line in enumerate(lines) if line.startswith("WARNING: ")]
        assert lines.index("▶ price-1") < warning
        assert lines.index("KeyError: 'mug'") > warning


def test_what_a_terminal_would_obey_in_a_message_is_shown(project: Path) -> None:
    entry = ENTRY.replace('KeyError("mug")', 'ValueError("\\x1b[31mred\\ttab")')
    (project / "entry.py").write_text(entry)
    said = run(project, "orders").stderr
    assert "\x1b" not in said
    assert "failed: ValueError: \\x1b[31mred\ttab\n" in said


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("orders",), {}),
        (("orders", '{"a": 1}'), {"a": 1}),
        (("orders", "7"), 7),
        ((".", "orders"), {}),
        ((".", "orders", "7"), 7),
    ],
)
def test_the_folder_and_the_params_can_be_left_out(
    project: Path, words: tuple[str, ...], output: object
) -> None:
    (project / "entry.py").write_text(ECHO)
    ran = ended([*command(project)[:-1], *words], project)
    assert (ran.returncode, json.loads(ran.stdout or "null")) == (0, output), ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("nowhere", "orders"), 2, "Path 'nowhere' does not exist."),
        (("nowhere", "orders", "7"), 2, "Path 'nowhere' does not exist."),
        (("orders", "{a:1}"), 1, "PARAMS is not JSON"),
        ((".", "orders", "7", "8"), 2, "Got unexpected extra arguments (8)"),
        ((), 2, "Missing argument"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    project: Path, words: tuple[str, ...], code: int, complaint: str
) -> None:
    ran = ended([*command(project)[:-1], *words], project)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert complaint in ran.stderr


def test_nothing_is_left_behind(project: Path) -> None:
    run(project, "orders")
    assert {path.name for path in project.iterdir()} - {"__pycache__"} == {
        "wrangler.jsonc",
        "entry.py",
    }


def test_an_instance_that_errors_exits_with_1(project: Path) -> None:
    done = run(project, "orders", '{"then": "fail"}')
    assert (done.returncode, done.stdout) == (1, "")
    assert told(done.stderr)[-1] == "✗ errored: ValueError: sold out"


def test_an_instance_that_is_terminated_exits_with_3(project: Path) -> None:
    done = run(project, "orders", '{"then": "end"}')
    assert (done.returncode, done.stdout) == (3, "")
    assert told(done.stderr)[-1] == "■ terminated"


def test_code_that_hangs_in_a_thread_does_not_keep_the_process(project: Path) -> None:
    done = run(project, "orders", '{"then": "hang"}', "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["name"] == "WorkflowTimeoutError"


def test_ctrl_c_ends_it_at_once(project: Path) -> None:
    with subprocess.Popen(
        command(project, "orders", '{"then": "wait"}'), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "… wait never-1" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


def test_a_kept_journal_knows_the_instance(project: Path) -> None:
    folder = str(project / "kept")
    assert run(project, "orders", "--id", "one", "--persist-to", folder).returncode == 0
    again = run(project, "orders", "--id", "one", "--persist-to", folder)
    assert (again.returncode, again.stdout) == (1, "")
    told = 'Workflow instance with id "one" already exists. Choose another id, or delete the instance that has it.'
    assert again.stderr.endswith(f"{told}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nope",), 'Workflow "nope" does not exist. There are: orders'),
        (("orders", "{a:1}"), "PARAMS is not JSON: Expecting property name"),
        (("orders", "--env", "nope"), "nope"),
        (("orders", "--id", "a/b"), "invalid id. An id is 1 to 100 letters"),
    ],
)
def test_what_cannot_run_is_told_in_one_line(
    project: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run(project, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert complaint in done.stderr


def test_a_module_that_does_not_import_is_shown_from_the_users_line_on(project: Path) -> None:
    (project / "entry.py").write_text("import workers\n\nworkers.absent()\n")
    done = run(project, "orders")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].endswith('entry.py", line 3, in <module>')


def test_what_the_configuration_is_warned_of_and_lacks_is_told(project: Path) -> None:
    (project / "wrangler.jsonc").write_text(
        '{ "main": "entry.py", "workflow": [], "workflows": '
        '[{ "name": "refund", "binding": "R", "class_name": "R", "script_name": "bank" }] }'
    )
    done = run(project, "refund")
    assert (done.returncode, done.stdout) == (1, "")
    assert '"workflow": perhaps "workflows" is meant.' in done.stderr
    assert '"refund" is a workflow of the script "bank", which does not run here' in done.stderr
