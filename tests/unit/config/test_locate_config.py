"""Which wrangler file applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ConfigError
from wrangler_compat.config import find_config


@pytest.mark.parametrize("name", ["wrangler.json", "wrangler.jsonc", "wrangler.toml"])
def test_each_format_is_found_from_the_project_and_from_a_folder_inside(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    inside = tmp_path / "src" / "deep"
    inside.mkdir(parents=True)
    assert find_config(tmp_path) == tmp_path / name
    assert find_config(inside) == tmp_path / name


def test_a_file_is_its_own_answer(tmp_path: Path) -> None:
    custom = tmp_path / "other.jsonc"
    custom.touch()
    (tmp_path / "wrangler.json").touch()
    assert find_config(custom) == custom


def test_a_file_of_another_kind_is_none(tmp_path: Path) -> None:
    (tmp_path / "wrangler.json").touch()
    (tmp_path / "entry.py").touch()
    with pytest.raises(ConfigError, match=r"entry\.py is no wrangler file: give that \(wrangler\."):
        find_config(tmp_path / "entry.py")


def test_json_goes_before_jsonc_before_toml_as_in_wrangler(tmp_path: Path) -> None:
    for name in ("wrangler.toml", "wrangler.jsonc", "wrangler.json"):
        (tmp_path / name).touch()
        assert find_config(tmp_path) == tmp_path / name


def test_without_a_file_the_error_names_the_folder_and_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find_config(tmp_path)
    assert str(tmp_path) in caught.value.message
    for name in ("wrangler.json", "wrangler.jsonc", "wrangler.toml"):
        assert name in caught.value.message


def test_a_start_that_does_not_exist_is_said_not_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which does not exist"):
        find_config(tmp_path / "nowhere.toml")
