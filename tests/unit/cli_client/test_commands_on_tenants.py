"""`workflow-emulator dynamic publish` and `list` on a running emulator."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import Result

from tests.unit.cli_client.served import Served, invoke


def run(emulator: Served, *arguments: str) -> Result:
    return invoke("dynamic", *arguments, url=emulator.url)


def test_a_file_is_published_and_listed(emulator: Served, tmp_path: Path) -> None:
    file = tmp_path / "billing v1.py"
    file.write_text("x = 1\n")
    told = run(emulator, "publish", "acme", "billing", "v1", str(file))
    assert told.exit_code == 0, told.output
    again = run(emulator, "publish", "acme", "billing", "v1", str(file), "--json")
    code = json.loads(again.stdout)["hash"]
    assert told.stdout == f'Version "v1" of "billing" of "acme" is code {code[:12]}.\n'
    rows = [line.split() for line in run(emulator, "list").stdout.splitlines()]
    assert rows[0] == ["Tenant", "Name", "Version", "Code", "Published"]
    assert rows[-1][:4] == ["acme", "billing", "v1", code[:12]]
    for arguments, many in ((("acme",), 1), (("acme", "billing"), 1), (("zenith",), 0)):
        listed = run(emulator, "list", *arguments, "--json")
        assert len(json.loads(listed.stdout)) == many


def test_that_nothing_has_been_published_is_told(emulator: Served) -> None:
    for arguments, told in (
        ((), "Nothing has been published."),
        (("acme",), "Nothing of that has been published."),
    ):
        listed = run(emulator, "list", *arguments)
        assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", f"{told}\n")


def test_several_files_are_one_code(emulator: Served, tmp_path: Path) -> None:
    for name, text in (("shop", "import rates\n"), ("rates", "x = 1\n")):
        (tmp_path / f"{name}.py").write_text(text)
    files = [str(tmp_path / "shop.py"), str(tmp_path / "rates.py")]
    assert run(emulator, "publish", "acme", "shop", "v1", *files).exit_code == 0
    turned = run(emulator, "publish", "acme", "shop", "v1", *reversed(files))
    assert turned.exit_code == 1
    assert 'Version "v1" of "shop" of the tenant "acme" has another code' in turned.stderr


def test_what_is_refused_is_one_line(emulator: Served, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def f(:\n")
    refused = run(emulator, "publish", "acme", "billing", "v1", str(file))
    assert refused.exit_code == 1
    assert refused.stderr == f"Error: {file}, line 1, column 7: invalid syntax\n"
    file.write_bytes(b"\xff")
    refused = run(emulator, "publish", "acme", "billing", "v1", str(file))
    assert f"{file} is no text in UTF-8" in refused.stderr
    twin = tmp_path / "inner" / "broken.py"
    twin.parent.mkdir()
    twin.touch()
    refused = run(emulator, "publish", "acme", "billing", "v1", str(file), str(twin))
    assert "would both be the module broken" in refused.stderr
    refused = invoke("dynamic", "list", url="http://127.0.0.1:1")
    assert "No emulator answers" in refused.stderr
