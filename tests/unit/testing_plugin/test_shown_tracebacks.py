"""What pytest shows of an exception in a test of workflows: the user's lines, and none of what lies between them."""

from __future__ import annotations

import re

import pytest

from wrangler_compat.testing import introspection

pytest_plugins = ["pytester"]

LOADED = introspection
"""See `test_plugin_in_pytest`."""

WRANGLER = """
{
  "name": "shop",
  "main": "src/entry.py",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }]
}
"""

ENTRY = """
from workers import WorkflowEntrypoint
class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("nap", "1 day")
"""

TEST = """
async def test_it(workflows):
    order = await workflows.env.ORDERS.create()
    await order.restart({"from": {"name": "nope"}})
"""

ADVICE = "Give the classes to test instead"


def failure(pytester: pytest.Pytester, files: dict[str, str], *options: str) -> list[str]:
    """The lines that pytest shows of the one failing test."""
    (pytester.path / "src").mkdir()
    for name, text in ({"test_it.py": TEST} | files).items():
        (pytester.path / name).write_text(text)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    begin = re.search("^_+ (ERROR at |test_)", text, re.MULTILINE)
    assert begin is not None
    return text[begin.start() : text.index("\n==", begin.start())].splitlines()


MISTAKES = {
    "a broken file": (
        {"wrangler.jsonc": "{ oops"},
        "wrangler.jsonc:1:3: Expecting property name enclosed in double quotes.",
    ),
    "no class": (
        {"wrangler.jsonc": WRANGLER, "src/entry.py": ""},
        "names the workflow class Orders, which does not exist",
    ),
    "wrong syntax": (
        {"wrangler.jsonc": WRANGLER, "src/entry.py": "class Orders"},
        "SyntaxError: expected ':'",
    ),
    "a missing module": (
        {"wrangler.jsonc": WRANGLER, "src/entry.py": "import no_such_module"},
        "No module named 'no_such_module'",
    ),
    "a refusal": (
        {"wrangler.jsonc": WRANGLER, "src/entry.py": ENTRY},
        'Step "nope" not found in execution history',
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_traceback_has_the_lines_of_the_user(pytester: pytest.Pytester, mistake: str) -> None:
    files, message = MISTAKES[mistake]
    shown = failure(pytester, files)
    text = "\n".join(shown)
    assert message in text
    assert "> " in text
    assert "test_it.py:" in text
    assert not re.search(r"(wrangler_compat|bindings|emulator|asyncio|importlib)/", text)
    assert ADVICE not in text
    assert len(shown) < 25


def test_the_line_of_the_project_that_failed_is_shown(pytester: pytest.Pytester) -> None:
    text = "\n".join(failure(pytester, MISTAKES["a missing module"][0]))
    assert re.search(r">   import no_such_module\nE   ModuleNotFoundError", text)
    assert "src/entry.py:1: ModuleNotFoundError" in text


def test_what_an_exception_of_the_user_came_from_is_kept(pytester: pytest.Pytester) -> None:
    test = """
async def test_it(workflows):
    try:
        {}["sku"]
    except KeyError as error:
        raise ValueError("no sku") from error
"""
    text = "\n".join(failure(pytester, {"test_it.py": test}))
    assert "KeyError: 'sku'" in text
    assert "The above exception was the direct cause" in text


def test_without_a_line_of_the_user_there_is_the_message(pytester: pytest.Pytester) -> None:
    test = """
import pytest
@pytest.mark.workflows(classes=[str])
def test_it(workflows): ...
"""
    shown = failure(pytester, {"test_it.py": test})
    assert "cannot be tested: what is given are classes" in shown[1]
    assert len(shown) == 2


@pytest.mark.parametrize("option", ["--full-trace", "--tb=native"])
def test_all_lines_are_shown_to_those_who_ask(pytester: pytest.Pytester, option: str) -> None:
    text = "\n".join(failure(pytester, MISTAKES["a broken file"][0], option))
    assert "wrangler_compat/config/document.py" in text


def test_where_there_is_no_project_classes_are_advised(pytester: pytest.Pytester) -> None:
    shown = failure(pytester, {})
    assert any(ADVICE in line for line in shown)
    assert len(shown) < 15
