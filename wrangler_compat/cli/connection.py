"""A connection of a client: uvicorn's, but for its patience, and for what it says.

uvicorn waits for ever for a request that has begun. A client that sends a byte a minute, or only opens a connection,
would keep it and what it holds. So a request must be here, head and body, within a bound.

It advises to install what it could speak WebSockets with, which nobody would listen to here. And it answers with 400
what is no HTTP, also where an answer has begun already, and then fails.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_PATIENCE_S = 60.0

log = logging.getLogger("workflow_emulator")


class PatientConnection(H11Protocol):
    """Closes when a request takes too long to arrive. What the answer takes is not counted."""

    patience_s: ClassVar[float] = REQUEST_PATIENCE_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to count."""
        super().connection_made(transport)
        self._expect()

    def handle_events(self) -> None:
        """Count until a request is whole."""
        super().handle_events()
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._expect()
        else:
            self._expect_no_more()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP, if that can still be said."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        if self._get_upgrade() == b"websocket":
            tell_of_websockets()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to count."""
        self._expect_no_more()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.patience_s, self._give_up)

    def _expect_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()


@cache
def tell_of_websockets() -> None:
    """Say it once: who wants a WebSocket and gets none tries again and again."""
    log.warning("WebSockets are not emulated: a request for one is answered as any other.")
