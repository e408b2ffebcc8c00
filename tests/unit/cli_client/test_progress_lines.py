"""The lines of `Progress`: each thing once, in the order of time."""

from __future__ import annotations

from typing import Any

import pytest

from wrangler_compat.cli.progress import Progress

Json = dict[str, Any]


def at(seconds: int) -> str:
    return f"2026-01-01T00:00:{seconds:02}.000Z"


def instance(*steps: Json, status: str = "running", end: int | None = None) -> Json:
    times = {"queued": at(0), "start": at(1), "end": None if end is None else at(end)}
    return {"status": status, **times, "error": None, "steps": list(steps)}


def attempt(start: int, end: int | None = None, error: str | None = None) -> Json:
    failure = None if error is None else {"name": "Boom", "message": error}
    return {"start": at(start), "end": None if end is None else at(end), "error": failure}


def do(*attempts: Json, end: int | None = None, success: bool | None = None) -> Json:
    times = {"start": attempts[0]["start"], "end": None if end is None else at(end)}
    return {"type": "step", "name": "a-1", **times, "success": success, "attempts": attempts}


def sleep(name: str, start: int, end: int, *, finished: bool) -> Json:
    return {"type": "sleep", "name": name, "start": at(start), "end": at(end), "finished": finished}


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def progress(lines: list[str]) -> Progress:
    return Progress(lines.append)


def test_a_look_tells_only_what_is_new(progress: Progress, lines: list[str]) -> None:
    progress.show(instance(do(attempt(2))))
    assert lines == ["00:00:00.000Z  queued", "00:00:01.000Z  running", "00:00:02.000Z  ▶ a-1"]
    lines.clear()
    progress.show(instance(do(attempt(2))))
    assert lines == []
    progress.show(instance(do(attempt(2, 3, "no\nand no"))))
    assert lines == ["00:00:03.000Z  ✗ a-1, attempt 1: Boom: no …"]
    lines.clear()
    done = do(attempt(2, 3, "no\nand no"), attempt(4, 5), end=5, success=True)
    progress.show(instance(done, status="complete", end=6))
    assert lines == [
        "00:00:04.000Z  ▶ a-1, attempt 2",
        "00:00:05.000Z  ✓ a-1 (3 s)",
        "00:00:06.000Z  ✓ complete",
    ]


def test_steps_side_by_side_are_told_in_the_order_of_time(
    progress: Progress, lines: list[str]
) -> None:
    slow = sleep("slow-1", 2, 9, finished=True)
    progress.show(instance(slow, sleep("fast-1", 3, 4, finished=True)))
    assert [line.split("  ")[1] for line in lines[2:]] == [
        "… sleep slow-1",
        "… sleep fast-1",
        "✓ sleep fast-1 (1 s)",
        "✓ sleep slow-1 (7 s)",
    ]


def test_a_sleep_that_a_pause_prolongs_is_told_once(progress: Progress, lines: list[str]) -> None:
    progress.show(instance(sleep("nap-1", 2, 9, finished=False)))
    assert lines[-1] == "00:00:02.000Z  … sleep nap-1, until 2026-01-01 00:00:09.000Z"
    progress.show(instance(sleep("nap-1", 2, 20, finished=False), status="paused"))
    assert lines[-1].strip() == "paused"
    progress.show(instance(sleep("nap-1", 2, 20, finished=False)))
    assert lines[-1].strip() == "goes on"
    assert len(lines) == 5


def test_a_restarted_instance_is_told_anew(progress: Progress, lines: list[str]) -> None:
    progress.show(instance(do(attempt(2, 3), end=3, success=True)))
    lines.clear()
    progress.show(instance(do(attempt(7))))
    assert lines == ["00:00:07.000Z  ▶ a-1"]


def test_control_characters_of_an_error_are_shown(progress: Progress, lines: list[str]) -> None:
    progress.show(instance(do(attempt(2, 3, "\x1b[31m\r"))))
    assert lines[-1].endswith(r"Boom: \x1b[31m\r")
