"""The programs of the simulation: scripts drawn from a seed, and the workflow that performs one.

A script is a tree of what users write: steps, sleeps and waits; one after the other, in loops, side by side, in races;
failures that are caught or not, and code that will not be cancelled. It is replayable as users' code has to be: what it
does depends on nothing but its event and what its steps have answered. Names are unique to a place in the script; a
loop uses them again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.hooks import MinRetention
from emulator.domain.instance import InstanceKey
from emulator.domain.steps import StepKey
from emulator.engine.programs import RunEvent
from emulator.engine.step_code import AttemptContext, Compensation, RollbackCode, StepCode
from emulator.engine.steps import StepContext
from emulator.errors import HookConflictError, NonRetryableError, WorkflowTimeoutError
from emulator.testing.faults import rest
from emulator.testing.trace import Invoked, Trace

EVENT_TYPES = ("paid", "shipped")
TOKENS = ("order:1", "order:2", "order:3")

_SHORT_MS = (0, 1, 3, 40)
_LONG_MS = (0, 2, 700, 5_000, 11_000, 45_000, 180_000, 4_000_000)
_DEEPEST = 3


class Unstorable(NamedTuple):
    """What a step must not return."""


_ERRORS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("on purpose"),
    "ValueError": lambda: ValueError("on purpose"),
    "NonRetryableError": lambda: NonRetryableError("on purpose"),
    "CancelledError": asyncio.CancelledError,
    "SystemExit": lambda: SystemExit(3),
}


def _error(name: str) -> BaseException:
    return _ERRORS[name]()


@dataclass(frozen=True)
class Handler:
    """A rollback handler that fails so often before it succeeds."""

    fails: int
    limit: int
    takes_ms: int


@dataclass(frozen=True)
class Do:
    """A step whose first `fails` attempts fail; an attempt takes `takes_ms`. `inner` is a step inside its callback."""

    name: str
    fails: int = 0
    error: str = "RuntimeError"
    takes_ms: int = 0
    limit: int = 0
    delay_ms: int = 0
    timeout_ms: int = 600_000
    in_thread: bool = False
    handler: Handler | None = None
    inner: Do | None = None


@dataclass(frozen=True)
class Sleep:
    """A sleep for a duration, or with `until` to that long after the instance's creation."""

    name: str
    duration_ms: int
    until: bool = False


@dataclass(frozen=True)
class Wait:
    """A wait for an event."""

    name: str
    event_type: str
    timeout_ms: int


@dataclass(frozen=True)
class Hold:
    """A hook, from which so many payloads are taken; it is given up then, or left to the end."""

    name: str
    token: str | None
    retention_ms: int | None
    takes: int
    timeout_ms: int
    disposes: bool


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Loop:
    """The same so many times."""

    times: int
    body: Node


@dataclass(frozen=True)
class Parallel:
    """Side by side, in a task group or with `gather`, which lets the others go on when one fails."""

    parts: tuple[Node, ...]
    in_group: bool


@dataclass(frozen=True)
class Race:
    """The first to end wins, and a step named after it is taken. The losers are cancelled, or left to themselves."""

    name: str
    parts: tuple[Node, ...]
    cancels: bool


@dataclass(frozen=True)
class Caught:
    """Failures are caught; if it is `stubborn`, a cancellation too."""

    body: Node
    stubborn: bool


@dataclass(frozen=True)
class Fail:
    """`run()` raises."""

    error: str


Node = Do | Sleep | Wait | Hold | Sequence | Loop | Parallel | Race | Caught | Fail


@dataclass
class Stage:
    """Where scripts are performed: a process, and the world outside that remembers the calls of callbacks.

    `handled` counts the calls of rollback handlers, by instance and step, across all processes.
    """

    process: int
    trace: Trace
    handled: Counter[tuple[InstanceKey, StepKey]]


class Performer:
    """A workflow whose `run()` follows a script."""

    def __init__(self, script: Node, stage: Stage) -> None:
        self._script = script
        self._stage = stage

    async def run(self, event: RunEvent, step: StepContext) -> object:
        """Follow the script."""
        await _Performance(self._stage, event, step).play(self._script)
        return event.instance_id


