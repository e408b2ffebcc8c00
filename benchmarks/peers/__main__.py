"""`python -m benchmarks.peers`: this project beside its peers, as ratios of one run.

The peers are installed below .benchmarks/ when they are first wanted. Temporal is left out: its server comes in no package.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from benchmarks.peers import dbos, kairo, own, unhinged, wrangler
from benchmarks.peers.works import FULL, QUICK, Figure, figures

PEERS = {module.PEER.name: module.PEER for module in (own, dbos, unhinged, kairo, wrangler)}
CACHE = Path(__file__).parents[2] / ".benchmarks"


def table(found: Iterable[Figure]) -> Iterator[str]:
    """The lines of the table, as the figures come: a heading for each work, and a line for each peer."""
    yield _LINE.format("", "measured", "", "times ours", "").rstrip()
    heading = None
    for figure in found:
        if figure.work != heading:
            heading = figure.work
            yield heading
        measured = "-" if figure.measured is None else f"{figure.measured:,.2f}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:,.3g}"
        unfinished = f"{figure.unfinished:,} did not finish" if figure.unfinished else ""
        said = figure.problem or unfinished
        yield _LINE.format(f"  {figure.peer}", measured, figure.unit, ratio, said).rstrip()


def main() -> int:
    """Print what is measured, as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}: all")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    unknown = set(options.peers) - set(PEERS)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    others = [PEERS[name] for name in options.peers or PEERS]
    # Who is told to end must still kill the processes that it measures.
    signal.signal(signal.SIGTERM, _stop)
    amounts = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        found = figures(own.OWN, others, CACHE, Path(folder), amounts)
        told = (json.dumps(each._asdict()) for each in found) if options.json else table(found)
        for line in told:
            print(line, flush=True)
    return 0


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


_LINE: Final = "{:28}{:>12} {:12}{:>12}  {}"


if __name__ == "__main__":
    sys.exit(main())
