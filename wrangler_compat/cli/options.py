"""What `workflow-emulator dev` was asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple


class DevOptions(NamedTuple):
    """The options of `dev`. `host` None is loopback, IPv4 and IPv6; `persist_to` None is the project's folder."""

    directory: Path
    port: int
    host: str | None
    persist_to: str | None
    environment: str | None
    full_durability: bool
    max_live: int
    keep_all: bool
    fast_retries: bool
    catch_up: bool
    api_token: str | None
    access_log: bool

    @property
    def is_exposed(self) -> bool:
        """Whether other machines may connect."""
        from wrangler_compat.server import is_loopback

        return self.host is not None and not is_loopback(self.host)

    @property
    def journal_folder(self) -> Path | Literal[":memory:"] | None:
        """Where the journal goes, if not into the project's folder."""
        if self.persist_to is None or self.persist_to == ":memory:":
            return self.persist_to
        return Path(self.persist_to)
