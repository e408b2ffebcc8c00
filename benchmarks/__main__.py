"""`python -m benchmarks`: print the figures as a table, beside the floor of the same run.

Machines differ, and are shared: the ratio is the figure to quote.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import load, measure
from benchmarks.queue import queue
from benchmarks.retention import expiry
from benchmarks.tenants import tenants


class Figure(NamedTuple):
    """One line of the table."""

    what: str
    measured: float
    unit: str
    goal: str
    floor: float | None = None


Measurement = Callable[[], Coroutine[Any, Any, float]]


def in_turns(measured: Measurement, floor: Measurement, rounds: int) -> tuple[float, float]:
    """The medians of both, measured in turns: what else the machine does then meets both alike."""
    floors, found = zip(
        *((asyncio.run(floor()), asyncio.run(measured())) for _ in range(rounds)), strict=True
    )
    return median(found), median(floors)


def figures(*, quick: bool) -> Iterator[Figure]:
    """Measure one thing after the other."""
    with tempfile.TemporaryDirectory() as folder:
        rooms = (Path(folder) / str(number) for number in range(100))

        def room() -> Path:
            path = next(rooms)
            path.mkdir()
            return path

        yield from _steps(room, quick=quick)
        few = asyncio.run(measure.one_after_another(room(), steps=500))
        steps = 2_000 if quick else 9_900
        many = asyncio.run(measure.one_after_another(room(), steps=steps))
        yield Figure(
            f"a step after {steps:,} others, to one after 500", many / few, "times", "1: linear"
        )
        yield Figure(
            "event sent to instance complete",
            asyncio.run(measure.wake(room(), times=50)),
            "ms",
            "5",
        )
        yield Figure(
            "`dev` to first result", min(measure.dev_start(room()) for _ in range(3)), "s", "0.6"
        )
        yield Figure(
            "engine in process, start to end",
            min(measure.in_process_start(room()) for _ in range(3)),
            "s",
            "0.2",
        )
        seconds = 2 if quick else 20
        bare = load.bare_route(seconds)
        served = load.emulator(room(), seconds)
        yield Figure(
            "REST: 50 connections create and read", served.rate, "requests/s", "", bare.rate
        )
        yield Figure("   answers that are errors", served.errors, "", "0")
        parked = 5_000 if quick else 100_000
        rate, size_bytes, idle = asyncio.run(measure.sleepers(room(), instances=parked))
        yield Figure(f"{parked:,} parked instances: created", rate, "a second", "")
        yield Figure("   memory of each", size_bytes, "bytes", "250")
        yield Figure("   a core used while idle", idle * 100, "%", "0")
        yield from _many_others(room(), room(), quick=quick)
        yield from _tenants(room(), quick=quick)


def _steps(room: Callable[[], Path], *, quick: bool) -> Iterator[Figure]:
    """What a step costs, among many and alone."""
    yield Figure(
        "this machine: a task created and awaited",
        min(asyncio.run(measure.task_us(tasks=20_000)) for _ in range(5)),
        "us",
        "4.3 where the goals were set",
    )
    instances = 500 if quick else 2_000
    rounds = 1 if quick else 7
    rate, floor = in_turns(
        lambda: measure.many_steps(room(), instances=instances, steps=5),
        lambda: measure.many_steps_floor(room(), instances=instances, steps=5),
        rounds,
    )
    yield Figure(
        f"{instances:,} instances of 5 steps",
        rate,
        "steps/s",
        "8,000, or a tenth of the floor",
        floor,
    )
    each, floor = in_turns(
        lambda: measure.one_after_another(room(), steps=100),
        lambda: measure.one_after_another_floor(room(), steps=100),
        rounds,
    )
    yield Figure("100 steps of one instance", each, "ms a step", "0.5", floor)


def _many_others(line_room: Path, expiry_room: Path, *, quick: bool) -> Iterator[Figure]:
    """What many that wait, and many that go, cost the others."""
    # The queue's memory is no line here: a process's peak is told apart only in a process of its own.
    waiting = 2_000 if quick else 20_000
    line = asyncio.run(queue(line_room, waiting=waiting))
    yield Figure(
        f"{waiting:,} instances before 100 slots: created",
        line.created_a_second,
        "a second",
        "",
    )
    yield Figure("   a restart of the emulator", line.restart_s, "s", "")
    yield Figure("   let through", line.finished_a_second, "a second", "")
    finished = 10_000 if quick else 100_000
    gone = asyncio.run(expiry(expiry_room, finished=finished, seconds=1 if quick else 5))
    yield Figure(f"{finished:,} instances expire", gone.removed_a_second, "a second", "")
    yield Figure(
        "   an instance meanwhile, median", gone.busy_median_ms, "ms", "", gone.quiet_median_ms
    )
    yield Figure("   an instance meanwhile, p99", gone.busy_p99_ms, "ms", "", gone.quiet_p99_ms)


def _tenants(room: Path, *, quick: bool) -> Iterator[Figure]:
    """What a tenant's code costs that is not in memory."""
    many = 100 if quick else 1_000
    found = asyncio.run(tenants(room, many=many, versions=10))
    yield Figure(
        f"{many:,} tenants of 10 versions: published", found.published_a_second, "a second", ""
    )
    yield Figure(
        "   first start of a tenant, median",
        found.cold_ms,
        "ms",
        "20 over the floor",
        found.plain_ms,
    )
    yield Figure("   first start of a tenant, p99", found.cold_p99_ms, "ms", "", found.plain_ms)
    yield Figure("   another start", found.warm_ms, "ms", "", found.plain_ms)
    yield Figure("   memory that grows with each", found.bytes_a_tenant, "bytes", "0")
    yield Figure("   in a process: first start", found.process_cold_ms, "ms", "", found.plain_ms)
    yield Figure("   in a process: another start", found.process_warm_ms, "ms", "", found.plain_ms)


def main() -> int:
    """Print what is measured, as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a small run without goals, to see that it works"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    found = figures(quick=options.quick)
    if options.quick:  # the goals are those of the full amounts
        found = (figure._replace(goal="") for figure in found)
    if options.json:
        for figure in found:
            print(json.dumps(figure._asdict()), flush=True)
        return 0
    goal = "" if options.quick else "goal"
    print(_LINE.format("", "measured", "", goal, "floor", "of the floor"))
    for figure in found:
        measured = f"{figure.measured:,.2f}"
        floor = "" if figure.floor is None else f"{figure.floor:,.2f}"
        ratio = "" if figure.floor is None else f"{figure.measured / figure.floor:.3f}"
        line = _LINE.format(figure.what, measured, figure.unit, figure.goal, floor, ratio)
        print(line.rstrip(), flush=True)
    return 0


_LINE: Final = "{:45}{:>12} {:12}{:32}{:>12}{:>14}"


if __name__ == "__main__":
    sys.exit(main())
