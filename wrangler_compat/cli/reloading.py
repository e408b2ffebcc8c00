"""`dev --reload`: a process that watches the project's files and starts the serving one anew.

A reload is a kill and a recovery, the path that every start takes: nothing is handed over but the journal.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Final

import click
from watchfiles import Change, DefaultFilter, watch

from wrangler_compat.cli.options import DevOptions
from wrangler_compat.cli.stopping import heed_signals
from wrangler_compat.config import find_config
from wrangler_compat.project import STATE_FOLDER

_SUFFIXES: Final = (".py", ".json", ".jsonc", ".toml")
_VARIABLES: Final = (".dev.vars", ".env")
_PATIENCE_S: Final = 2.0


class _ProjectFilter(DefaultFilter):
    """What a project is made of: code, configuration, variables."""

    ignore_dirs = (*DefaultFilter.ignore_dirs, STATE_FOLDER)

    def __call__(self, change: Change, path: str) -> bool:
        name = Path(path).name
        is_source = name.endswith(_SUFFIXES) or name.startswith(_VARIABLES)
        return is_source and super().__call__(change, path)


def serve_and_reload(options: DevOptions) -> None:
    """Serve the project in a process of its own, a new one after every change, until a signal comes.

    Raises:
        ConfigError: there is no project.
    """
    root = find_config(options.directory).parent
    stopped = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        stopped.set()

    heed_signals(stop)
    child = _start()
    try:
        for changes in watch(
            root, watch_filter=_ProjectFilter(), stop_event=stopped, raise_interrupt=False
        ):
            names = sorted(str(Path(path).relative_to(root)) for _, path in changes)
            click.echo(f"Changed: {', '.join(names)}. Starting anew.")
            _end(child)
            child = _start()
    finally:
        _end(child)


def _start() -> subprocess.Popen[bytes]:
    # The same command line without --reload; -P keeps the current folder off the module path.
    arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
    return subprocess.Popen([sys.executable, "-P", "-m", "wrangler_compat.cli.main", *arguments])  # noqa: S603


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
