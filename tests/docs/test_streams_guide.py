"""The code of docs/streams.md is a project whose tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_testing_guide import BLOCK, INI, LOADED, WRANGLER

pytest_plugins = ["pytester"]

GUIDE = Path(__file__).parents[2] / "docs" / "streams.md"


def test_the_code_of_the_guide_runs(pytester: pytest.Pytester) -> None:
    assert LOADED
    text = GUIDE.read_text("utf-8")
    files = {match["file"]: match["code"] for match in BLOCK.finditer(text)}
    [wrangler] = WRANGLER.findall(text)
    for name, code in {"wrangler.jsonc": wrangler, **files}.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, "utf-8")
    pytester.makeini(INI + "pythonpath = src\n")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