@dataclass
class _Performance:
    """One incarnation of a script."""

    stage: Stage
    event: RunEvent
    step: StepContext
    _rounds: dict[str, int] = field(default_factory=dict[str, int])

    async def play(self, node: Node) -> None:
        match node:
            case Sequence(parts):
                for part in parts:
                    await self.play(part)
            case Loop(times, body):
                for _ in range(times):
                    await self.play(body)
            case Parallel(parts, in_group):
                await self._side_by_side([self.play(part) for part in parts], in_group=in_group)
            case Race():
                await self._race(node)
            case Caught():
                await self._catch(node)
            case Fail(error):
                raise _error(error)
            case _:
                await self._take(node)

    async def _take(self, node: Do | Sleep | Wait | Hold) -> None:
        match node:
            case Do():
                await self._do(node)
            case Sleep(name, duration_ms, until=True):
                await self.step.sleep_until(name, self.event.timestamp_ms + duration_ms)
            case Sleep(name, duration_ms):
                await self.step.sleep(name, duration_ms)
            case Wait(name, event_type, timeout_ms):
                await self.step.wait_for_event(name, event_type, timeout_ms)
            case Hold():
                await self._hold(node)

    async def _hold(self, node: Hold) -> None:
        retention = None if node.retention_ms is None else MinRetention(node.retention_ms)
        hook = self.step.create_hook(node.name, node.token, min_retention=retention)
        try:
            for _ in range(node.takes):
                await hook.receive(node.timeout_ms)
        except HookConflictError:
            await hook.owner()
        finally:
            if node.disposes:
                hook.dispose()

    async def _catch(self, node: Caught) -> None:
        try:
            await self.play(node.body)
        except BaseException as error:
            if not node.stubborn and not isinstance(error, Exception):
                raise

    async def _side_by_side(
        self, branches: list[Coroutine[Any, Any, None]], *, in_group: bool
    ) -> None:
        if in_group:
            async with asyncio.TaskGroup() as group:
                for branch in branches:
                    group.create_task(branch)
        else:
            await asyncio.gather(*branches)

    async def _race(self, race: Race) -> None:
        this_round = self._rounds[race.name] = self._rounds.get(race.name, 0) + 1
        runners = [asyncio.ensure_future(self.play(part)) for part in race.parts]
        await asyncio.wait(runners, return_when=asyncio.FIRST_COMPLETED)
        winner = next(place for place, runner in enumerate(runners) if runner.done())
        if race.cancels:
            for runner in runners:
                runner.cancel()
        await self._do(Do(winner_step(race.name, this_round, winner)))

    async def _do(self, node: Do) -> None:
        await self.step.do(node.name, self._code(node), _config(node), self._rollback(node.handler))

    async def _do_inside(self, inner: Do) -> None:
        try:
            await self._do(inner)
        except WorkflowTimeoutError as error:
            # Passed on, it would look like a timeout of the step round it.
            raise RuntimeError("the step inside timed out") from error

    def _code(self, node: Do) -> StepCode:
        def call_in_thread(context: AttemptContext) -> object:
            invoked = self._invoked(context)._replace(in_thread=True)
            loop.call_soon_threadsafe(self.stage.trace.add, invoked)
            return self._outcome(node, context)

        async def call(context: AttemptContext) -> object:
            self.stage.trace.add(self._invoked(context))
            await rest(node.takes_ms)
            if node.inner is not None:
                await self._do_inside(node.inner)
            return self._outcome(node, context)

        loop = asyncio.get_running_loop()
        return StepCode(call_in_thread, in_thread=True) if node.in_thread else StepCode(call)

    def _invoked(self, context: AttemptContext) -> Invoked:
        key = InstanceKey(self.event.workflow_name, self.event.instance_id)
        return Invoked(self.stage.process, key, context.step, context.attempt)

    def _outcome(self, node: Do, context: AttemptContext) -> object:
        if context.attempt > node.fails:
            return {"step": context.step.label, "attempt": context.attempt}
        if node.error in _ERRORS:
            raise _error(node.error)
        return Unstorable()

    def _rollback(self, handler: Handler | None) -> RollbackCode | None:
        if handler is None:
            return None

        async def compensate(compensation: Compensation) -> None:
            invoked = self._invoked(compensation.context)._replace(rollback=True)
            self.stage.trace.add(invoked)
            calls = self.stage.handled
            calls[invoked.key, invoked.step] += 1
            fails = calls[invoked.key, invoked.step] <= handler.fails
            await rest(handler.takes_ms)
            if fails:
                raise RuntimeError("on purpose")

        return RollbackCode(
            StepCode(compensate), StepConfig(RetryConfig(handler.limit, 900), "10 minutes")
        )


def winner_step(race: str, this_round: int, winner: int) -> str:
    """Name the step that follows a race. Each round of a race has one winner, in every replay."""
    return f"{race} round {this_round} won by {winner}"


