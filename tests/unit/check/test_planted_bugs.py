"""The planted bugs are found, each by its rule, and nothing is found where nothing is wrong."""

from pathlib import Path

import pytest

from wrangler_compat.check import check_folder

TESTS = Path(__file__).parents[2]
PLANTED = TESTS / "planted"
CORPUS = Path(__file__).with_name("corpus")
CODES = {
    "random_step_name": "WF003",
    "clock_branch": "WF004",
    "outside_list": "WF009",
    "forgotten_await": "WF001",
    "set_iteration": "WF005",
    "swallowed_cancellation": "WF018",
    "charge_without_key": "WF012",
    "mutated_result": "WF011",
    "unstepped_create": "WF007",
    "number_as_seconds": "WF013",
}
CORRECT = [
    *sorted((TESTS.parent / "examples").glob("*/src")),
    TESTS / "conformance" / "worker",
    *sorted(CORPUS.glob("*.py")),
]


def test_every_planted_bug_has_a_rule() -> None:
    assert {path.stem.removesuffix("_bug") for path in PLANTED.glob("*_bug.py")} == CODES.keys()


@pytest.mark.parametrize("name", CODES)
def test_a_planted_bug_is_found_once_by_its_rule(name: str) -> None:
    findings = check_folder(PLANTED / f"{name}_bug.py")
    assert [finding.code for finding in findings] == [CODES[name]]


@pytest.mark.parametrize("name", CODES)
def test_nothing_is_found_in_a_correct_twin(name: str) -> None:
    assert check_folder(PLANTED / f"{name}_fixed.py") == []


@pytest.mark.parametrize("path", CORRECT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_found_in_correct_workers(path: Path) -> None:
    assert check_folder(path) == []
