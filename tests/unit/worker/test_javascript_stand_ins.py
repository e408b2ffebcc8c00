"""The few names of `js` and `pyodide.ffi`."""

from __future__ import annotations

import pytest

from wrangler_compat.worker.javascript import JSON, Object, console, create_proxy, to_js


def test_conversions_have_nothing_to_do() -> None:
    value = {"a": [1, None]}
    assert to_js(value, dict_converter=Object.fromEntries) is value
    assert create_proxy(len) is len


def test_object_from_entries_makes_a_dictionary() -> None:
    assert Object.fromEntries([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}


def test_json_is_written_as_javascript_writes_it_and_read_back() -> None:
    assert JSON.stringify({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert JSON.parse('{"a": [1]}') == {"a": [1]}


def test_console_prints_to_output_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    console.log("a", 1)
    console.info({"b": 2})
    console.warn("careful")
    console.error("no")
    captured = capsys.readouterr()
    assert captured.out == "a 1\n{'b': 2}\n"
    assert captured.err == "careful\nno\n"
