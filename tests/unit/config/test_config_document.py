"""Reading a wrangler file with the positions of its keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import ConfigError
from wrangler_compat.config.document import Document, Place, read_document

JSONC = r"""// a Worker
{
  "name": "a//b /* no comment */ ,]", /* one
  of two lines */ "main": "x\"y",
  "workflows": [
    { "name": "first" },
    // { "name": "commented" },
    { "name": "second", },
  ],
  "vars": { "A,}": 1 },
}
"""

TOML = """
name = "w"
vars.PORT = 1  # dotted

[[workflows]]
name = "first"

[[workflows]]
name = "second"
limits.steps = 5

[workflows.concurrency]
limit = 3

[env."sta.ging".vars]
"a key" = "x"
lines = \"\"\"
name = "not a key"
\"\"\"

[[env.live.workflows]]
name = "third"
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


def read(folder: Path, name: str, text: str) -> Document:
    (folder / name).write_text(text)
    return read_document(folder / name)


def test_jsonc_is_read_with_comments_and_trailing_commas_and_strings_that_look_like_them(
    folder: Path,
) -> None:
    document = read(folder, "wrangler.jsonc", JSONC)
    assert document.data == {
        "name": "a//b /* no comment */ ,]",
        "main": 'x"y',
        "workflows": [{"name": "first"}, {"name": "second"}],
        "vars": {"A,}": 1},
    }


def test_every_value_of_jsonc_has_its_line_and_column(folder: Path) -> None:
    places = read(folder, "wrangler.jsonc", JSONC).places
    assert places[()] == Place(2, 1)
    assert places["main",] == Place(4, 27)
    assert places["workflows", 0, "name"] == Place(6, 15)
    assert places["workflows", 1] == Place(8, 5)
    assert places["workflows", 1, "name"] == Place(8, 15)
    assert places["vars", "A,}"] == Place(10, 20)


@given(
    data=st.dictionaries(st.text(), json_values, max_size=4), indent=st.sampled_from([None, 0, 2])
)
def test_any_json_is_read_as_json_reads_it_and_each_place_is_where_its_value_begins(
    folder: Path, data: dict[str, object], indent: int | None
) -> None:
    text = json.dumps(data, indent=indent)
    document = read(folder, "any.json", text)
    assert document.data == data
    lines = text.split("\n")
    for at, (line, column) in document.places.items():
        value: object = data
        for part in at:
            value = value[part]  # type: ignore[index]
        assert column is not None
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


def test_toml_has_the_lines_of_headers_keys_and_list_items(folder: Path) -> None:
    places = read(folder, "wrangler.toml", TOML).places
    assert places["name",] == Place(2)
    assert places["vars", "PORT"] == Place(3)
    assert places["workflows", 0, "name"] == Place(6)
    assert places["workflows", 1] == Place(8)
    assert places["workflows", 1, "name"] == Place(9)
    assert places["workflows", 1, "limits", "steps"] == Place(10)
    assert places["workflows", 1, "concurrency", "limit"] == Place(13)
    assert places["env", "sta.ging", "vars", "a key"] == Place(16)
    assert places["env", "live", "workflows", 0, "name"] == Place(22)


def test_what_has_no_place_of_its_own_is_placed_by_what_encloses_it(folder: Path) -> None:
    document = read(folder, "wrangler.toml", 'workflows = [{ name = "x" }]\n')
    assert document.where(("workflows", 0, "name")) == f"{document.path}:1"
    assert document.where(("absent",)) == f"{document.path}:1"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("wrangler.jsonc", '{\n  // note\n  "a": ,\n}', ":3:8: Expecting value."),
        ("wrangler.jsonc", '{\n  /* two\n lines */ "a" 1\n}', ":3:15: Expecting ':' delimiter."),
        ("wrangler.toml", "a = 1\nb = [1 2]", ":2:8: Unclosed array."),
        ("wrangler.json", "[,]", ":1:2: Expecting value."),
        ("wrangler.json", "[1]", ":1:1: expected an object"),
        ("wrangler.json", "", ":1:1: Expecting value."),
    ],
)
def test_a_syntax_error_has_its_line_and_column(
    folder: Path, name: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(folder, name, text)
    assert caught.value.message.startswith(f"{folder / name}{problem}")


def test_a_file_that_is_not_utf_8_is_refused_by_name(folder: Path) -> None:
    path = folder / "wrangler.json"
    path.write_bytes(b'{"name": "\xff"}')
    with pytest.raises(ConfigError, match=r"wrangler\.json:1: the byte 0xff is not UTF-8"):
        read_document(path)


def test_a_byte_order_mark_is_no_mistake(folder: Path) -> None:
    path = folder / "wrangler.json"
    path.write_bytes(b'\xef\xbb\xbf{"name": "w"}')
    assert read_document(path).data == {"name": "w"}
