"""A tenant's code: what is refused, where, and what loading leaves behind."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from bindings import WorkflowEntrypoint
from bindings.dynamic import Code, DynamicCodeError
from bindings.dynamic.code import MAX_LOADED, LoadedCode, LoadedCodes, code_of
from tests.unit.dynamic.dispatcher import saying, source


def loaded(code: object) -> type[WorkflowEntrypoint]:
    checked = code_of(code)
    return LoadedCode(checked, checked.hash).workflow_class()


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        ("def f(:\n", ("main.py", 1, 7), "main.py, line 1, column 7: invalid syntax"),
        ("x = 1\ny = = 2\n", ("main.py", 2, 5), "main.py, line 2, column 5: invalid syntax"),
        ("return 1", ("main.py", 1, 1), "'return' outside function"),
        (
            {"modules": {"main": "import rates", "rates": "x ="}},
            ("rates.py", 1, 4),
            "rates.py, line 1, column 4",
        ),
        ("x = '\0'", ("main.py", 1, 1), "null bytes"),
        ("(" * 10_000, ("main.py", 1, 201), "too many nested parentheses"),
        ("x = '\ud800'", (None, None, None), "no text that can be stored"),
        ("#" * (2**20 + 1), (None, None, None), "1048577 bytes; 1048576"),
        ({"modules": {}}, (None, None, None), "no module 'main'; there are: none"),
        ({"modules": {"main": "", "a.b": ""}}, (None, None, None), "cannot be called 'a.b'"),
        ({"modules": {"main": 1}}, (None, None, None), "Expected `str`, got `int`"),
        (None, (None, None, None), "Code is a text, or a dictionary"),
    ],
)
def test_what_does_not_compile_is_refused_with_its_place(
    given: Any, place: tuple[str | None, int | None, int | None], message: str
) -> None:
    with pytest.raises(DynamicCodeError) as refusal:
        code_of(given)
    assert message in refusal.value.message
    assert (refusal.value.file, refusal.value.line, refusal.value.column) == place


def test_the_same_code_has_the_same_hash_however_it_is_given() -> None:
    text = saying("hello")
    assert code_of(text).hash == code_of({"main": "main", "modules": {"main": text}}).hash
    assert code_of(text).hash == code_of(Code({"main": text})).hash != code_of(text + "\n").hash
    two = {"a": "1", "main": text}
    assert Code(two).hash == Code(dict(reversed(two.items()))).hash


def test_modules_know_each_other_and_nobody_else_knows_them() -> None:
    before = set(sys.modules)
    code = Code(
        {
            "main": source("return json.dumps([RATE, times])", before="import json, rates\nfrom rates import RATE, times\n"),
            "rates": "import dataclasses, enum, main\nRATE = 7\ntimes = main.__name__\n"
            "@dataclasses.dataclass\nclass Rate:\n    cents: 'int' = 5\n",
        }
    )  # fmt: skip
    first, second = loaded(code), loaded(code)
    assert first is not second, "each loading has modules of its own"
    assert first.__module__.startswith("dynamic.")
    assert {name for name in set(sys.modules) - before if "dynamic." in name} <= {
        name for name in sys.modules if name.startswith("bindings.dynamic.")
    }
    assert "rates" not in sys.modules


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "it defines none"),
        ("from bindings import WorkflowEntrypoint", "it defines none"),
        (saying("a") + saying("b").replace("Tenant", "Other"), "it defines Other, Tenant"),
    ],
)
def test_the_main_module_has_one_workflow_class(code: str, message: str) -> None:
    with pytest.raises(DynamicCodeError, match=message):
        loaded(code)


def test_a_module_that_fails_can_be_tried_again() -> None:
    code = code_of("raise OSError('not today')")
    tried = LoadedCode(code, code.hash)
    for _ in range(2):
        with pytest.raises(OSError, match="not today"):
            tried.workflow_class()


def test_a_traceback_shows_no_lines_of_a_file_that_happens_to_have_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.py").write_text("SECRET = 1\n" * 5)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    code = code_of("raise OSError('not today')")
    with pytest.raises(OSError, match="not today") as raised:
        LoadedCode(code, code.hash).workflow_class()
    shown = "".join(traceback.format_exception(raised.value))
    assert f"dynamic.{code.hash[:16]}/main.py" in shown
    assert "SECRET" not in shown


def test_those_used_last_stay_loaded() -> None:
    codes = LoadedCodes()
    first = codes.load(code_of(saying("first")), "first")
    for number in range(MAX_LOADED - 1):
        codes.load(code_of(saying(str(number))), str(number))
        assert codes.find("first") is first
    codes.load(code_of(saying("one more")), "one more")
    assert codes.find("first") is first
    assert codes.find("0") is None
