"""`simulate`: run a workflow with every crash there can be, and say what would break in production.

Theory of operation
===================
A workflow survives crashes if `run()` is a function of its event and of what its steps have returned, and if what its
callbacks do may be done twice. Both can be tried.

- *Runs.* Each seed is a run in virtual time (see `episode.plan_of`). What the fakes in `env` are told is recorded: an
  effect that two attempts of a step, or two lives of `run()`, have both had, without an idempotency key, is a finding.
- *Replays.* The journal of each run is replayed with another time, other random numbers and other orders of sets: the
  code has to ask for the same steps and come to the same end. If it does not, replays that differ in one of these alone
  tell which one it was; if it was none, the code keeps something that a new life does not have.
- *Comparison.* Where a crash comes between attempts, every callback has been called as often as in the undisturbed run.
  Then every result has to be the same, save those that are not even the same in two undisturbed runs.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import re
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from bindings.ambient import hosting
from bindings.entrypoint import WorkflowEntrypoint, program_of
from bindings.host import EngineHost
from bindings.testing.comparing import (
    attempts_of,
    bare_durations,
    behaviour,
    difference,
    fits,
    result_of,
    same_results,
    shown,
    was_interrupted,
    went_the_same_way,
)
from bindings.testing.episode import NAME, Episode, Plan, Sent, Subject, plan_of
from bindings.testing.findings import Finding, Report
from bindings.testing.recorder import Effect, GivenEnv, Recorder, WatchedEnv, repeated
from bindings.testing.surroundings import anew, simulated_clock, surroundings
from emulator.core.evolve import fold
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.duration import looks_like_seconds
from emulator.domain.hooks import check_token
from emulator.domain.steps import StepKey
from emulator.engine.engine import Engine
from emulator.engine.frames import is_the_users
from emulator.engine.programs import WorkflowDefinition
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import StoredInstance
from emulator.testing.asking import Place
from emulator.testing.clock import EPOCH_MS, LoopClock
from emulator.testing.loop import VirtualLoop, run
from emulator.testing.replay import Replay, replay

_HOUR_MS: Final = 3_600_000
_SHIFTS_MS: Final = (-1_000, 7 * _HOUR_MS + 781_000, 36 * _HOUR_MS + 2_001, 4_812 * _HOUR_MS + 7)
_CHANCES: Final = (2, 3, 4)
_ORDERS: Final = (1, 2, 3, 4)
_ONE_AT_A_TIME: Final = threading.Lock()  # clock and chance are the whole process's
_is_simulating: ContextVar[bool] = ContextVar("is_simulating", default=False)
_NEVER_AWAITED: Final = re.compile(r"coroutine '(.*)' was never awaited")


def simulate(
    workflow: type[WorkflowEntrypoint],
    *,
    params: Any = None,
    events: Sequence[tuple[str, Any]] = (),
    payloads: Sequence[tuple[str, Any]] = (),
    env: Any = None,
    recorder: Recorder | None = None,
    seeds: int | Iterable[int] = 200,
) -> Report:
    """Run a workflow with crashes, unloading, failing attempts and events that come early or late; report what breaks.

    `params` is `event["payload"]` (default: `{}`); `events` are types and payloads, sent in this order, and
    `payloads` tokens of hooks and what is sent through them, after the events. `env` is an
    object, a dictionary, or a function that makes one for every run (fakes remember: a function keeps runs apart). Calls
    of its fakes that are named like side effects (`recorder.EFFECTS`) are taken for such, unless `recorder` is given: then
    the fakes tell it of them. `seeds` are how many, or which: `seeds=[17]` repeats one run.

    Works with and without a running event loop. A service that `env` stands for outlives the crashes.

    Raises:
        RuntimeError: it is called by the workflow's module itself, which it runs again.
    """
    if _is_simulating.get():
        raise RuntimeError(
            "simulate() is called while it runs: it runs the module of the workflow again, and with it this call. "
            'Put the call into a function, or below `if __name__ == "__main__":`.'
        )
    given = _Given(env, recorder)
    stored = values.encode({} if params is None else params, "params")
    sent = [Sent(kind, values.encode(payload, f"the event {kind}")) for kind, payload in events]
    sent += [
        Sent(
            check_token(token), values.encode(payload, f"the payload for {token}"), is_payload=True
        )
        for token, payload in payloads
    ]
    subject = Subject(anew(workflow), stored, sent)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    work = partial(_simulate, workflow.__name__, subject, given, chosen)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def assert_replayable(workflow: type[WorkflowEntrypoint], **options: Any) -> None:
    """Simulate a workflow, and fail the test if anything is found. Takes what `simulate` takes.

    Raises:
        AssertionError: the report.
    """
    report = simulate(workflow, **options)
    if report.findings:
        raise AssertionError(str(report))


class _Given(NamedTuple):
    """What the user has given as `env`, and as recorder."""

    env: Any
    recorder: Recorder | None

    def make(self) -> tuple[object, Recorder]:
        """The `env` of a run, and who records what happens in it."""
        made: object = self.env
        if inspect.isroutine(made) or isinstance(made, type | partial):
            made = self.env()
        if isinstance(made, Mapping) or made is None:
            made = GivenEnv(cast("Mapping[str, object] | None", made) or {})
        if self.recorder is not None:
            self.recorder.effects.clear()
            return made, self.recorder
        recorder = Recorder()
        return WatchedEnv(made, recorder), recorder


def _simulate(name: str, subject: Subject, given: _Given, seeds: Iterable[int]) -> Report:
    with _ONE_AT_A_TIME, simulated_clock(), _silence():
        return copy_context().run(_within, _Simulation(name, subject, given), seeds)


def _within(simulation: _Simulation, seeds: Iterable[int]) -> Report:
    _is_simulating.set(True)
    return simulation.run(seeds)


@contextmanager
def _silence() -> Generator[None]:
    """Keep the emulator from logging what a simulation does on purpose."""
    log = logging.getLogger("workflow_emulator")

    def drop(_: logging.LogRecord) -> bool:
        return False

    log.addFilter(drop)
    try:
        yield
    finally:
        log.removeFilter(drop)


@contextmanager
def _warnings_of_the_forgotten() -> Generator[list[warnings.WarningMessage]]:
    """Collect what Python says of coroutines that nobody awaited; other warnings are given afterwards."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.filterwarnings("always", "coroutine '.*' was never awaited", RuntimeWarning)
        yield warned
        gc.collect()
    for each in warned:
        if not _NEVER_AWAITED.search(str(each.message)):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


