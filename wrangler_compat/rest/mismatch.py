"""What is wrong with a body that does not have its shape, in the words of JSON.

msgspec finds what is wrong and says it of Python's types, without the value. So its text is read for the place, and what
stands there and what is allowed there are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import inspect

from wrangler_compat.config.reading import given_text

_PROBLEM: Final = re.compile(r"(?P<text>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>\w+)|\[(?P<index>[0-9]+)\]")
_UNKNOWN_KEY: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_KEY: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)


def mismatch(problem: str, body: object, shape: Any) -> str:
    """Tell a problem that msgspec has found in a body: where, what was given, what is allowed."""
    found = _PROBLEM.fullmatch(problem)
    assert found is not None
    kind, given, at = inspect.type_info(shape), cast("Any", body), ""
    for step in _STEP.finditer(found["path"] or ""):
        kind = _inner(kind, step["key"])
        given = given[step["key"] or int(step["index"])]
        at += step[0]
    at = at.removeprefix(".")
    where = f"{at}: " if at else ""
    if unknown := _UNKNOWN_KEY.fullmatch(found["text"]):
        keys = ", ".join(field.encode_name for field in _struct(kind).fields)
        shown = f"{at}.{unknown[1]}" if at else unknown[1]
        return f"{shown}: there is no such key; expected one of: {keys}"
    if missing := _MISSING_KEY.fullmatch(found["text"]):
        return f'{where}"{missing[1]}" is missing; expected {_allowed(_inner(kind, missing[1]))}'
    return f"{where}got {_shown(given)}; expected {_allowed(kind)}"


def _inner(kind: inspect.Type, key: str | None) -> inspect.Type:
    """The type at a key of an object, or of the items of an array."""
    if key is not None:
        return next(each.type for each in _struct(kind).fields if each.encode_name == key)
    [several] = [
        each for each in _choices(kind) if isinstance(each, inspect.ListType | inspect.VarTupleType)
    ]
    return several.item_type


def _struct(kind: inspect.Type) -> inspect.StructType:
    [struct] = [each for each in _choices(kind) if isinstance(each, inspect.StructType)]
    return struct


def _choices(kind: inspect.Type) -> Sequence[inspect.Type]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _allowed(kind: inspect.Type) -> str:
    *others, last = [text for each in _choices(kind) for text in _words(each)]
    return f"{', '.join(others)} or {last}" if others else last


def _words(kind: inspect.Type) -> list[str]:
    """What a type allows, in one way or several."""
    match kind:
        case inspect.LiteralType(values=values):
            return [f'"{value}"' for value in values]
        case inspect.StrType(min_length=None, max_length=None):
            return ["a string"]
        case inspect.StrType(min_length=least, max_length=None):
            return [f"a string of {least} or more characters"]
        case inspect.StrType(min_length=None, max_length=most):
            return [f"a string of at most {most} characters"]
        case inspect.StrType(min_length=least, max_length=most):
            return [f"a string of {least} to {most} characters"]
        case inspect.IntType(ge=None):
            return ["a whole number"]
        case inspect.IntType(ge=least):
            return [f"a whole number from {least} up"]
        case inspect.BoolType():
            return ["true", "false"]
        case inspect.NoneType():
            return ["null"]
        case inspect.ListType() | inspect.VarTupleType():
            return ["an array"]
        case _:
            return ["an object"]


def _shown(given: object) -> str:
    """A value, as far as it is short."""
    if isinstance(given, dict):
        return "an object"
    return "an array" if isinstance(given, list) else given_text(given)
