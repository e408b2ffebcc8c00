"""`workflow-emulator schedules`: offline, and on a running emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from tests.unit.cli.process import write_project
from wrangler_compat.cli.main import main

WRANGLER = """{
  "name": "shop", "main": "src/entry.py", "compatibility_date": "2026-11-01",
  "triggers": { "crons": ["*/30 * * * *"] },
  "workflows": [
    { "name": "orders", "binding": "ORDERS", "class_name": "Orders", "schedules": ["0 0 * * 1", "59 23 L * *"] },
    { "name": "mail", "binding": "MAIL", "class_name": "Mail" },
  ],
}"""


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["schedules", *arguments], catch_exceptions=False)


def test_the_next_times_of_a_workflow_are_told_without_an_emulator(tmp_path: Path) -> None:
    folder = write_project(tmp_path, wrangler=WRANGLER)
    start = ("--directory", str(folder), "--after", "2026-12-20")
    done = ask("next", "orders", "-n", "4", *start)
    assert done.stdout.splitlines() == [
        "2026-12-27 00:00:00.000Z  0 0 * * 1",
        "2026-12-31 23:59:00.000Z  59 23 L * *",
        "2027-01-03 00:00:00.000Z  0 0 * * 1",
        "2027-01-10 00:00:00.000Z  0 0 * * 1",
    ]
    done = ask("next", "shop", "-n", "1", *start)
    assert done.stdout == "2026-12-20 00:30:00.000Z  */30 * * * *\n"
    done = ask("next", "shop", "-n", "1", *start, "--json")
    assert json.loads(done.stdout) == [{"cron": "*/30 * * * *", "next": "2026-12-20T00:30:00.000Z"}]


def test_from_now_on_there_are_five(tmp_path: Path) -> None:
    done = ask("next", "shop", "--directory", str(write_project(tmp_path, wrangler=WRANGLER)))
    assert len(done.stdout.splitlines()) == 5


def test_a_name_without_schedules_is_refused_with_those_that_have_some(tmp_path: Path) -> None:
    folder = write_project(tmp_path, wrangler=WRANGLER)
    done = ask("next", "mail", "--directory", str(folder))
    assert done.exit_code == 1
    assert done.stderr == 'Error: "mail" has no schedule. These have: shop, orders.\n'


def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path: Path) -> None:
    folder = write_project(tmp_path, wrangler=WRANGLER.replace("59 23 L", "59 24 L"))
    done = ask("next", "orders", "--directory", str(folder))
    assert done.exit_code == 1
    place = f"{folder / 'wrangler.jsonc'}:5:97: workflows[0].schedules[1]"
    assert done.stderr.startswith(f'Error: {place}: The cron expression "59 24 L * *" is not valid')


def test_without_an_emulator_the_others_say_how_to_start_one() -> None:
    for command in (("list",), ("fire", "orders")):
        done = ask(*command, "--url", "http://127.0.0.1:9")
        assert done.exit_code == 1
        assert "start one with `workflow-emulator dev`" in done.stderr


def test_a_project_without_schedules_does_not_load_the_calendar(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    code = (
        "import sys; from pathlib import Path; import wrangler_compat.project\n"
        f"from wrangler_compat.config import load_config; load_config(Path({str(folder)!r}))\n"
        "print('croniter' in sys.modules)"
    )
    probe = [sys.executable, "-c", code]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "False\n"