def draw_script(rng: random.Random, *, threads: bool) -> Node:
    """Choose a script at random, with callbacks in threads or without."""
    parts = list(_Author(rng, threads).parts(rng.randint(1, 4)))
    if rng.random() < 0.25:
        parts.append(Fail(rng.choice(list(_ERRORS))))
    return Sequence(tuple(parts))


def with_hooks(script: Node, rng: random.Random) -> Node:
    """Add hooks to a script, one after the other with its parts, beside them, or in a race with them."""
    assert isinstance(script, Sequence)
    parts = list(script.parts)
    for number in range(rng.randint(1, 3)):
        hold = Hold(
            f"h{number}",
            rng.choice((None, *TOKENS)),
            rng.choice((None, None, 1, 50_000, 5_000_000)),
            rng.randint(0, 3),
            rng.choice((700, 5_000, 45_000, 4_000_000)),
            rng.random() < 0.4,
        )
        caught, place = Caught(hold, stubborn=False), rng.randrange(len(parts) + 1)
        rival = Sleep(f"h{number} nap", rng.choice(_LONG_MS))
        match rng.choice(("after", "race", "beside")):
            case "after":
                parts.insert(place, caught)
            case "race":
                runners = (caught, rival) if rng.random() < 0.5 else (hold, rival)
                race = Race(f"h{number} race", runners, cancels=rng.random() < 0.6)
                parts.insert(place, Caught(race, stubborn=False))
            case _:
                parts.insert(place, Parallel((caught, rival), in_group=rng.random() < 0.5))
    return Sequence(tuple(parts))


class _Author:
    """Writes a script. `depth` says how deep in the tree it is, `in_race` whether inside of a race."""

    def __init__(self, rng: random.Random, threads: bool) -> None:
        self._rng = rng
        self._threads = threads
        self._names = (f"n{number}" for number in count())

    def parts(self, many: int, depth: int = 0, *, in_race: bool = False) -> tuple[Node, ...]:
        return tuple(self._part(depth, in_race) for _ in range(many))

    def _part(self, depth: int, in_race: bool) -> Node:
        rng = self._rng
        if depth >= _DEEPEST or rng.random() < 0.5:
            return self._step(in_race)
        many, depth = rng.randint(2, 3), depth + 1
        match rng.choice(("sequence", "loop", "parallel", "race", "caught")):
            case "sequence":
                return Sequence(self.parts(many, depth, in_race=in_race))
            case "loop":
                return Loop(many, self._part(depth, in_race))
            case "parallel":
                parts = self.parts(many, depth, in_race=in_race)
                return Parallel(parts, in_group=rng.random() < 0.5)
            case "race":
                parts = self.parts(many, depth, in_race=True)
                return Race(next(self._names), parts, cancels=rng.random() < 0.6)
            case _:
                return Caught(self._part(depth, in_race), stubborn=rng.random() < 0.3)

    def _step(self, in_race: bool) -> Node:
        rng, name = self._rng, next(self._names)
        match rng.choice(("do", "do", "do", "sleep", "wait")):
            case "do":
                return self._do(name)
            case "sleep":
                # An instant that is past is refused, then and there and not in the order of the journal:
                # a race that hangs on it is no fair one.
                until = rng.random() < 0.3 and not in_race
                return Sleep(name, rng.choice(_LONG_MS) + until * 600_000, until)
            case _:
                return Wait(name, rng.choice(EVENT_TYPES), rng.choice(_LONG_MS))

    def _do(self, name: str) -> Do:
        rng = self._rng
        handler = Handler(rng.choice((0, 0, 0, 1, 2)), rng.randint(0, 2), rng.choice(_SHORT_MS))
        has_inner = rng.random() < 0.1
        return Do(
            name,
            fails=rng.choice((0, 0, 0, 1, 2, 5)),
            error=rng.choice((*_ERRORS, "Unstorable", "RuntimeError")),
            takes_ms=rng.choice((*_SHORT_MS, 2_000)),
            limit=rng.randint(0, 3),
            delay_ms=rng.choice(_LONG_MS),
            timeout_ms=rng.choice((1_000, 600_000, 600_000)),
            in_thread=self._threads and rng.random() < 0.1,
            handler=handler if rng.random() < 0.4 else None,
            inner=self._do(next(self._names)) if has_inner else None,
        )


def _config(node: Do) -> StepConfig:
    return StepConfig(RetryConfig(node.limit, node.delay_ms), node.timeout_ms)
