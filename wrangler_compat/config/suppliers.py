"""Where a project gets its stand-ins for bindings that are not emulated: a table of its `pyproject.toml`.

[tool.workflow-emulator.env]
CACHE = "tests.stand_ins:make_cache"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from wrangler_compat.config.document import read_document
from wrangler_compat.config.reading import Reader, given_text

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "tool.workflow-emulator.env"

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def read_suppliers(root: Path) -> dict[str, str]:
    """Map the names of bindings to `module:factory`.

    Raises:
        ConfigError: the table is not of that form.
    """
    path = root / "pyproject.toml"
    if not path.is_file():
        return {}
    reader = Reader(read_document(path))
    table = cast("object", reader.document.data)
    keys = tuple(TABLE.split("."))
    for key in keys:
        table = cast("dict[str, object]", table).get(key, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        reader.report(keys, "expected a table of binding names.")
        table = {}
    suppliers: dict[str, str] = {}
    for name, factory in cast("dict[str, object]", table).items():
        if isinstance(factory, str) and _FACTORY.fullmatch(factory):
            suppliers[name] = factory
        else:
            reader.report((*keys, name), f'got {given_text(factory)}; expected "module:factory".')
    reader.finish()
    return suppliers
