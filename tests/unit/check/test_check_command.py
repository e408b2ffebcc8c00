"""`workflow-emulator check`: what it prints, and how it exits."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wrangler_compat.check import check_source
from wrangler_compat.check.finding import DOCUMENT
from wrangler_compat.cli.main import main

SLEEPY = """\
from workers import WorkflowEntrypoint


class Sleepy(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("a while", 30){comment}
"""


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    source = tmp_path / "src"
    source.mkdir()
    (source / "entry.py").write_text(SLEEPY.format(comment=""))
    return tmp_path


def test_a_finding_is_a_place_a_code_a_sentence_and_a_link(project: Path) -> None:
    result = check(project)
    assert result.exit_code == 1
    place, link = result.stdout.splitlines()
    assert place.startswith(f"{project}/src/entry.py:6:37: WF013 A bare number is milliseconds")
    assert link.strip() == f"{DOCUMENT.as_uri()}#wf013"


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"]])
def test_findings_are_json_for_programs(project: Path, option: list[str]) -> None:
    result = check(project, *option)
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)
    assert finding["path"] == f"{project}/src/entry.py"
    assert (finding["line"], finding["column"], finding["code"]) == (6, 37, "WF013")
    assert finding["link"] == f"{DOCUMENT.as_uri()}#wf013"


def test_findings_are_annotations_for_github(project: Path) -> None:
    result = check(project, "--format", "github")
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(
        f"::error file={project}/src/entry.py,line=6,col=37,title=WF013%3A A number that looks like seconds::A bare"
    )


def test_a_clean_project_says_nothing(project: Path) -> None:
    (project / "src" / "entry.py").write_text("x = 1\n")
    result = check(project)
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads(check(project, "--json").stdout) == []


def test_the_files_of_others_are_left_alone(project: Path) -> None:
    for folder in (".venv", "node_modules", "python_modules"):
        (project / folder).mkdir()
        (project / folder / "theirs.py").write_text(SLEEPY.format(comment=""))
    assert len(json.loads(check(project, "--json").stdout)) == 1


def test_a_file_that_is_not_python_is_an_error_with_its_line(project: Path) -> None:
    (project / "src" / "entry.py").write_text("x = 1\ndef :\n")
    result = check(project)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {project}/src/entry.py:2 is not Python: invalid syntax.\n"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x = '\x00'\n", b"# coding: nonsense\n"])
def test_bytes_that_are_no_text_are_an_error(project: Path, content: bytes) -> None:
    (project / "src" / "entry.py").write_bytes(content)
    result = check(project)
    assert result.exit_code == 2
    assert "entry.py" in result.stderr


def test_a_folder_without_python_is_an_error(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert result.exit_code == 2
    assert "no Python file" in result.stderr


def test_a_folder_without_python_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert check().stderr == f"Error: There is no Python file in {tmp_path}.\n"


WRANGLER = '{ "main": "src/entry.py", "workflows": [{ "name": "w", "binding": "W", "class_name": "Sleepy" }] }'


@pytest.mark.parametrize(
    ("wrangler", "entry", "told"),
    [
        ('{ "main": 1 }', "x = 1\n", "{root}/wrangler.jsonc:1:11: main: got 1; expected a non-empty string."),
        ('{ "main": "no.py" }', "x = 1\n", '{root}/wrangler.jsonc:1:11: main: got "no.py", but there is no file {root}/no.py.'),
        (WRANGLER, "class Sleeepy: ...\n", "{root}/wrangler.jsonc names the workflow class Sleepy, which does not exist in {root}/src/entry.py. Did you mean Sleeepy?"),
        (WRANGLER, "class Order: ...\n", "{root}/wrangler.jsonc names the workflow class Sleepy, which does not exist in {root}/src/entry.py."),
        (WRANGLER, SLEEPY.format(comment=""), None),
        (WRANGLER, "from naps import Sleepy\n", None),
        (WRANGLER, "from naps import *\n", None),
        (WRANGLER, "Sleepy = make()\n", None),
        (WRANGLER.replace(' "class_name"', ' "script_name": "another", "class_name"'), "x = 1\n", None),
    ],
)  # fmt: skip
def test_a_project_whose_wrangler_file_is_wrong_is_not_green(
    project: Path, wrangler: str, entry: str, told: str | None
) -> None:
    (project / "wrangler.jsonc").write_text(wrangler)
    (project / "src" / "entry.py").write_text(entry)
    result = check(project)
    if told is None:
        assert "Error" not in result.stderr
        assert result.exit_code < 2
    else:
        assert result.stderr == f"Error: {told.format(root=project)}\n"
        assert result.exit_code == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('"compatibility_flags": ["python_workers"]', ""),
        ('"compatibility_flags": []', 'Warning: {path}: compatibility_flags has no "python_workers", without which a Python Worker cannot be deployed.\n'),
        ('"compatibility_flags": ["python_workers"], "worklfows": []', 'Warning: {path}:1:59: "worklfows": perhaps "workflows" is meant.\n'),
    ],
)  # fmt: skip
def test_what_will_not_do_on_cloudflare_is_a_warning(
    project: Path, settings: str, told: str
) -> None:
    path = project / "wrangler.jsonc"
    path.write_text(f"{{ {settings}, {WRANGLER.removeprefix('{')}")
    (project / "src" / "entry.py").write_text("class Sleepy: ...\n")
    result = check(project)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == told.format(path=path)


def test_what_is_found_is_printed_though_the_wrangler_file_is_wrong(project: Path) -> None:
    (project / "wrangler.jsonc").write_text("{")
    result = check(project, "--json")
    assert result.exit_code == 2
    assert [each["code"] for each in json.loads(result.stdout)] == ["WF013"]
    assert "wrangler.jsonc:1:2" in result.stderr


def test_a_folder_that_is_not_there_is_an_error_of_usage(tmp_path: Path) -> None:
    assert check(tmp_path / "nowhere").exit_code == 2


@pytest.mark.parametrize(
    "comment",
    ["  # noqa", "  # noqa: WF013", "  # noqa: E501, WF013 - short on purpose", "  #NOQA:wf013"],
)
def test_a_comment_silences_its_line(comment: str) -> None:
    assert check_source(SLEEPY.format(comment=comment), "entry.py") == []


@pytest.mark.parametrize(
    "comment", ["  # noqa: WF003", "  # noqa: E501", "\n        # noqa", "  # on"]
)
def test_other_comments_silence_nothing(comment: str) -> None:
    assert len(check_source(SLEEPY.format(comment=comment), "entry.py")) == 1


def test_their_warnings_are_not_ours() -> None:
    assert check_source('pattern = "\\d"\n', "entry.py") == []
