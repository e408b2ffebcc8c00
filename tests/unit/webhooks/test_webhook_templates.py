"""Texts with fields of a body in them, and paths into a body."""

from __future__ import annotations

import pytest

from emulator.errors import ConfigError, InvalidInput
from wrangler_compat.webhooks.template import parse_path, parse_template, value_at

BODY = {"data": {"order_id": "o-7", "count": 3, "items": [{"sku": "a"}, {"sku": "b"}]}, "0": "zero"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant", "constant"),
        ("order-{data.order_id}", "order-o-7"),
        ("{data.order_id}", "o-7"),
        ("{data.order_id}{data.count}-{0}", "o-73-zero"),
        ("{data.items.1.sku}", "b"),
    ],
)
def test_fields_are_put_in(text: str, expected: str) -> None:
    assert parse_template(text).fill(BODY) == expected


@pytest.mark.parametrize(("text", "constant"), [("a", True), ("{a}", False), ("a{b.c}", False)])
def test_a_template_without_fields_is_constant(text: str, constant: bool) -> None:
    assert parse_template(text).is_constant is constant


@pytest.mark.parametrize(
    "path", ["date", "data.id", "data.order_id.x", "data.items.2", "data.items.-1", "data.items.x"]
)
def test_a_missing_field_is_named(path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_template(f"a-{{{path}}}").fill(BODY)
    assert caught.value.message == f'The body has no field "{path}".'


@pytest.mark.parametrize("body", [None, 5, "data", []])
def test_a_body_that_is_no_object_has_no_fields(body: object) -> None:
    with pytest.raises(InvalidInput, match="no field"):
        value_at(body, ("data",))


@pytest.mark.parametrize("value", [None, True, 1.5, {}, [1], ""])
def test_only_texts_and_whole_numbers_can_be_put_in(value: object) -> None:
    with pytest.raises(InvalidInput, match=r'The field "id" of the body is .*; expected a text'):
        parse_template("{id}").fill({"id": value})


def test_any_value_can_be_what_a_path_leads_to() -> None:
    assert value_at(BODY, parse_path("data.items.0")) == {"sku": "a"}
    assert value_at({"a": None}, ("a",)) is None
    assert value_at(BODY, ()) is BODY


@pytest.mark.parametrize(
    "text", ["{", "}", "a{b", "a}b", "{}", "{a.}", "{.a}", "{a b}", "{{a}}", "{a..b}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        parse_template(text)


@pytest.mark.parametrize("text", ["", ".", "a.", "a b", "{a}"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"keys with dots between"):
        parse_path(text)
