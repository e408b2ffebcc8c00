"""The code of docs/testing.md is a project whose tests pass, and so are those of docs/hooks.md, steps.md and unittest.md.

A block of Python begins with the name of its file; the one block of JSONC is the wrangler file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from wrangler_compat.check import check_folder
from wrangler_compat.testing import introspection

pytest_plugins = ["pytester"]

LOADED = introspection
"""With all that it imports: pytester forgets what its runs load."""

INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n# (?P<file>\S+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
WRANGLER = re.compile(r"^```jsonc\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

TOML = re.compile(r"^```toml\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def write_project(guide: str, folder: Path) -> dict[str, str]:
    """Write the files that a guide has; their texts by name."""
    text = (DOCS / guide).read_text("utf-8")
    [wrangler] = WRANGLER.findall(text)
    files = {match["file"]: match["code"] for match in BLOCK.finditer(text)}
    files["wrangler.jsonc"] = wrangler
    for name, code in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, "utf-8")
    return files


def settings_of(guide: str) -> str:
    """The settings of pytest that a guide has, as they stand in an ini file."""
    [text] = TOML.findall((DOCS / guide).read_text("utf-8")) or [""]
    settings = tomllib.loads(text).get("tool", {}).get("pytest", {}).get("ini_options", {})
    return "".join(f"{name} = {' '.join(value)}\n" for name, value in settings.items())


@pytest.mark.parametrize(
    "guide", ["testing.md", "hooks.md", "steps.md", "streams.md", "unittest.md"]
)
def test_the_check_finds_nothing_in_a_guide(guide: str, tmp_path: Path) -> None:
    write_project(guide, tmp_path)
    assert check_folder(tmp_path) == []


@pytest.mark.parametrize(
    ("guide", "least"), [("testing.md", 9), ("hooks.md", 5), ("steps.md", 6), ("unittest.md", 1)]
)
def test_the_code_of_the_guide_runs(pytester: pytest.Pytester, guide: str, least: int) -> None:
    files = write_project(guide, pytester.path)
    pytester.makeini(INI + settings_of(guide))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    tests = sum(code.count("def test_") for code in files.values())
    assert tests >= least
    result.assert_outcomes(passed=tests)
