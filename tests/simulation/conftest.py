"""Which seeds the simulation runs: `--seeds=5000` for more of them, `--seed=4711` to replay exactly one."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ORDINARY_SEEDS = 200
REGRESSIONS = Path(__file__).with_name("regressions.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--seeds", type=int, help=f"how many seeds to simulate ({ORDINARY_SEEDS})")
    group.addoption("--seed", type=int, help="simulate this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # Options of a conftest are unknown when pytest is started from further up.
    one = metafunc.config.getoption("seed", default=None)
    many = metafunc.config.getoption("seeds", default=None) or ORDINARY_SEEDS
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(many) if one is None else [one])
    if "regression" in metafunc.fixturenames:
        seeds = tomllib.loads(REGRESSIONS.read_text())["regression"]
        metafunc.parametrize(
            "regression", [each["seed"] for each in seeds], ids=[each["was"] for each in seeds]
        )


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Scripts fail on purpose, thousands of times: nobody wants to read about it."""
    log = logging.getLogger("workflow_emulator")
    log.disabled = True
    yield
    log.disabled = False
