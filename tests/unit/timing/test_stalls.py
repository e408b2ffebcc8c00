"""A loop that is held is noticed, with the line that holds it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

from emulator.timing import stall
from emulator.timing.stall import watching

HERE = Path(__file__).parent


class Heard(logging.Handler):
    """Lets a thread wait until something is said."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.texts.append(record.getMessage())
        self.said.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Generator[Heard]:
    monkeypatch.setattr(stall, "_DEBUGGERS", ())  # pytest has one loaded
    handler = Heard()
    log = logging.getLogger("workflow_emulator")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def hold(heard: Heard) -> None:
    assert heard.said.wait(30), "held, and nobody says so"


async def test_the_line_that_holds_the_loop_is_told_once(heard: Heard) -> None:
    with watching(HERE, look_s=0.001, patience_s=0.05):
        hold(heard)
        await answered(20)
        heard.said.clear()
    [text] = heard.texts
    assert text.startswith(f"{Path(__file__).name}:")
    assert ", in hold: this has held the event loop for over a second" in text


async def test_code_of_others_is_not_told(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    def line_below(root: Path, frame: FrameType | None) -> object:
        looked.set()
        return real(root, frame)

    real = stall._line_below  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(stall, "_line_below", line_below)
    with watching(tmp_path, look_s=0.001, patience_s=0.001):
        assert looked.wait(30)
        await answered(3)
    assert not heard.texts


async def answered(times: int) -> None:
    """Let the loop answer so often."""
    for _ in range(times):
        done = asyncio.get_running_loop().create_future()
        threading.Thread(
            target=asyncio.get_running_loop().call_soon_threadsafe, args=(done.set_result, None)
        ).start()
        await done
