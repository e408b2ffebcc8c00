"""Letting others go first."""

from __future__ import annotations

from collections.abc import Generator


class OnePass:
    """One pass of the event loop: whoever is ready runs."""

    def __await__(self) -> Generator[None]:
        yield
