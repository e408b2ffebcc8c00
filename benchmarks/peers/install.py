"""Install a peer apart from this project: a folder each, made when it is first wanted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

SCRIPTS = Path(__file__).parent / "scripts"
INSTALLATION_S = 600


class NotInstalledError(Exception):
    """Why a peer cannot be had here, in a line."""


class Installed(NamedTuple):
    """How to start a peer's script: its command line without arguments, and what its PATH begins with."""

    command: Sequence[str]
    programs: Path | None = None


class Peer(Protocol):
    """What is compared."""

    @property
    def name(self) -> str:
        """Of the command line."""
        ...

    @property
    def title(self) -> str:
        """In the table, with the version."""
        ...

    def install(self, cache: Path) -> Installed:
        """Install it below `cache`, unless that is done.

        Raises:
            NotInstalledError: it cannot be had.
        """
        ...


@dataclass(frozen=True)
class PythonPeer:
    """A package with a pinned version, in a virtual environment; `python` is the oldest Python that it takes."""

    name: str
    title: str
    requirement: str
    script: str
    python: tuple[int, int] = (3, 11)

    def install(self, cache: Path) -> Installed:
        """Create the environment, and fill it."""
        folder = cache / self.name
        python = folder / "bin" / "python"
        if not _is_there(folder, self.requirement):
            base = _python(self.python)
            _begin(folder, self.requirement)
            _run(base, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", self.requirement)
            _done(folder, self.requirement)
        return Installed([str(python), str(SCRIPTS / self.script)])


@dataclass(frozen=True)
class NpmPeer:
    """Packages of npm with pinned versions. The script is a module for this Python, and finds their programs on its PATH."""

    name: str
    title: str
    dependencies: tuple[tuple[str, str], ...]
    script: str

    def install(self, cache: Path) -> Installed:
        """Create the folder, and fill it."""
        folder = cache / self.name
        package = json.dumps({"private": True, "dependencies": dict(self.dependencies)})
        if not _is_there(folder, package):
            npm = shutil.which("npm")
            if npm is None:
                raise NotInstalledError("npm is not here")
            _begin(folder, " ".join("@".join(each) for each in self.dependencies))
            (folder / "package.json").write_text(package, encoding="utf-8")
            flags = ("--no-audit", "--no-fund", "--loglevel=error")
            _run(npm, "install", *flags, folder=folder)
            _done(folder, package)
        programs = folder / "node_modules" / ".bin"
        return Installed([sys.executable, "-m", self.script], programs)


def _is_there(folder: Path, wanted: str) -> bool:
    mark = folder / "installed"
    return mark.exists() and mark.read_text(encoding="utf-8") == wanted


def _begin(folder: Path, what: str) -> None:
    print(f"Installing {what} in {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _done(folder: Path, wanted: str) -> None:
    (folder / "installed").write_text(wanted, encoding="utf-8")


def _run(*command: str, folder: Path | None = None) -> None:
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALLATION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(str(error)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotInstalledError(said[-1] if said else f"{command[0]}: exit {done.returncode}")


def _python(oldest: tuple[int, int]) -> str:
    """A Python that is new enough: this one, or one on the PATH."""
    if sys.version_info >= oldest:
        return sys.executable
    for minor in range(oldest[1], oldest[1] + 4):
        found = shutil.which(f"python3.{minor}")
        # What is on the PATH may be a stand-in that only says what is missing.
        if found and not subprocess.run([found, "-c", ""], capture_output=True).returncode:
            return found
    raise NotInstalledError(f"it needs Python {oldest[0]}.{oldest[1]} or later on the PATH")
