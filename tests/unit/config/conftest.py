"""Small projects on disk, for the tests of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WriteProject = Callable[[str], Path]


@pytest.fixture
def write_project(tmp_path: Path) -> WriteProject:
    """Write a `wrangler.jsonc` of the given text beside an empty `src/entry.py`, and give its path."""

    def write(text: str) -> Path:
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "entry.py").touch()
        path = tmp_path / "wrangler.jsonc"
        path.write_text(text)
        return path

    return write
