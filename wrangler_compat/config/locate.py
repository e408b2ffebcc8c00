"""Which configuration file applies: the nearest one, in the given folder or above it, as wrangler searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAMES = ("wrangler.json", "wrangler.jsonc", "wrangler.toml")


def find_config(start: Path) -> Path:
    """Find the configuration of `start`, a project's folder (or one inside it) or the file itself.

    Raises:
        ConfigError: there is none, or the file is none; the message names the files looked for.
    """
    start = start.resolve()
    if start.is_file():
        if start.suffix not in (".json", ".jsonc", ".toml"):
            raise ConfigError(
                f"{start} is no wrangler file: give that ({', '.join(FILE_NAMES)}) or the folder of the project."
            )
        return start
    for folder in (start, *start.parents):
        for name in FILE_NAMES:
            if (folder / name).is_file():
                return folder / name
    missing = "" if start.is_dir() else ", which does not exist"
    raise ConfigError(
        f"There is no Worker in {start}{missing}. Looked there and in the folders above it for "
        f"{', '.join(FILE_NAMES[:-1])} and {FILE_NAMES[-1]}."
    )
