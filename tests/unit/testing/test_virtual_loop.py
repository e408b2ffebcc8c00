"""The virtual loop: jumping time, honest deadlocks, real threads, seeded interleavings."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

import pytest

from emulator.testing.loop import DeadlockError, VirtualLoop, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DAY_S = 86_400


def running_loop() -> VirtualLoop:
    return cast("VirtualLoop", asyncio.get_running_loop())


def test_time_starts_at_zero_and_a_year_passes_at_once() -> None:
    async def main() -> tuple[float, float]:
        before = running_loop().time()
        await asyncio.sleep(365 * DAY_S)
        return before, running_loop().time()

    assert run(main()) == (0, 365 * DAY_S)


def test_deadlines_of_a_century_do_not_spin() -> None:
    turns = 0

    async def main() -> float:
        nonlocal turns
        for _ in range(100):
            turns += 1
            await asyncio.sleep(365 * DAY_S + 0.001)
        return running_loop().time()

    assert run(main()) == pytest.approx(100 * (365 * DAY_S + 0.001), abs=1e-5)
    assert turns == 100


def test_scheduled_calls_go_by_time_and_see_their_own_time() -> None:
    async def main() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []
        loop = running_loop()
        for name, delay_s in (("b", 2.5), ("a", 0.001), ("c", 30 * DAY_S)):
            loop.call_later(delay_s, lambda name=name: seen.append((name, loop.time())))
        await asyncio.sleep(31 * DAY_S)
        return seen

    assert run(main()) == [("a", 0.001), ("b", 2.5), ("c", 30 * DAY_S)]


def test_a_timeout_in_virtual_time_ends_a_wait_that_never_would() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=365 * DAY_S)
        return running_loop().time()

    assert run(main()) == 365 * DAY_S


def test_waiting_for_nothing_is_a_deadlock_that_names_who_waits() -> None:
    async def wait_in_vain() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(wait_in_vain(), name="the patient one")

    with pytest.raises(DeadlockError, match=r"the patient one .*wait_in_vain"):
        run(main())


def test_a_deadlock_while_cleaning_up_after_a_deadlock_is_no_hang() -> None:
    async def main() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError):
        run(main())


def test_run_cancels_tasks_and_closes_generators_that_are_left() -> None:
    ended: list[str] = []

    async def stay() -> None:
        try:
            await asyncio.sleep(DAY_S)
        finally:
            ended.append("task")

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("generator")

    left: list[object] = []

    async def main() -> VirtualLoop:
        left.append(asyncio.create_task(stay()))
        generator = numbers()
        left.append(generator)
        await anext(generator)
        return running_loop()

    loop = run(main())
    assert sorted(ended) == ["generator", "task"]
    assert loop.is_closed()


def test_work_in_the_executor_really_waits_while_time_stands() -> None:
    proceed = threading.Event()

    def work() -> str:
        proceed.wait()
        return "done"

    async def main() -> tuple[str, float]:
        loop = running_loop()
        ticking = loop.call_later(1000, proceed.set)  # would come first if time could jump
        job = loop.run_in_executor(None, work)
        threading.Timer(0.02, proceed.set).start()
        result = await job
        ticking.cancel()
        return result, loop.time()

    assert run(main()) == ("done", 0)


def test_held_work_of_a_thread_really_waits_while_time_stands() -> None:
    async def main() -> tuple[str, float]:
        loop = running_loop()
        reply: asyncio.Future[str] = loop.create_future()
        thread = threading.Timer(0.02, loop.call_soon_threadsafe, (reply.set_result, "done"))
        loop.call_later(1000, reply.cancel)
        with loop.hold():
            thread.start()
            return await reply, loop.time()

    assert run(main()) == ("done", 0)


def test_a_hold_that_a_thread_gives_up_lets_time_go_on() -> None:
    async def main() -> float:
        loop = running_loop()
        held = threading.Event()

        def work(release: threading.Event) -> None:
            with loop.hold():
                held.set()
                release.wait()

        release = threading.Event()
        thread = threading.Thread(target=work, args=(release,))
        thread.start()
        held.wait()
        loop.call_soon(release.set)
        await asyncio.sleep(DAY_S)
        thread.join()
        return loop.time()

    assert run(main()) == DAY_S


def test_reports_of_threads_are_heard_one_by_one_when_nothing_else_is_ready() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = running_loop()

        def report() -> None:
            loop.call_soon_threadsafe(seen.append, "first report")
            loop.call_soon_threadsafe(seen.append, "second report")

        async def stay_busy() -> None:
            for turn in range(3):
                seen.append(f"busy {turn}")
                await asyncio.sleep(0)

        thread = threading.Thread(target=report)
        thread.start()
        thread.join()  # the reports are in, and must wait all the same
        await stay_busy()
        loop.call_soon(seen.append, "last of the turn")
        await asyncio.sleep(1)
        return seen

    expected = ["busy 0", "busy 1", "busy 2", "last of the turn", "first report", "second report"]
    assert run(main()) == expected


def test_a_report_that_was_cancelled_is_not_heard() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = running_loop()
        handles: list[asyncio.Handle] = []
        thread = threading.Thread(
            target=lambda: handles.append(loop.call_soon_threadsafe(seen.append, "report"))
        )
        thread.start()
        thread.join()
        handles[0].cancel()
        await asyncio.sleep(1)
        return seen

    assert run(main()) == []


def test_a_closed_loop_takes_no_reports() -> None:
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon_threadsafe(print)


async def interleave(workers: int = 4, steps: int = 5) -> list[tuple[int, int]]:
    trace: list[tuple[int, int]] = []

    async def work(worker: int) -> None:
        for step in range(steps):
            trace.append((worker, step))
            await asyncio.sleep(0 if step % 2 else 0.5)

    await asyncio.gather(*(work(worker) for worker in range(workers)))
    return trace


def test_one_seed_gives_one_interleaving() -> None:
    for seed in range(10):
        assert run(interleave(), seed=seed) == run(interleave(), seed=seed)


def test_seeds_differ_in_their_interleavings() -> None:
    traces = {tuple(run(interleave(), seed=seed)) for seed in range(30)}
    assert len(traces) == 30


def test_without_a_seed_tasks_run_in_the_order_in_which_they_became_ready() -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        async def work(number: int) -> None:
            seen.append(number)

        await asyncio.gather(*(work(number) for number in range(20)))
        return seen

    async def go_on() -> list[int]:
        seen: list[int] = []
        gate = asyncio.Event()

        async def work(number: int) -> None:
            await gate.wait()
            seen.append(number)

        works = [asyncio.ensure_future(work(number)) for number in range(20)]
        await asyncio.sleep(1)
        gate.set()
        await asyncio.wait(works)
        return seen

    in_order = list(range(20))
    assert run(main()) == run(go_on()) == in_order
    assert run(main(), seed=1) != in_order
    assert run(main(), seed=1, begins_in_order=True) == in_order
    assert run(go_on(), seed=1, begins_in_order=True) != in_order


def test_a_seed_leaves_plain_callbacks_first_in_first_out() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(5)]
        for number in range(20):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.gather(*tasks)
        return seen

    for seed in range(10):
        assert run(main(), seed=seed) == list(range(20))


def test_a_seeded_run_with_a_busy_thread_repeats_exactly() -> None:
    async def main() -> list[str]:
        trace: list[str] = []
        loop = running_loop()

        async def work(name: str) -> None:
            for step in range(3):
                await asyncio.sleep(0.1)
                async with one_at_a_time:
                    await loop.run_in_executor(None, trace.append, f"{name}{step} in thread")
                trace.append(f"{name}{step} on loop")

        one_at_a_time = asyncio.Lock()
        await asyncio.gather(*(work(name) for name in "abcd"))
        return trace

    trace = run(main(), seed=7)
    for _ in range(20):
        assert run(main(), seed=7) == trace
    assert run(main(), seed=8) != trace