class _Played(NamedTuple):
    """A run that is over."""

    episode: Episode
    stored: StoredInstance
    state: InstanceState
    effects: list[Effect]


class _Simulation:
    """All the runs of one workflow."""

    def __init__(self, name: str, subject: Subject, given: _Given) -> None:
        self._subject = subject
        self._given = given
        self._report = Report(name)

    def run(self, seeds: Iterable[int]) -> Report:
        """Run the workflow undisturbed, and then with each seed."""
        at_once = (0,) * len(self._subject.events)
        with _warnings_of_the_forgotten() as forgotten:
            undisturbed = self._play(Plan(0, delays_ms=at_once), chance=0)
            self._report.failure = _failure(undisturbed.state)
            gc.collect()
            self._look_at_forgotten(forgotten)
            self._run_seeds(seeds, undisturbed)
        return self._report

    def _run_seeds(self, seeds: Iterable[int], undisturbed: _Played) -> None:
        at_once = undisturbed.episode.plan.delays_ms
        self._look_at_durations(undisturbed)
        self._replay(undisturbed, thoroughly=True)
        shift_ms = _SHIFTS_MS[-1]
        other = self._play(Plan(0, delays_ms=at_once, shift_ms=shift_ms), chance=1, order=1)
        stable = same_results(undisturbed.state, other.state)
        for seed in seeds:
            self._report.runs += 1
            plan = plan_of(seed, undisturbed.episode.commits, len(at_once))
            played = self._play(plan, chance=seed + 2)
            self._look_at(played, undisturbed, stable)

    def _play(self, plan: Plan, chance: int, order: int | None = None) -> _Played:
        env, recorder = self._given.make()
        episode = Episode(self._subject, plan, env)

        async def play() -> StoredInstance:
            with surroundings(_virtual_time(plan.shift_ms), chance, order):
                return await episode.play()

        stored = run(play(), seed=plan.seed, begins_in_order=True)
        state = fold(stored.row.creation, stored.entries)
        return _Played(episode, stored, state, list(recorder.effects))

    # what one run shows

    def _look_at(self, played: _Played, undisturbed: _Played, stable: set[StepKey | None]) -> None:
        self._look_at_effects(played)
        self._look_at_cancellations(played)
        if not went_the_same_way(played.state, undisturbed.state):
            self._replay(played)  # else it would tell what the undisturbed run's has told
        if not played.state.is_terminal and not played.state.open:
            sentence = "the workflow waits for something that is no step, no sleep and no event, and that never comes"
            self._find("never-ends", None, sentence, played)
        elif not self._report.has(*_CAUSES) and not played.episode.plan.chaos:
            self._compare(played, undisturbed, stable)

    def _find(
        self, code: str, place: Place | None, sentence: str, played: _Played, subject: object = None
    ) -> None:
        self._report.add(Finding(code, place, sentence, played.episode.plan.seed), subject)

    def _look_at_forgotten(self, warned: list[warnings.WarningMessage]) -> None:
        for each in warned:
            match = _NEVER_AWAITED.search(str(each.message))
            if match is not None:
                # Where it is the user's; else it is where the coroutine was cleared away.
                is_known = is_the_users(each.filename)
                place = Place(each.filename, each.lineno) if is_known else None
                sentence = f'"{match[1]}" is called and not awaited, so it never runs'
                self._report.add(Finding("not-awaited", place, sentence, 0), match[1])

    def _look_at_durations(self, played: _Played) -> None:
        for asked in played.episode.asked:
            for what, duration in bare_durations(asked):
                if looks_like_seconds(duration):
                    sentence = f'the {what} of "{asked.step.name}" is {duration} milliseconds'
                    self._find("looks-like-seconds", asked.place, sentence, played, asked.step.name)

    def _look_at_effects(self, played: _Played) -> None:
        places = {asked.step.label: asked.place for asked in played.episode.asked}
        for code, step, name, sentence in repeated(played.effects):
            self._find(code, places.get(step or ""), sentence, played, name)

    def _look_at_cancellations(self, played: _Played) -> None:
        for place, step in played.episode.swallowed:
            did = f'asked for "{step.name}"' if step else "ended as if nothing had happened"
            sentence = f"when it was cancelled, to be unloaded or stopped, the code {did}"
            self._find("swallows-cancellation", place, sentence, played)

    def _compare(self, played: _Played, undisturbed: _Played, stable: set[StepKey | None]) -> None:
        attempts, as_often = attempts_of(played.state), attempts_of(undisturbed.state)
        if was_interrupted(played.stored) or attempts != as_often:
            return
        differ = stable - same_results(played.state, undisturbed.state)
        for step in (*undisturbed.state.steps, None):
            if step not in differ:
                continue
            what = f'the result of "{step.label}"' if step else "the output"
            sentence = (
                f"{what} is {shown(result_of(played.state, step))} when the code is unloaded or its process dies, "
                f"and {shown(result_of(undisturbed.state, step))} when not"
            )
            self._find("crash-changes-result", None, sentence, played)

    # replays

    def _replay(self, played: _Played, *, thoroughly: bool = False) -> None:
        state, seed = played.state, played.episode.plan.seed
        if not state.is_terminal:
            return
        if self._report.has(*_CAUSES):
            return  # the first is enough to mend the code
        again = partial(self._replayed, played.stored)
        changed = again(_HOUR_MS * (seed * 5 + 1) + seed * 1_037, seed + 5, seed)
        if not thoroughly and fits(state, changed):
            return
        plain = again()
        for code, offending in _causes(state, plain, again):
            rival = offending if not fits(state, offending) else plain
            place, sentence = difference(state, rival)
            self._find(code, place, f"{_CAUSES[code]}, {sentence}", played)

    def _replayed(
        self, stored: StoredInstance, shift_ms: int = 0, chance: int = 1, order: int | None = None
    ) -> Replay:
        env, _ = self._given.make()
        definition = WorkflowDefinition(
            NAME, program_of(self._subject.anew(), SimpleNamespace(), env)
        )
        now_ms = stored.row.modified_ms + shift_ms

        async def play() -> Replay:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
            # What names no binding (`set_attributes`, `webhook.url`) means somebody, as in the run. No step is invoked, so
            # nothing is asked of him.
            host = EngineHost(Engine(MemoryJournal(), LoopClock(now_ms), []))
            with (
                hosting(host, asyncio.get_running_loop()),
                surroundings(lambda: now_ms, chance, order),
            ):
                return await replay(stored, definition, now_ms=now_ms)

        return run(play())


