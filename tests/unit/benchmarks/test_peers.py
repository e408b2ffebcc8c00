"""The comparison with peers, without a peer from the network: canned answers, and this project's own script."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.__main__ import PEERS, table
from benchmarks.peers.install import Installed, NotInstalledError, NpmPeer, PythonPeer
from benchmarks.peers.own import OWN
from benchmarks.peers.own import PEER as FULL
from benchmarks.peers.run import Asked, FailedError, run
from benchmarks.peers.works import WORKS, Amounts, Figure, figures

SMALL = Amounts(
    instances=4,
    sequence=2,
    events=1,
    rounds=1,
    in_flight=2,
    kill_after_s=0,
    patience_s=60,
)
CANNED = """
import json, sys
answers = json.loads({answers!r})
work, folder, many, patience_s = sys.argv[1:]
if work not in answers:
    sys.exit("cannot " + work)
print(json.dumps(answers[work]), flush=True)
if work == "accept":
    __import__("signal").pause()  # until it is killed
"""
QUICK: dict[str, dict[str, Any]] = {
    "steps": {"finished": 4, "seconds": 2},
    "sequence": {"finished": 1, "seconds": 0.02},
    "events": {"finished": 1, "seconds": 0.004},
    "first": {"finished": 1},
    "accept": {"accepted": 2},
    "recover": {"finished": 2, "idle": 0},
}


@dataclass(frozen=True)
class Canned:
    """A peer whose script knows its answers already."""

    name: str
    answers: dict[str, Any] = field(default_factory=lambda: QUICK, hash=False)

    @property
    def title(self) -> str:
        return self.name.title()

    def install(self, cache: Path) -> Installed:
        return Installed([sys.executable, "-c", CANNED.format(answers=json.dumps(self.answers))])


@dataclass(frozen=True)
class Absent:
    name: str = "absent"
    title: str = "Absent"

    def install(self, cache: Path) -> Installed:
        raise NotInstalledError("no network")


def measured(own: Canned, other: Any, tmp_path: Path) -> dict[tuple[str, str], Figure]:
    found = figures(own, [other], tmp_path / "cache", tmp_path / "room", SMALL)
    return {(figure.work, figure.peer): figure for figure in found}


def test_a_peer_is_told_as_a_ratio_to_this_project(tmp_path: Path) -> None:
    slow = QUICK | {"steps": {"finished": 4, "seconds": 8}}
    found = measured(Canned("own"), Canned("slow", slow), tmp_path)
    assert {work for work, _ in found} == {work.what.format(**SMALL._asdict()) for work in WORKS}
    assert found["4 instances of 5 steps", "Own"].measured == 10
    assert found["4 instances of 5 steps", "Slow"][2:] == (2.5, "steps/s", 0.25, 0, "")
    assert found["2 steps of one instance", "Slow"][2:] == (10, "ms a step", 1, 0, "")
    assert found["event sent to instance finished", "Slow"][2:] == (4, "ms", 1, 0, "")


def test_what_did_not_finish_is_counted(tmp_path: Path) -> None:
    lossy = QUICK | {
        "steps": {"finished": 3, "seconds": 3},
        "events": {"finished": 0, "seconds": 60},
        "recover": {"finished": 1, "idle": 0},
    }
    found = measured(Canned("own"), Canned("lossy", lossy), tmp_path)
    assert found["4 instances of 5 steps", "Lossy"][2:] == (5, "steps/s", 0.5, 1, "")
    assert found["event sent to instance finished", "Lossy"][2:] == (None, "ms", None, 1, "")
    crash = WORKS[-1].what.format(**SMALL._asdict())
    assert found[crash, "Lossy"].unfinished == 1


def test_a_script_that_fails_is_a_line_of_its_own(tmp_path: Path) -> None:
    broken = {work: QUICK[work] for work in QUICK if work != "events"}
    found = measured(Canned("own"), Canned("broken", broken), tmp_path)
    assert found["event sent to instance finished", "Broken"].problem == "cannot events"
    assert found["2 steps of one instance", "Broken"].ratio == 1


def test_a_peer_that_cannot_be_installed_is_a_line_that_says_why(tmp_path: Path) -> None:
    found = measured(Canned("own"), Absent(), tmp_path)
    assert found["installation", "Absent"].problem == "no network"
    assert {peer for work, peer in found if work != "installation"} == {"Own"}


def test_a_script_without_an_answer_is_given_up(tmp_path: Path) -> None:
    silent = Installed([sys.executable, "-c", "import signal; signal.pause()"])
    with pytest.raises(FailedError, match="no answer in 0 s"):
        run(silent, Asked("steps", tmp_path, 1, 1), limit_s=0)


def test_a_python_that_is_too_old_is_told(tmp_path: Path) -> None:
    peer = PythonPeer("new", "New", "new==1", "new_work.py", python=(99, 0))
    with pytest.raises(NotInstalledError, match=r"needs Python 99\.0 or later"):
        peer.install(tmp_path)


def test_a_package_that_cannot_be_had_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error network' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setattr(shutil, "which", {"npm": str(npm)}.get)
    peer = NpmPeer("peer", "Peer", (("peer", "1.0.0"),), "peer_work")
    with pytest.raises(NotInstalledError, match="npm error network"):
        peer.install(tmp_path)
    assert not (tmp_path / "peer" / "installed").exists()


def test_what_is_installed_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho $PWD >> ../runs\n")
    npm.chmod(0o755)
    monkeypatch.setattr(shutil, "which", {"npm": str(npm)}.get)
    for version in ("1.0.0", "1.0.0", "1.0.1"):
        NpmPeer("peer", "Peer", (("peer", version),), "peer_work").install(tmp_path)
    assert len((tmp_path / "runs").read_text().splitlines()) == 2


def test_the_table_has_a_heading_for_each_work() -> None:
    assert list(
        table(
            [
                Figure("2 steps", "this project", 1234.5, "steps/s", 1),
                Figure("2 steps", "Slow", 12.345, "steps/s", 0.01, unfinished=3),
                Figure("start", "Slow", None, "s", problem="cannot start"),
            ]
        )
    ) == [
        "                                measured               times ours",
        "2 steps",
        "  this project                  1,234.50 steps/s                1",
        "  Slow                             12.35 steps/s             0.01  3 did not finish",
        "start",
        "  Slow                                 - s                         cannot start",
    ]


def test_every_peer_has_its_script() -> None:
    scripts = Path(sys.modules["benchmarks.peers"].__path__[0]) / "scripts"
    assert sorted(path.stem for path in scripts.glob("*_work.py")) == sorted(
        f"{'own' if name == FULL.name else name}_work" for name in PEERS
    )


def test_this_projects_own_script_does_all_the_work(tmp_path: Path) -> None:
    found = list(figures(OWN, [FULL], tmp_path, tmp_path, SMALL))
    assert len(found) == 2 * len(WORKS)
    assert all(figure.ratio for figure in found), found
    assert not any(figure.unfinished or figure.problem for figure in found), found
