"""Whatever can be stored comes back equal, and of the same types."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from itertools import chain
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from emulator.domain.limits import MAX_VALUE_BYTES
from emulator.domain.values import JsDict, decode, encode, plain, size_bytes

offsets = st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
texts = st.text(st.characters(codec=None))
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | texts
    | st.binary()
    | st.datetimes(timezones=offsets).map(lambda instant: instant.replace(fold=0))
)
values = st.recursive(
    leaves | st.sets(leaves),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["a", "$", "value"]) | texts, inner)
        | st.dictionaries(leaves, inner)
    ),
    max_leaves=20,
)


def shape(value: object) -> object:
    """A value with its types spelled out, so that 1, True and 1.0 differ, and 0.0 and -0.0."""
    if isinstance(value, list):
        return ["list", *map(shape, cast("list[object]", value))]
    if isinstance(value, dict):
        return ["dict", *map(shape, chain(*cast("dict[object, object]", value).items()))]
    if isinstance(value, set):
        return ["set", *sorted(repr(shape(item)) for item in cast("set[object]", value))]
    return [type(value).__name__, repr(value)]


@given(values)
def test_a_stored_value_comes_back_equal_and_of_the_same_types(value: object) -> None:
    back = decode(encode(value, "it"))
    assert back == value
    assert shape(back) == shape(value)


@given(values)
def test_storing_what_came_back_stores_an_equal_value(value: object) -> None:
    once = decode(encode(value, "it"))
    assert shape(decode(encode(once, "it"))) == shape(once)


@given(st.dictionaries(texts, leaves))
def test_every_dictionary_comes_back_with_attributes(value: dict[str, object]) -> None:
    back = decode(encode(value, "it"))
    assert type(back) is JsDict
    for key in back:
        if not hasattr(dict, key) and not key.startswith("__"):
            assert getattr(back, key) is back[key]


@given(values)
def test_the_logged_form_of_any_value_is_strict_json_in_utf_8(value: object) -> None:
    shown = plain(encode(value, "it"))
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text) == shown


@given(values)
def test_the_size_of_a_value_never_exceeds_its_stored_text(value: object) -> None:
    payload = encode(value, "it")
    assert 0 <= size_bytes(payload) <= len(bytes(payload)) <= MAX_VALUE_BYTES
