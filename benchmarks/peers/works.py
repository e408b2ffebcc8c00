"""What is measured of a peer, and how the answers of its script become figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.install import Installed, NotInstalledError, Peer
from benchmarks.peers.run import Answer, Asked, FailedError, run

STEPS = 5
LIMIT_S = 900
LONG_S = 10


class Amounts(NamedTuple):
    """How much of each work. `rounds`: how often that is done of which the best counts; `patience_s`: how long nothing may
    finish before the rest is given up.
    """

    instances: int
    sequence: int
    events: int
    rounds: int
    in_flight: int
    kill_after_s: float
    patience_s: float


# Unhinged takes up what a crash left when a lease of two minutes is over.
FULL = Amounts(1_000, 100, 20, 3, 200, kill_after_s=0.5, patience_s=150)
QUICK = Amounts(50, 20, 3, 1, 20, kill_after_s=0.5, patience_s=10)


class Result(NamedTuple):
    """What a work came to (None: nothing finished), and how many instances did not finish."""

    number: float | None
    unfinished: int = 0


class Figure(NamedTuple):
    """A line of the table. `ratio` is to this project's number; `problem` says why there is no number."""

    work: str
    peer: str
    measured: float | None
    unit: str
    ratio: float | None = None
    unfinished: int = 0
    problem: str = ""


class Bench:
    """An installed peer, and fresh folders for its runs."""

    def __init__(self, installed: Installed, room: Path, amounts: Amounts) -> None:
        self.amounts = amounts
        self._installed = installed
        self._folders = (room / str(number) for number in count())

    def folder(self) -> Path:
        """A new folder."""
        folder = next(self._folders)
        folder.mkdir(parents=True)
        return folder

    def __call__(
        self, work: str, many: int, folder: Path | None = None, *, linger_s: float = 0
    ) -> Answer:
        """Have the script do the work."""
        asked = Asked(work, folder or self.folder(), many, self.amounts.patience_s)
        return run(self._installed, asked, limit_s=LIMIT_S, linger_s=linger_s)


def many_steps(bench: Bench) -> Result:
    """Steps a second, of many instances at once, the most of a few, or fewer if they take long.

    Those of instances that did not finish do not count.
    """
    many = bench.amounts.instances
    rates: list[float] = []
    unfinished, seconds = 0, 0.0
    while len(rates) < bench.amounts.rounds and seconds < LONG_S:
        said = bench("steps", many).said
        rates.append(said["finished"] * STEPS / said["seconds"] if said["finished"] else 0)
        unfinished += many - said["finished"]
        seconds += said["seconds"]
    return Result(max(rates) or None, unfinished)


def sequence(bench: Bench) -> Result:
    """Milliseconds a step, from the creation of an instance to its end, the least of a few."""
    many = bench.amounts.sequence
    answers = [bench("sequence", many) for _ in range(bench.amounts.rounds)]
    took = [answer.said["seconds"] for answer in answers if answer.said["finished"]]
    return Result(min(took) * 1000 / many if took else None, len(answers) - len(took))


def events(bench: Bench) -> Result:
    """Milliseconds from an event to the end of the instance that waited for it, the median."""
    many = bench.amounts.events
    said = bench("events", many).said
    finished = said["finished"]
    return Result(said["seconds"] * 1000 if finished else None, many - finished)


def start(bench: Bench) -> Result:
    """Seconds from the start of a process to its first finished instance, the least of a few."""
    answers = [bench("first", 1) for _ in range(bench.amounts.rounds)]
    took = [answer.seconds for answer in answers if answer.said["finished"]]
    return Result(min(took, default=None), len(answers) - len(took))


def crash(bench: Bench) -> Result:
    """Seconds from a start after SIGKILL to the end of the last instance that ended."""
    many, folder = bench.amounts.in_flight, bench.folder()
    bench("accept", many, folder, linger_s=bench.amounts.kill_after_s)
    said, seconds = bench("recover", many, folder)
    finished = said["finished"]
    return Result(seconds - said["idle"] if finished else None, many - finished)


class Work(NamedTuple):
    """What is measured, told with the fields of `Amounts`, in which unit, and how."""

    what: str
    unit: str
    measure: Callable[[Bench], Result]


WORKS = (
    Work("{instances:,} instances of 5 steps", "steps/s", many_steps),
    Work("{sequence} steps of one instance", "ms a step", sequence),
    Work("event sent to instance finished", "ms", events),
    Work("process start to first finished instance", "s", start),
    Work("SIGKILL with {in_flight} instances in flight: restart to last finished", "s", crash),
)


def figures(
    own: Peer, others: Sequence[Peer], cache: Path, room: Path, amounts: Amounts
) -> Iterator[Figure]:
    """Install all, then do one work after the other, each first with this project and then with its peers."""
    benches: dict[Peer, Bench] = {}
    for peer in (own, *others):
        try:
            benches[peer] = Bench(peer.install(cache), room / peer.name, amounts)
        except NotInstalledError as error:
            yield Figure("installation", peer.title, None, "", problem=str(error))
    for work in WORKS:
        ours: float | None = None
        for peer, bench in benches.items():
            figure = _measure(work, peer, bench)
            if peer is own:
                ours = figure.measured
            if figure.measured and ours:
                figure = figure._replace(ratio=figure.measured / ours)
            yield figure


def _measure(work: Work, peer: Peer, bench: Bench) -> Figure:
    what = work.what.format(**bench.amounts._asdict())
    try:
        number, unfinished = work.measure(bench)
    except FailedError as error:
        return Figure(what, peer.title, None, work.unit, problem=str(error))
    return Figure(what, peer.title, number, work.unit, unfinished=unfinished)
