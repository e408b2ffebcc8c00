"""A project with a `pyproject.toml`, from which webhooks are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wrangler_compat.config import WorkerConfig, load_config

WRANGLER = """{
  "main": "src/entry.py",
  "workflows": [
    { "name": "orders", "binding": "ORDERS", "class_name": "Orders" },
    { "name": "mail", "binding": "MAIL", "class_name": "Mail", "script_name": "post" },
  ],
}"""

Project = Callable[[str], WorkerConfig]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Write a project with the given `pyproject.toml`, and load its configuration."""

    def write(toml: str) -> WorkerConfig:
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "entry.py").touch()
        (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
        (tmp_path / "pyproject.toml").write_text(toml)
        return load_config(tmp_path)

    return write
