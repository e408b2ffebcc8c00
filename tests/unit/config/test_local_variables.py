"""Variables of `.dev.vars` and `.env`."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ConfigError
from wrangler_compat.config import load_config
from wrangler_compat.config.variables import local_variables


def test_without_files_there_are_no_variables(tmp_path: Path) -> None:
    assert local_variables(tmp_path, None) == {}


def test_the_dotenv_grammar_is_read(tmp_path: Path) -> None:
    (tmp_path / ".dev.vars").write_text(
        "# a comment\nPLAIN=a b # and another\nexport QUOTED=\"x\\ny # no comment\"\nSINGLE='$HOME'\nEMPTY=\n\nSPACED = 1\n"
    )
    assert local_variables(tmp_path, None) == {
        "PLAIN": "a b",
        "QUOTED": "x\ny # no comment",
        "SINGLE": "$HOME",
        "EMPTY": "",
        "SPACED": "1",
    }


def test_dev_vars_make_dotenv_files_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=env\nB=env\n")
    assert local_variables(tmp_path, None) == {"A": "env", "B": "env"}
    (tmp_path / ".dev.vars").write_text("A=dev\n")
    assert local_variables(tmp_path, None) == {"A": "dev"}


def test_dev_vars_of_an_environment_replace_the_general_ones(tmp_path: Path) -> None:
    (tmp_path / ".dev.vars").write_text("A=general\nB=general\n")
    (tmp_path / ".dev.vars.test").write_text("A=test\n")
    assert local_variables(tmp_path, "test") == {"A": "test"}
    assert local_variables(tmp_path, "other") == {"A": "general", "B": "general"}


def test_dotenv_files_are_merged_the_most_special_first_in_rank(tmp_path: Path) -> None:
    for name, text in {
        ".env": "A=1\nB=1\nC=1\nD=1\n",
        ".env.test": "B=2\nC=2\nD=2\n",
        ".env.local": "C=3\nD=3\n",
        ".env.test.local": "D=4\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert local_variables(tmp_path, "test") == {"A": "1", "B": "2", "C": "3", "D": "4"}
    assert local_variables(tmp_path, None) == {"A": "1", "B": "1", "C": "3", "D": "3"}


def test_local_variables_outrank_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "entry.py").touch()
    (tmp_path / "wrangler.toml").write_text(
        'main = "entry.py"\nvars = { A = "config", B = "config" }\n'
    )
    (tmp_path / ".dev.vars").write_text("A=secret\n")
    assert load_config(tmp_path).vars == {"A": "secret", "B": "config"}


def test_lines_that_are_no_variables_are_refused_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / ".dev.vars"
    path.write_text("A=1\n\n\nnonsense\nB='open\n")
    with pytest.raises(ConfigError) as caught:
        local_variables(tmp_path, None)
    assert caught.value.message.splitlines() == [
        f"{path}:4: got 'nonsense'; expected NAME=value.",
        f'{path}:5: got "B=\'open"; expected NAME=value.',
    ]


@pytest.mark.parametrize("name", [".dev.vars", ".env"])
def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"A=1\nB=caf\xe9\n")
    with pytest.raises(ConfigError) as caught:
        local_variables(tmp_path, None)
    assert caught.value.message.startswith(f"{tmp_path / name}:2: the byte 0xe9 is not UTF-8")
