"""The work, the same for each engine, and how a script tells what came of it.

A script is started as `python <peer>_work.py WORK FOLDER COUNT PATIENCE_S` in a process group of its own, and keeps
whatever it stores in FOLDER. It prints one line, a JSON object; everything else goes to standard error:

| WORK | what is done | the object |
|---|---|---|
| `steps` | COUNT instances of 5 steps, at once | `{"finished": 2000, "seconds": 1.2}` |
| `sequence` | one instance of COUNT steps | `{"finished": 1, "seconds": 0.05}` |
| `events` | COUNT times: an instance waits, an event is sent, the instance ends | `{"finished": 20, "seconds": 0.003}`, the median |
| `first` | COUNT instances of one step | `{"finished": 1}` |
| `accept` | COUNT instances of 5 steps of 0.2 s; goes on until it is killed | `{"accepted": 200}`, once all are durable |
| `recover` | wait for the COUNT instances which `accept` left in FOLDER | `{"finished": 200, "idle": 0}`, the seconds in which nothing finished any more |

`finished` is less than it should be if nothing more finished for PATIENCE_S seconds. Only the standard library is used here:
this runs under the Python of each peer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

STEPS = 5
FLIGHT_STEP_S = 0.2


class Engine(Protocol):
    """What a script must supply."""

    async def create(self, ids: list[str], steps: int, seconds: float) -> None:
        """Create an instance for each id, whose steps take so many seconds each and return a small dict. Returns when all
        are durable.
        """
        ...

    async def park(self, identity: str) -> None:
        """Create an instance that waits for an event and then ends. Returns when it waits, where that can be told."""
        ...

    async def send(self, identity: str) -> None:
        """Send that event."""
        ...

    async def finished(self, ids: list[str]) -> int:
        """How many have finished; `ids` are all that were ever created in the folder."""
        ...


Answer = dict[str, Any]
Opened = Callable[[Path], AbstractAsyncContextManager[Engine]]


async def wait(
    engine: Engine, ids: list[str], patience_s: float, pause_s: float
) -> tuple[int, float]:
    """Wait until all have finished, or none has for so long: how many have, and when the last one did.

    A question that takes long is asked seldom: the engine is to be measured, not its answers.
    """
    known, since = 0, time.perf_counter()
    while known < len(ids) and time.perf_counter() - since < patience_s:
        asked = time.perf_counter()
        now = await engine.finished(ids)
        answered = time.perf_counter()
        if now != known:
            known, since = now, answered
        await asyncio.sleep(max(pause_s, 4 * (answered - asked)) if known < len(ids) else 0)
    return known, since


async def steps(engine: Engine, count: int, patience_s: float) -> Answer:
    ids = [f"steps-{number}" for number in range(count)]
    began = time.perf_counter()
    waiting = asyncio.create_task(wait(engine, ids, patience_s, 0.01))
    await engine.create(ids, STEPS, 0)
    finished, at = await waiting
    return {"finished": finished, "seconds": at - began}


async def sequence(engine: Engine, count: int, patience_s: float) -> Answer:
    await engine.create(["warm"], 1, 0)
    await wait(engine, ["warm"], patience_s, 0.001)
    began = time.perf_counter()
    await engine.create(["long"], count, 0)
    finished, at = await wait(engine, ["warm", "long"], patience_s, 0.001)
    return {"finished": finished - 1, "seconds": at - began}


async def events(engine: Engine, count: int, patience_s: float) -> Answer:
    ids: list[str] = []
    took: list[float] = []
    finished = 0
    while finished == len(ids) < count:
        ids.append(f"event-{len(ids)}")
        await engine.park(ids[-1])
        await asyncio.sleep(finished / count)  # else who polls is always met at the same moment
        began = time.perf_counter()
        await engine.send(ids[-1])
        finished, at = await wait(engine, ids, patience_s, 0.0005)
        took.append(at - began)
    return {"finished": finished, "seconds": statistics.median(took)}


async def first(engine: Engine, count: int, patience_s: float) -> Answer:
    ids = [f"first-{number}" for number in range(count)]
    await engine.create(ids, 1, 0)
    finished, _ = await wait(engine, ids, patience_s, 0.001)
    return {"finished": finished}


async def accept(engine: Engine, count: int, patience_s: float) -> Answer:
    await engine.create(in_flight(count), STEPS, FLIGHT_STEP_S)
    return {"accepted": count}


async def recover(engine: Engine, count: int, patience_s: float) -> Answer:
    finished, at = await wait(engine, in_flight(count), patience_s, 0.02)
    return {"finished": finished, "idle": time.perf_counter() - at}


def in_flight(count: int) -> list[str]:
    """The ids that `accept` creates."""
    return [f"flight-{number}" for number in range(count)]


WORKS = {work.__name__: work for work in (steps, sequence, events, first, accept, recover)}


def main(opened: Opened) -> None:
    """Do what the command line asks of the engine which `opened` opens in a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("patience_s", type=float)
    asked = parser.parse_args()
    said = os.dup(1)
    os.dup2(2, 1)  # what a peer prints is not the answer

    async def work() -> None:
        async with opened(asked.folder) as engine:
            found = await WORKS[asked.work](engine, asked.count, asked.patience_s)
            os.write(said, json.dumps(found).encode() + b"\n")
            if asked.work == "accept":
                await asyncio.Event().wait()

    # Threads of a peer may not end by themselves.
    try:
        asyncio.run(work())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
