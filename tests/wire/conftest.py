"""How long the fuzzing takes: `--fuzz-seconds=300` for more than the ordinary run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.process import Dev, dev

ORDINARY_S = 8
WORKER = Path(__file__).with_name("worker")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-seconds", type=int, help=f"how long to fuzz ({ORDINARY_S})")


@pytest.fixture
def fuzz_s(pytestconfig: pytest.Config) -> int:
    """How long to fuzz. Options of a conftest are unknown when pytest is started from further up."""
    return pytestconfig.getoption("--fuzz-seconds", default=None) or ORDINARY_S


@pytest.fixture
def server() -> Iterator[Dev]:
    """Serve the project of this folder, with a journal in memory."""
    with dev(WORKER, "--persist-to", ":memory:") as serving:
        yield serving
