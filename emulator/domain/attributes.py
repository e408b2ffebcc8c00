"""Attributes: small texts by which people find a run (Workflow SDK: attributes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from emulator.domain.limits import (
    MAX_ATTRIBUTE_BYTES,
    MAX_ATTRIBUTE_NAME_CHARS,
    MAX_ATTRIBUTES,
)
from emulator.domain.names import is_unicode, plain_text
from emulator.errors import InvalidAttributes


def check_attributes(given: object) -> dict[str, str | None]:
    """Accept attributes to set, or to remove (None).

    Raises:
        InvalidAttributes: it is no dictionary of texts, a name is reserved, or something is too long or too many.
    """
    if not isinstance(given, Mapping):
        raise InvalidAttributes(f"Attributes are a dictionary of texts, not {given!r}.")
    checked: dict[str, str | None] = {}
    for name, value in cast("Mapping[Any, Any]", given).items():
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_ATTRIBUTE_NAME_CHARS:
            raise InvalidAttributes(
                f"The name of an attribute has 1 to {MAX_ATTRIBUTE_NAME_CHARS} characters, not {name!r}."
            )
        if name.startswith("$"):
            raise InvalidAttributes(f"The attribute {name!r} is reserved: it begins with $.")
        if value is not None and not isinstance(value, str):
            raise InvalidAttributes(f"The attribute {name!r} is a text, not {value!r}.")
        if not is_unicode(name) or (value is not None and not is_unicode(value)):
            raise InvalidAttributes(f"The attribute {name!r} must be valid Unicode.")
        if value is not None and len(value.encode()) > MAX_ATTRIBUTE_BYTES:
            raise InvalidAttributes(f"The attribute {name!r} has over {MAX_ATTRIBUTE_BYTES} bytes.")
        checked[plain_text(name)] = None if value is None else plain_text(value)
    if sum(value is not None for value in checked.values()) > MAX_ATTRIBUTES:
        raise InvalidAttributes(f"An instance has at most {MAX_ATTRIBUTES} attributes.")
    return checked