_CAUSES: Final = {
    "depends-on-chance": "replayed with other random numbers",
    "depends-on-clock": "replayed at another time",
    "depends-on-set-order": "replayed with its sets in another order",
    "state-outside-steps": "replayed in a new life, with the same results of all steps",
}


def _failure(state: InstanceState) -> str | None:
    """What keeps a workflow from its result."""
    if state.error is not None:
        return state.error.text
    waiting = next(iter(state.open), None)
    return None if waiting is None else f'it does not end, for "{waiting.label}" waits'


def _causes(
    state: InstanceState, plain: Replay, again: Callable[..., Replay]
) -> list[tuple[str, Replay]]:
    """What a workflow depends on, each with a replay that came out otherwise than the `plain` one because of it."""

    def others(replays: Iterable[Replay]) -> list[Replay]:
        return [each for each in replays if behaviour(each) != behaviour(plain)][:1]

    if found := others(
        [again()]
    ):  # chance that no seed rules, such as uuid4: nothing more can be told
        return [("depends-on-chance", found[0])]
    found = [
        *(("depends-on-chance", each) for each in others(again(chance=seed) for seed in _CHANCES)),
        *(("depends-on-clock", each) for each in others(again(shift) for shift in _SHIFTS_MS)),
        *(("depends-on-set-order", each) for each in others(again(order=n) for n in _ORDERS)),
    ]
    if not found and not fits(state, plain):
        return [("state-outside-steps", plain)]
    return found


def _virtual_time(shift_ms: int) -> Callable[[], int]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return lambda: EPOCH_MS + shift_ms + round(loop.time() * 1000)
