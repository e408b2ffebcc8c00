"""The table that supplies bindings which are not emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ConfigError
from wrangler_compat.config.suppliers import read_suppliers


@pytest.mark.parametrize("text", [None, "", "[tool.other]\nx = 1\n", "[tool.workflow-emulator]\n"])
def test_without_the_table_there_are_no_suppliers(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert read_suppliers(tmp_path) == {}


def test_the_table_maps_bindings_to_factories(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.workflow-emulator.env]\nCACHE = "a.b:make"\nDB = "c:D.make"\n'
    )
    assert read_suppliers(tmp_path) == {"CACHE": "a.b:make", "DB": "c:D.make"}


def test_what_is_no_factory_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[project]\nname = "x"\n\n[tool.workflow-emulator.env]\nA = "a.b"\nB = 5\nC = "c:make"\n'
    )
    with pytest.raises(ConfigError) as caught:
        read_suppliers(tmp_path)
    assert caught.value.message.splitlines() == [
        f'{path}:5: tool.workflow-emulator.env.A: got "a.b"; expected "module:factory".',
        f'{path}:6: tool.workflow-emulator.env.B: got 5; expected "module:factory".',
    ]


def test_something_else_than_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.workflow-emulator]\nenv = "a:b"\n')
    with pytest.raises(
        ConfigError, match=r"pyproject\.toml:2: tool\.workflow-emulator\.env: expected a table"
    ):
        read_suppliers(tmp_path)
