"""Which signals stop a process in good order."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

from wrangler_compat.cli.stopping import heed_signals

ALWAYS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize(
    ("at_first", "heeded"),
    [(signal.SIG_DFL, [*ALWAYS, signal.SIGHUP]), (signal.SIG_IGN, ALWAYS)],
)
def test_a_closed_terminal_stops_what_nohup_has_not_started(
    monkeypatch: pytest.MonkeyPatch, at_first: signal.Handlers, heeded: list[signal.Signals]
) -> None:
    def stop(_: int, __: FrameType | None) -> None: ...

    def handler_of(_: int) -> signal.Handlers:
        return at_first

    handlers: dict[int, object] = {}
    monkeypatch.setattr(signal, "getsignal", handler_of)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    heed_signals(stop)
    assert handlers == dict.fromkeys(heeded, stop)
