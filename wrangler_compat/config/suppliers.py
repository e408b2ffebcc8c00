"""Where a project gets its stand-ins for bindings that are not emulated: a table of its `pyproject.toml`.

[tool.workflow-emulator.env]
CACHE = "tests.stand_ins:make_cache"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wrangler_compat.config.reading import given_text
from wrangler_compat.config.tool_table import read_tool_table

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "tool.workflow-emulator.env"

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def place_of_supplier(root: Path, name: str) -> str:
    """Where a binding is given its supplier: the file, the line, the table."""
    table = read_tool_table(root, "env", entries="binding names")
    file = "" if table is None else f"{table.reader.document.where((*table.at, name))}: "
    return f"{file}[{TABLE}] {name}"


def read_suppliers(root: Path) -> dict[str, str]:
    """Map the names of bindings to `module:factory`.

    Raises:
        ConfigError: the table is not of that form.
    """
    table = read_tool_table(root, "env", entries="binding names")
    if table is None:
        return {}
    suppliers: dict[str, str] = {}
    for name, factory in table.entries.items():
        if isinstance(factory, str) and _FACTORY.fullmatch(factory):
            suppliers[name] = factory
        else:
            problem = f'got {given_text(factory)}; expected "module:factory".'
            table.reader.report((*table.at, name), problem)
    table.reader.finish()
    return suppliers
