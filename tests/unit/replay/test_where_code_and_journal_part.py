"""A replay invokes nothing, and tells where today's code leaves the journal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bindings import WorkflowEntrypoint
from bindings.entrypoint import program_of
from emulator.core.evolve import fold
from emulator.core.inputs import EventSent
from emulator.domain import values
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.steps import StepKind
from emulator.engine.engine import Engine
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import StoredInstance
from emulator.testing.clock import EPOCH_MS, LoopClock
from emulator.testing.faults import rest
from emulator.testing.loop import run
from emulator.testing.replay import Divergence, Replay, Returned, RunFailed, divergence, replay

Run = Callable[[Any, Any], Any]
KEY = InstanceKey("order", "one")

called: list[str] = []


def definition(body: Run) -> WorkflowDefinition:
    class Made(WorkflowEntrypoint):
        async def run(self, event: Any, step: Any) -> Any:
            return await body(event, step)

    return WorkflowDefinition("order", program_of(Made, None, None))


def recorded(body: Run, *, after_ms: int = 1_000) -> StoredInstance:
    """The journal of an instance that has run for a while; the event "paid" has come."""

    async def play() -> StoredInstance:
        journal = MemoryJournal()
        engine = Engine(journal, LoopClock(), [definition(body)])
        await engine.start()
        creation = Creation(*KEY, values.encode({}, "params"), EPOCH_MS)
        await engine.create([creation], may_be_taken=True)
        await engine.ask(KEY, EventSent("paid"))
        await rest(after_ms)
        await engine.close()
        found = (await journal.load([KEY]))[KEY]
        assert isinstance(found, StoredInstance)
        return found

    return run(play())


def parted(stored: StoredInstance, body: Run) -> tuple[Divergence | None, Replay]:
    called.clear()
    replayed = run(replay(stored, definition(body)))
    assert called == [], "no step is invoked"
    return divergence(fold(stored.row.creation, stored.entries), replayed), replayed


def do(step: Any, name: str) -> Any:
    @step.do(name)
    async def work() -> str:
        called.append(name)
        return name

    return work()


async def original(event: Any, step: Any) -> Any:
    await do(step, "reserve")
    await step.wait_for_event("payment", "paid")
    await do(step, "ship")
    await step.sleep("on the road", "1 day")
    return await do(step, "close")


def line_of(function: Run, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_unchanged_code_goes_on_where_it_sleeps() -> None:
    stored = recorded(original)
    part, replayed = parted(stored, original)
    assert part is None
    assert [asked.step.name for asked in replayed.asked] == [
        "reserve",
        "payment",
        "ship",
        "on the road",
    ]
    assert replayed.end is None


def test_a_finished_instance_is_replayed_to_its_end() -> None:
    stored = recorded(original, after_ms=100_000_000)
    part, replayed = parted(stored, original)
    assert part is None
    assert replayed.end == Returned(values.encode("close", "the output"))


async def without_reserve(event: Any, step: Any) -> Any:
    await step.wait_for_event("payment", "paid")
    await do(step, "ship")


def test_a_removed_step_is_named_with_the_line_that_asks_for_another() -> None:
    part, _ = parted(recorded(original), without_reserve)
    assert part is not None
    assert part.expected is not None
    assert part.asked is not None
    assert part.expected.name == "reserve"
    assert (part.asked.step.kind, part.asked.step.name) == (StepKind.WAIT, "payment")
    assert part.asked.place == (str(Path(__file__)), line_of(without_reserve, "wait_for_event"))


async def with_another_name(event: Any, step: Any) -> Any:
    await do(step, "reserve")
    await step.wait_for_event("payment", "paid")
    await do(step, "dispatch")


def test_a_renamed_step_is_told_from_what_the_journal_has() -> None:
    part, _ = parted(recorded(original), with_another_name)
    assert part is not None
    assert part.expected is not None
    assert part.asked is not None
    assert (part.expected.name, part.asked.step.name) == ("ship", "dispatch")


async def with_a_step_in_a_step(event: Any, step: Any) -> Any:
    @step.do("outer")
    async def outer() -> Any:
        return [await do(step, "inner"), await step.sleep("pause", 10)]

    await outer()
    await step.sleep("on the road", "1 day")


async def while_the_outer_step_runs(event: Any, step: Any) -> Any:
    @step.do("outer")
    async def outer() -> Any:
        await do(step, "inner")
        await step.sleep("on the road", "1 minute")

    await outer()


async def with_another_name_at_the_side(event: Any, step: Any) -> Any:
    await asyncio.gather(do(step, "left"), do(step, "other"))
    await step.sleep("on the road", "1 day")


async def side_by_side(event: Any, step: Any) -> Any:
    await asyncio.gather(do(step, "left"), do(step, "right"))
    await step.sleep("on the road", "1 day")


def test_a_step_that_a_callback_has_asked_for_is_not_missed() -> None:
    for body, after_ms in (
        (with_a_step_in_a_step, 1_000),
        (with_a_step_in_a_step, 100_000_000),
        (while_the_outer_step_runs, 1_000),
    ):
        assert parted(recorded(body, after_ms=after_ms), body)[0] is None


def test_a_renamed_step_beside_another_one_is_told() -> None:
    part, _ = parted(recorded(side_by_side), with_another_name_at_the_side)
    assert part is not None
    assert part.expected is not None
    assert part.expected.name == "right"


async def without_the_sleep(event: Any, step: Any) -> Any:
    await do(step, "reserve")
    await step.wait_for_event("payment", "paid")
    await do(step, "ship")
    return await do(step, "close")


def test_the_sleep_in_which_it_lies_must_be_there_too() -> None:
    part, _ = parted(recorded(original), without_the_sleep)
    assert part is not None
    assert part.expected is not None
    assert part.expected.name == "on the road"


async def with_more_at_the_end(event: Any, step: Any) -> Any:
    await do(step, "reserve")
    await step.wait_for_event("payment", "paid")
    await do(step, "ship")
    await asyncio.gather(step.sleep("on the road", "1 day"), do(step, "notify"))


def test_a_new_step_after_all_that_is_recorded_is_no_divergence() -> None:
    part, replayed = parted(recorded(original), with_more_at_the_end)
    assert part is None
    assert replayed.asked[-1].step.name == "notify"


async def that_fails(event: Any, step: Any) -> Any:
    await do(step, "reserve")
    raise LookupError("no such thing")


def test_code_that_raises_is_told_with_its_line() -> None:
    part, _ = parted(recorded(original), that_fails)
    assert part is not None
    assert part.expected is not None
    assert part.expected.name == "payment"
    assert part.asked is None
    assert isinstance(part.end, RunFailed)
    assert part.end.error.name == "LookupError"
    assert part.end.place == (str(Path(__file__)), line_of(that_fails, "raise"))


async def that_fails_at_last(event: Any, step: Any) -> Any:
    await original(event, step)
    raise LookupError("no such thing")


def test_an_instance_that_had_failed_the_same_way_fits() -> None:
    stored = recorded(that_fails_at_last, after_ms=100_000_000)
    assert parted(stored, that_fails_at_last)[0] is None
    part, _ = parted(recorded(original, after_ms=100_000_000), that_fails_at_last)
    assert part is not None
    assert isinstance(part.end, RunFailed)


async def racing(event: Any, step: Any) -> Any:
    sleeping = asyncio.ensure_future(step.sleep("nap", "1 second"))
    waiting = asyncio.ensure_future(step.wait_for_event("payment", "paid"))
    done, _ = await asyncio.wait([sleeping, waiting], return_when=asyncio.FIRST_COMPLETED)
    await do(step, "woken by the event" if waiting in done else "woken by the nap")
    await sleeping


def test_a_race_has_the_same_winner_in_a_replay() -> None:
    stored = recorded(racing, after_ms=5_000)
    assert parted(stored, racing)[0] is None
