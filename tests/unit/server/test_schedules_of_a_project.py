"""Schedules and cron triggers of a whole project, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.journal.memory import MemoryJournal
from emulator.journal.port import InstanceQuery
from emulator.testing.clock import EPOCH_MS, VirtualClock
from wrangler_compat import project as assembly
from wrangler_compat.config import load_config
from wrangler_compat.testing import open_project

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS

WRANGLER = """{
  "name": "shop", "main": "src/entry.py", "compatibility_date": "2026-11-01",
  "triggers": { "crons": ["30 6 * * *", "0 * 1 1 *"] },
  "workflows": [
    { "name": "report", "binding": "REPORT", "class_name": "Report", "schedules": "0 0 * * *" },
  ],
}"""
ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

SEEN = []


class Report(WorkflowEntrypoint):
    async def run(self, event, step):
        if "schedule" not in event:
            return None
        return [event["schedule"]["cron"], event["schedule"]["scheduledTime"], event["payload"]]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response.json(SEEN)

    async def scheduled(self, controller):
        if controller.cron == "0 * 1 1 *":
            raise ValueError("not on this day")
        SEEN.append([controller.cron, controller.scheduledTime])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "entry.py").write_text(ENTRY)
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    return tmp_path


REPORT = "/client/v4/accounts/a/workflows/report"


async def test_a_year_of_a_daily_schedule_is_over_at_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="workflow_emulator")
    async with open_project(folder) as project:
        await project.advance("1 minute")
        await project.advance(365 * DAY_MS - MINUTE_MS)
        workflow = (await project.request("GET", REPORT)).json()["result"]
        assert workflow["schedules"] == [
            {"cron": "0 0 * * *", "next_instance": "2027-01-02T00:00:00.000Z"}
        ]
        assert (await project.request("GET", "/")).json() == [
            ["30 6 * * *", EPOCH_MS + day * DAY_MS + 390 * MINUTE_MS] for day in range(365)
        ]
        newest = await instance(project, f"0 0 * * *-{EPOCH_MS + 365 * DAY_MS}")
        assert newest["output"] == ["0 0 * * *", EPOCH_MS + 365 * DAY_MS, {}]
        assert newest["trigger"] == {"source": "cron"}
        assert newest["schedule"] == {
            "cron": "0 0 * * *",
            "scheduledTime": EPOCH_MS + 365 * DAY_MS,
        }


async def instance(project: Any, instance_id: str) -> Mapping[str, Any]:
    """What the API tells of an instance."""
    path = instance_id.replace(" ", "%20")
    return (await project.request("GET", f"{REPORT}/instances/{path}")).json()["result"]


async def test_a_restart_in_the_night_loses_no_tick_and_repeats_none(folder: Path) -> None:
    async with open_project(folder) as project:
        await project.advance(DAY_MS)
        for _ in range(3):
            await project.restart()
            await project.advance(1)
        rows = (await project.request("GET", f"{REPORT}/instances")).json()["result"]
        assert [row["id"] for row in rows] == [f"0 0 * * *-{EPOCH_MS + DAY_MS}"]


async def test_a_project_that_catches_up_fires_the_last_tick_that_was_missed(folder: Path) -> None:
    config, journal = load_config(folder), MemoryJournal()
    async with assembly.open_project(config, journal, VirtualClock()):
        pass
    clock = VirtualClock(EPOCH_MS + 9 * DAY_MS + 5 * MINUTE_MS)
    async with assembly.open_project(config, journal, clock, schedules="off"):
        await clock.advance(1)
    assert await journal.count(InstanceQuery("report")) == 0
    async with assembly.open_project(config, journal, clock, schedules="catch up"):
        await clock.advance(1)
    [row] = await journal.rows(InstanceQuery("report"))
    assert row.creation.id == f"0 0 * * *-{EPOCH_MS + 9 * DAY_MS}"


async def test_a_handler_that_fails_is_logged_and_the_next_tick_comes(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_project(folder) as project:
        await project.advance("3 hours")
    logged = [each for each in caplog.records if "scheduled of the cron trigger" in each.message]
    assert len(logged) == 3
    assert "not on this day" in str(logged[0].exc_info and logged[0].exc_info[1])


async def test_the_handler_can_be_run_over_http_as_with_wrangler_dev(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = "/cdn-cgi/handler/scheduled"
    async with open_project(folder) as project:
        done = await project.request("GET", f"{handler}?cron=*/5+*+*+*+*&time=120000")
        assert (done.status, done.text()) == (200, "ok")
        done = await project.request("POST", handler)
        assert (done.status, done.text()) == (200, "ok")
        done = await project.request("GET", f"{handler}?cron=0+*+1+1+*&format=json")
        assert (done.status, done.json()) == (500, {"outcome": "exception", "noRetry": False})
        for time in ("noon", "9" * 5_000):
            done = await project.request("GET", f"{handler}?time={time}")
            assert done.status == 400
        assert (await project.request("GET", "/")).json() == [
            ["*/5 * * * *", 120_000],
            ["", EPOCH_MS],
        ]
    assert "not on this day" in caplog.text


async def test_a_cron_trigger_without_a_handler_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = folder / "src" / "entry.py"
    entry.write_text(ENTRY.replace("async def scheduled", "async def other"))
    async with open_project(folder) as project:
        await project.advance("1 hour")
    assert 'the cron trigger "0 * 1 1 *" is due, but the Worker has no `scheduled`' in caplog.text


async def test_a_schedule_can_be_fired_at_any_time(folder: Path) -> None:
    async with open_project(folder) as project:
        await project.advance(1_234)
        fired = await project.request("POST", "/cdn-cgi/schedules/report/fire", json={})
        assert fired.json()["result"] == {"id": f"0 0 * * *-{EPOCH_MS + 1_234}"}
        made = await instance(project, f"0 0 * * *-{EPOCH_MS + 1_234}")
        assert made["output"] == ["0 0 * * *", EPOCH_MS + 1_234, {}]
        wrong = await project.request(
            "POST", "/cdn-cgi/schedules/report/fire", json={"cron": "* * * * *"}
        )
        assert wrong.status == 400
        assert 'has these schedules: "0 0 * * *"' in wrong.json()["messages"][0]["message"]
        unknown = await project.request("POST", "/cdn-cgi/schedules/none/fire", json={})
        assert unknown.status == 404


async def test_the_schedules_are_listed_with_their_next_times(folder: Path) -> None:
    async with open_project(folder) as project:
        await project.advance(DAY_MS)
        listed = (await project.request("GET", "/cdn-cgi/schedules")).json()["result"]
    assert [
        (each["workflow"], each["cron"], each["settled_until"], each["next"]) for each in listed
    ] == [
        ("report", "0 0 * * *", "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z"),
        (None, "30 6 * * *", "2026-01-01T06:30:00.000Z", "2026-01-02T06:30:00.000Z"),
        (None, "0 * 1 1 *", "2026-01-01T23:00:00.000Z", "2027-01-01T00:00:00.000Z"),
    ]
