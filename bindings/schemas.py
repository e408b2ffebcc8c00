"""Schemas of payloads: a dataclass, a pydantic model, or any type that msgspec can check.

A payload is checked before it is stored, and what is stored is what the check has made of it. Whoever takes it gets an
object of the class again.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, is_dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, cast

import msgspec

from emulator.errors import InvalidHook, TypeValidationError

_REFUSED = "Hook payload did not match the defined schema: "


def name_of(schema: Any) -> str | None:
    """How a schema is stored with a hook: "module:class".

    Raises:
        InvalidHook: it is no class.
    """
    if schema is None:
        return None
    if not isinstance(schema, type):
        raise InvalidHook(
            f"A schema is a class, such as a dataclass or a pydantic model, not {schema!r}."
        )
    return f"{schema.__module__}:{schema.__qualname__}"


def find(name: str) -> Any:
    """The schema of this name; None if this process has no such class. Nothing is imported: a tenant may have named it."""
    module, _, path = name.partition(":")
    try:
        found = attrgetter(path)(sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def checked(schema: Any, payload: object) -> object:
    """Check a payload, and give what is to be stored: plain values, with defaults and conversions of the schema's.

    Raises:
        TypeValidationError: it does not match; the message has the paths to what is wrong.
    """
    made = _instance(schema, payload)
    if hasattr(made, "model_dump"):
        return cast("Any", made).model_dump()
    if is_dataclass(made):
        made = asdict(cast("Any", made))  # msgspec leaves out what a default of the class supplies
    return msgspec.to_builtins(made, builtin_types=(bytes, datetime))


def revived(schema: Any, stored: object) -> Any:
    """The object that a stored payload stands for."""
    return stored if schema is None else _instance(schema, stored)


def _instance(schema: Any, payload: object) -> object:
    if isinstance(payload, schema):
        return payload
    if hasattr(schema, "model_validate"):
        try:
            return schema.model_validate(payload)
        except ValueError as error:  # pydantic's ValidationError is one
            raise TypeValidationError(_REFUSED + _pydantic(error)) from error
    try:
        return msgspec.convert(payload, schema)
    except msgspec.ValidationError as error:
        raise TypeValidationError(_REFUSED + str(error)) from error


def _pydantic(error: ValueError) -> str:
    found: list[Any] = getattr(error, "errors", list)()
    parts = [f"{'.'.join(map(str, each['loc'])) or 'payload'}: {each['msg']}" for each in found]
    return "; ".join(parts) or str(error)
