"""The emulator's own settings: tables below `[tool.workflow-emulator]` in a project's `pyproject.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from wrangler_compat.config.document import read_document
from wrangler_compat.config.reading import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from wrangler_compat.config.document import KeyPath

TABLES: Final = ("env", "webhooks")
"""The tables that there are."""


class ToolTable(NamedTuple):
    """A table: who reads it and remembers its mistakes, where it stands, what it has."""

    reader: Reader
    at: KeyPath
    entries: dict[str, object]


def read_tool_table(root: Path, name: str, *, entries: str) -> ToolTable | None:
    """Find `[tool.workflow-emulator.<name>]`, empty if it is missing; None where there is no `pyproject.toml`.

    `entries` says in words what the table's keys are.

    Raises:
        ConfigError: the file cannot be read or parsed.
    """
    path = root / "pyproject.toml"
    if not path.is_file():
        return None
    reader = Reader(read_document(path))
    own = ("tool", "workflow-emulator")
    at = (*own, name)
    table = cast("object", reader.document.data)
    for key in at:
        if not isinstance(table, dict):
            break
        if key == name:
            reader.refuse_unknown(cast("dict[str, object]", table), TABLES, own)
        table = cast("dict[str, object]", table).get(key, {})
    if not isinstance(table, dict):
        reader.report(at, f"expected a table of {entries}.")
        table = {}
    return ToolTable(reader, at, cast("dict[str, object]", table))
