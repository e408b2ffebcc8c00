"""The code of docs/streams.md is a project whose tests pass."""

from __future__ import annotations

import pytest

from tests.docs.test_testing_guide import INI, LOADED, settings_of, write_project

pytest_plugins = ["pytester"]


def test_the_code_of_the_guide_runs(pytester: pytest.Pytester) -> None:
    assert LOADED
    write_project("streams.md", pytester.path)
    pytester.makeini(INI + settings_of("streams.md"))
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
