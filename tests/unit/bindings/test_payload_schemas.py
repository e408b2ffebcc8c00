"""What is stored of a payload that a schema has checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from bindings import schemas
from emulator.errors import TypeValidationError


@dataclass
class Line:
    """A part of an order."""

    sku: str
    count: int = 1


@dataclass
class Order:
    """A dataclass inside a dataclass."""

    lines: list[Line]
    note: str = "none"
    tags: list[str] = field(default_factory=lambda: ["new"])


class Model(BaseModel):
    """The same with pydantic."""

    sku: str
    count: int = 1


@pytest.mark.parametrize(
    ("schema", "payload", "stored"),
    [
        (
            Order,
            {"lines": [{"sku": "mug"}]},
            {"lines": [{"sku": "mug", "count": 1}], "note": "none", "tags": ["new"]},
        ),
        (
            Order,
            Order([Line("mug", 2)], tags=[]),
            {"lines": [{"sku": "mug", "count": 2}], "note": "none", "tags": []},
        ),
        (Model, {"sku": "mug"}, {"sku": "mug", "count": 1}),
        (dict, {"a": [b"x"]}, {"a": [b"x"]}),
    ],
)
def test_defaults_are_stored_so_that_a_later_default_changes_nothing(
    schema: Any, payload: Any, stored: Any
) -> None:
    assert schemas.checked(schema, payload) == stored


@pytest.mark.parametrize(
    ("schema", "payload", "place"),
    [(Order, {"lines": [{"sku": 1}]}, "$.lines[0].sku"), (Model, {}, "sku")],
)
def test_a_payload_that_does_not_match_is_refused_with_the_path(
    schema: Any, payload: Any, place: str
) -> None:
    with pytest.raises(TypeValidationError, match="did not match the defined schema") as refusal:
        schemas.checked(schema, payload)
    assert place in str(refusal.value)
