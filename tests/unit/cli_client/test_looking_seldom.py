"""`run` and `--follow` where looking at the instance takes long: it gets on all the same, and its end is told at once."""

from __future__ import annotations

import pytest

from emulator.domain.instance import InstanceKey
from emulator.engine.programs import RunEvent
from emulator.engine.steps import StepContext
from emulator.errors import InstanceNotFound
from emulator.projection.detail import InstanceDetail
from emulator.testing.clock import VirtualClock
from tests.unit.rest.emulated import CONFIG, emulated, gives
from wrangler_compat.cli import following, run
from wrangler_compat.cli.client import Client
from wrangler_compat.cli.progress import REST_PER_LOOK
from wrangler_compat.cli.reporting import HeldLog
from wrangler_compat.cli.wording import Json
from wrangler_compat.rest.operations import Operations

STEPS = 20
LOOK_MS = 60_000


class _Jumping(VirtualClock):
    """A clock by which every look takes a minute, for it is read before and after it."""

    def now_ms(self) -> int:
        """Jump, and tell where the clock stands."""
        self._now_ms += LOOK_MS
        return self._now_ms


class _Counting(Operations):
    """Operations that count the looks."""

    looks = 0

    async def detail(self, key: InstanceKey) -> InstanceDetail:
        """Look."""
        self.looks += 1
        return await super().detail(key)


async def _steps(_: RunEvent, step: StepContext) -> object:
    for number in range(STEPS):
        await step.do(f"step {number}", gives(number), CONFIG)
    return STEPS


async def test_run_does_not_look_after_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    async with emulated(runs={"steps": _steps}) as server:
        operations = _Counting(server.engine, 0, clock=_Jumping())
        key = InstanceKey("steps", await operations.create("steps", {"id": "one"}))
        ended = await run._to_its_end(operations, key, HeldLog())  # pyright: ignore[reportPrivateUsage]
    assert ended["output"] == STEPS
    assert operations.looks <= 3
    assert capsys.readouterr().err.count("✓ step") == STEPS


async def test_an_instance_that_run_has_lost_is_told_without_a_word_of_asyncio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with emulated(runs={"steps": _steps}) as server:
        operations = Operations(server.engine, 0, clock=VirtualClock())
        with pytest.raises(InstanceNotFound, match="does not exist"):
            await run._to_its_end(operations, InstanceKey("steps", "none"), HeldLog())  # pyright: ignore[reportPrivateUsage]
    assert caplog.records == []


class _Answering(Client):
    """An emulator that answers every look."""

    def detail(self, workflow: str, instance_id: str) -> Json:
        """Answer."""
        return {"status": "running"}


@pytest.mark.parametrize(
    ("clock", "rest_s"),
    [(VirtualClock, following.LOOK_EVERY_S), (_Jumping, REST_PER_LOOK * LOOK_MS / 1000)],
)
def test_follow_rests_the_longer_the_longer_it_takes_to_look(
    monkeypatch: pytest.MonkeyPatch, clock: type[VirtualClock], rest_s: float
) -> None:
    monkeypatch.setattr("emulator.timing.clock.SystemClock", clock)
    with _Answering("http://localhost") as client:
        _, rest = following._look(client, "steps", "one")  # pyright: ignore[reportPrivateUsage]
    assert rest == rest_s
