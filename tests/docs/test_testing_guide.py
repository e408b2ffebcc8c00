"""The code of docs/testing.md is a project whose tests pass.

A block of Python begins with the name of its file; the one block of JSONC is the wrangler file.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n# (?P<file>\S+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
WRANGLER = re.compile(r"^```jsonc\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_guide_runs(pytester: pytest.Pytester) -> None:
    text = GUIDE.read_text("utf-8")
    files = {match["file"]: match["code"] for match in BLOCK.finditer(text)}
    [wrangler] = WRANGLER.findall(text)
    for name, code in {"wrangler.jsonc": wrangler, **files}.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, "utf-8")
    pytester.makeini(INI)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    tests = sum(code.count("def test_") for code in files.values())
    assert tests > 8
    result.assert_outcomes(passed=tests)
