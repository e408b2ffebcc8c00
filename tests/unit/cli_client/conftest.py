"""A server for each test that wants one."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.unit.cli_client.served import Served, served


@pytest.fixture
def emulator() -> Generator[Served]:
    with served() as running:
        yield running
