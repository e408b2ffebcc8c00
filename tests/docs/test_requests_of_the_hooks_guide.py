"""The requests of docs/hooks.md do what they say, sent to a `dev` process of the guide's project."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.docs.test_testing_guide import DOCS, write_project
from tests.unit.cli.process import PATIENCE_S, dev

REQUESTS = re.compile(r"^```sh\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_request_is_answered(tmp_path: Path) -> None:
    write_project("hooks.md", tmp_path)
    [lines] = REQUESTS.findall((DOCS / "hooks.md").read_text("utf-8"))
    results: list[Any] = []
    with dev(tmp_path) as server:
        for line in lines.splitlines():
            command = line.replace("localhost:8787", f"localhost:{server.port}")
            results.append(result_of(command))
            while results[-1] == {"stoppedCount": 0}:  # it does not sleep yet
                results[-1] = result_of(command)
    assert ["mug", "in blue", "done"] in results
    assert {"stoppedCount": 1} in results


def result_of(command: str) -> Any:
    """Run a command line of curl; the `result` of the answer."""
    shell = ["bash", "-c", f"{command} -sS --fail-with-body"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return json.loads(done.stdout)["result"]
