"""Local variables and secrets: `.dev.vars`, or else `.env`, beside the configuration (Cloudflare: Environment variables and secrets).

The files' grammar is python-dotenv's, which is imported only where there is such a file.
"""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from emulator.errors import ConfigError
from wrangler_compat.config.document import read_text

if TYPE_CHECKING:
    from pathlib import Path


def local_variables(root: Path, environment: str | None) -> dict[str, str]:
    """Read the variables of one environment.

    `.dev.vars.<environment>` replaces `.dev.vars`. Where neither exists, the files `.env`,
    `.env.<environment>`, `.env.local` and `.env.<environment>.local` are merged, later ones first in rank.

    Raises:
        ConfigError: a line is not `NAME=value`, or a file cannot be read.
    """
    own = [f".dev.vars.{environment}"] if environment else []
    for name in (*own, ".dev.vars"):
        if (root / name).is_file():
            return _read(root / name)
    variables: dict[str, str] = {}
    suffixes = (
        ["", f".{environment}", ".local", f".{environment}.local"]
        if environment
        else ["", ".local"]
    )
    for suffix in suffixes:
        if (root / f".env{suffix}").is_file():
            variables |= _read(root / f".env{suffix}")
    return variables


def _read(path: Path) -> dict[str, str]:
    from dotenv.parser import parse_stream

    variables: dict[str, str] = {}
    mistakes: list[str] = []
    for statement in parse_stream(StringIO(read_text(path))):
        text = statement.original.string
        if statement.error or (statement.key and statement.value is None):
            line = statement.original.line + text[: len(text) - len(text.lstrip())].count("\n")
            mistakes.append(f"{path}:{line}: got {text.strip()!r}; expected NAME=value.")
        elif statement.key and statement.value is not None:
            variables[statement.key] = statement.value
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return variables
