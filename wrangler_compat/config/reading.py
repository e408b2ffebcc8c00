"""Checks data against the schema's types, and collects every mistake with its place.

msgspec's `convert` does the checking, but stops at the first mistake. So objects are walked here, and
`convert` gets one field at a time. What is allowed stands in the type, as the `description` of
its `Meta`. Keys that the type does not have are left alone, unless it forbids them: then nobody else reads that object, and a
key that is not known is a typing mistake.
"""

from __future__ import annotations

import json
import re
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from emulator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrangler_compat.config.document import Document, KeyPath, Place

S = TypeVar("S", bound=msgspec.Struct)

_BARE_KEY = re.compile(r"[\w-]+")

_KINDS = {
    str: "a string",
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}


class Reader:
    """Reads one document, and remembers its mistakes.

    A key that is not known is a mistake, or with `is_lenient` a warning: a file that others read too may say more.
    """

    def __init__(self, document: Document, *, is_lenient: bool = False) -> None:
        self.document = document
        self.warnings: list[str] = []
        self._is_lenient = is_lenient
        self._mistakes: list[tuple[Place, str]] = []

    def report(self, at: KeyPath, problem: str) -> None:
        """Remember a mistake. `problem` ends with a full stop and says what is allowed."""
        shown = f"{key_text(at)}: " if at else ""
        self._mistakes.append(
            (self.document.place(at), f"{self.document.where(at)}: {shown}{problem}")
        )

    def warn(self, at: KeyPath, text: str) -> None:
        """Remember what is no mistake, but worth a look."""
        self.warnings.append(f"{self.document.where(at)}: {text}")

    def refuse_unknown(self, given: Iterable[str], known: Iterable[str], at: KeyPath) -> None:
        """Remember the keys of an object that are not known."""
        names = list(known)
        for key in given:
            if key not in names:
                problem = f"there is no such setting; expected one of: {', '.join(names)}."
                if self._is_lenient:
                    self.warn((*at, key), f"{key_text((*at, key))}: {problem}")
                else:
                    self.report((*at, key), problem)

    def finish(self) -> None:
        """Raise what was reported.

        Raises:
            ConfigError: one line for each mistake, in the order of the file.
        """
        if self._mistakes:
            ordered = sorted(
                self._mistakes, key=lambda mistake: (mistake[0].line, mistake[0].column or 0)
            )
            raise ConfigError("\n".join(text for _, text in ordered))

    def read(self, kind: type[S], value: object, at: KeyPath) -> S | None:
        """Read an object as `kind`, without its optional fields that have mistakes; None without a required one."""
        if not isinstance(value, dict):
            self._refuse(value, kind, at)
            return None
        given = cast("dict[str, object]", value)
        if kind.__struct_config__.forbid_unknown_fields:
            self.refuse_unknown(given, kind.__struct_fields__, at)
        hints = get_type_hints(kind, include_extras=True)
        fields: dict[str, object] = {}
        complete = True
        for field in msgspec.structs.fields(kind):
            if field.name in given:
                fields[field.name] = self._value(
                    hints[field.name], given[field.name], (*at, field.name)
                )
            elif field.required:
                self.report(
                    at, f'"{field.name}" is missing: expected {allowed(hints[field.name])}.'
                )
            if field.required and fields.get(field.name) is None:
                complete = False
        return kind(**fields) if complete else None

    def _value(self, kind: Any, value: object, at: KeyPath) -> object:
        """Check one value; None, which stands for an absent key, when a mistake was reported."""
        for choice in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
            if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
                return self.read(choice, value, at)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            self._refuse(value, kind, at)
            return None

    def _refuse(self, value: object, kind: Any, at: KeyPath) -> None:
        self.report(at, f"got {given_text(value)}; expected {allowed(kind)}.")


def key_text(at: KeyPath) -> str:
    """Show a path as one would write it, such as `workflows[0].name`."""
    shown = ""
    for part in at:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else given_text(part)
            shown += f".{key}" if shown else key
    return shown


def given_text(value: object) -> str:
    """Show a value of the file, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"


def allowed(kind: Any) -> str:
    """Say in words what a type allows."""
    origin = get_origin(kind)
    if origin is Annotated:
        described = [meta.description for meta in get_args(kind)[1:] if meta.description]
        return described[0] if described else allowed(get_args(kind)[0])
    if origin is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    if origin in (Union, UnionType):
        return " or ".join(allowed(choice) for choice in get_args(kind) if choice is not NoneType)
    if origin is list:
        return f"a list, each item {allowed(get_args(kind)[0])}"
    return _KINDS.get(origin or kind, "an object")
