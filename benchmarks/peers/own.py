"""This project, as a peer among the others."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.install import Installed


@dataclass(frozen=True)
class Own:
    """What the others are compared with. It is here already."""

    name: str = "own"
    title: str = "this project"

    def install(self, cache: Path) -> Installed:
        """Nothing is to be done."""
        return Installed([sys.executable, "-m", "benchmarks.peers.scripts.own_work"])


OWN = Own()
