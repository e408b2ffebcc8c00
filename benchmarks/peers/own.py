"""This project, as a peer among the others: as it is by default, and with `--durability full`, as most others are by default."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.install import Installed


@dataclass(frozen=True)
class Own:
    """What the others are compared with. It is here already."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()

    def install(self, cache: Path) -> Installed:
        """Nothing is to be done."""
        return Installed(
            [sys.executable, "-m", "benchmarks.peers.scripts.own_work", *self.arguments]
        )


OWN = Own("own", "this project")
PEER = Own("full", "with --durability full", ("full",))
