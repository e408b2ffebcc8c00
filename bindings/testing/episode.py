"""One run of a workflow under simulation: the real engine in virtual time, with what a plan lets happen to it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import msgspec

from bindings.ambient import hosting
from bindings.entrypoint import WorkflowEntrypoint, program_of
from bindings.host import EngineHost
from bindings.testing.recorder import CALLING, Call
from emulator.core.effects import Outcome
from emulator.core.inputs import EventSent
from emulator.domain.config import has_attempt_left
from emulator.domain.hooks import TokenKey
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.steps import StepKey
from emulator.engine.arrangements import Arrangements
from emulator.engine.engine import Engine
from emulator.engine.hooks import resume
from emulator.engine.programs import Program, RunEvent, WorkflowDefinition
from emulator.engine.step_code import AttemptContext, StepCode
from emulator.engine.steps import StepContext
from emulator.errors import EngineStopped, HookNotFoundError, InstanceFinished, NonRetryableError
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, StoredInstance
from emulator.testing.asking import Asked, ListeningContext, Place
from emulator.testing.clock import EPOCH_MS, LoopClock
from emulator.testing.faults import Crash, Fault, FaultKind, FaultyJournal, rest
from emulator.testing.replay import never, with_outputs

NAME: Final = "simulated"
KEY: Final = InstanceKey(NAME, "simulated")
LONGEST_S: Final = 400 * 86_400
"""How long a run may take, in virtual time; a workflow that goes on for ever is left then."""

_DOWNTIMES_MS: Final = (1, 1, 500, 30_000, 7_200_000)
_EVENT_DELAYS_MS: Final = (0, 0, 1_000, 60_000, 3_600_000, 90_000_000, 300_000_000)
_CALL_AGAIN_MS: Final = 60_000
_MOST_CALLS: Final = 1_000
_FATES: Final = {
    "succeed": 70,
    "fail first": 8,
    "fail after": 10,
    "time out": 9,
    "fail for good": 3,
}


class Sent(NamedTuple):
    """What is sent to the workflow: an event of a type, or a payload for the hook of a token."""

    name: str
    payload: msgspec.Raw
    is_payload: bool = False


class Subject(NamedTuple):
    """What is simulated. `anew` makes the workflow class as a new process would; params and payloads are stored values."""

    anew: Callable[[], type[WorkflowEntrypoint]]
    params: msgspec.Raw
    events: list[Sent]


class Plan(NamedTuple):
    """What happens in a run. `keeps`: nothing is unloaded at parks; else everything is, at once.

    `delays_ms` are those of the events, after the creation. Without `chaos` no attempt is made to fail.
    """

    seed: int
    faults: tuple[Fault, ...] = ()
    keeps: bool = True
    delays_ms: tuple[int, ...] = ()
    chaos: bool = False
    shift_ms: int = 0


def plan_of(seed: int, commits: int, events: int) -> Plan:
    """What a seed means for a workflow that commits so often when nobody disturbs it.

    The first ones go through every fault by itself: unloaded at every park; the process dies before, or after, each
    commit. Those that follow mix everything at random.
    """
    at_once = (0,) * events
    if seed == 0:
        return Plan(seed, keeps=False, delays_ms=at_once)
    if seed <= 2 * commits:
        kind = FaultKind.CRASH_BEFORE if seed % 2 else FaultKind.CRASH_AFTER
        return Plan(seed, (Fault(kind, (seed + 1) // 2, 1),), delays_ms=at_once)
    rng = random.Random(seed)  # noqa: S311 - no secret
    kinds = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER)
    faults = tuple(
        Fault(rng.choice(kinds), rng.randint(1, max(commits, 2)), rng.choice(_DOWNTIMES_MS))
        for _ in range(rng.randint(0, 4))
    )
    delays_ms = tuple(rng.choice(_EVENT_DELAYS_MS) for _ in range(events))
    return Plan(seed, faults, rng.random() < 0.3, delays_ms, chaos=True)


class Swallowed(NamedTuple):
    """Code that went on after its cancellation: where, and what it asked for; None if it just returned."""

    place: Place | None
    step: StepKey | None


class Episode:
    """One run. `play` may be called once; then the rest tells what there was to see."""

    def __init__(self, subject: Subject, plan: Plan, env: object) -> None:
        self.plan = plan
        self.commits = 0
        self.asked: list[Asked] = []
        self.swallowed: list[Swallowed] = []
        self._subject = subject
        self._env = env
        self._journal = MemoryJournal()
        self._numbers = count(1)
        self._is_created = False
        self._events = sorted(enumerate(plan.delays_ms), key=lambda each: each[1])

    async def play(self) -> StoredInstance:
        """Run it, one process after another, until the instance has ended or for `LONGEST_S`."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: None)  # dead processes have much to say
        for fault in (*self.plan.faults, None):
            if await self._process(fault) or fault is None:
                break
            await rest(fault.downtime_ms)
        stored = (await self._journal.load([KEY]))[KEY]
        assert isinstance(stored, StoredInstance)
        return await with_outputs(stored, self._journal)

    async def _process(self, fault: Fault | None) -> bool:
        """One process; whether the instance has ended in it, or its time is over."""
        journal = FaultyJournal(
            self._journal, (0,), fault, self._committed, lambda: None, lambda: None
        )
        clock = LoopClock(EPOCH_MS + self.plan.shift_ms)
        arrangements = Arrangements(replays="none" if self.plan.keeps else "all")
        engine = Engine(journal, clock, [self._definition()], max_live=0, arrangements=arrangements)
        await engine.start()
        with hosting(EngineHost(engine), asyncio.get_running_loop()):
            return await self._until_it_ends(engine)

    async def _until_it_ends(self, engine: Engine) -> bool:
        client = asyncio.ensure_future(self._client(engine))
        end = asyncio.ensure_future(engine.closed())
        try:
            await asyncio.wait_for(client, LONGEST_S)
        except EngineStopped:
            with suppress(Crash):
                await end
            return False
        except TimeoutError:
            pass
        with suppress(Crash):  # the fault may lie in wait for the last commit
            await engine.close()
            await end
        return True

    async def _committed(self, _: Commit) -> None:
        self.commits += 1

    def _definition(self) -> WorkflowDefinition:
        make = program_of(self._subject.anew(), SimpleNamespace(), self._env)
        return WorkflowDefinition(NAME, lambda: _Life(make(), self))

    async def _client(self, engine: Engine) -> None:
        """Create the instance, send the events when they are due, and wait for the end."""
        if not self._is_created:
            creation = Creation(NAME, KEY.id, self._subject.params, EPOCH_MS + self.plan.shift_ms)
            await engine.create([creation], may_be_taken=True)
            self._is_created = True
        loop = asyncio.get_running_loop()
        while self._events:
            place, delay_ms = self._events[0]
            await rest(delay_ms - round(loop.time() * 1000))
            await self._send(engine, self._subject.events[place], f"event-{place}")
            self._events.pop(0)
        await engine.until(KEY, lambda state: state.is_terminal or None)

    async def _send(self, engine: Engine, sent: Sent, name: str) -> None:
        """Send it, or let it be when the instance has ended."""
        if not sent.is_payload:
            with suppress(InstanceFinished):
                await engine.ask(KEY, EventSent(sent.name, sent.payload, name))
            return
        for _ in range(_MOST_CALLS):
            try:
                await resume(engine, TokenKey("", sent.name), sent.payload, name)
            except HookNotFoundError:
                # Not registered yet, or not any more: whoever has a payload calls again.
                if await engine.read(KEY, lambda state: state.is_terminal):
                    return
                await rest(_CALL_AGAIN_MS)
            else:
                return

    # what happens to attempts

    def fate(self, context: AttemptContext, *, in_thread: bool) -> str:
        """What becomes of an attempt."""
        if not self.plan.chaos:
            return "succeed"
        rng = random.Random(f"{self.plan.seed} {context.step.label} {context.attempt}")  # noqa: S311
        [fate] = rng.choices(list(_FATES), list(_FATES.values()))
        if fate == "time out" and in_thread:
            fate = "fail after"  # a thread cannot wait in virtual time
        if fate != "fail for good" and not has_attempt_left(context.config, context.attempt):
            fate = "succeed"
        return fate

    def calling(self, step: StepKey | None, *, rollback: bool = False) -> None:
        """Say who is calling, to whoever records effects in this task or thread."""
        label = None if step is None else f"rollback of {step.label}" if rollback else step.label
        CALLING.set(Call(label, next(self._numbers)))


class MadeToFail(RuntimeError):
    """What an attempt fails with that a simulation makes fail."""


def _before(fate: str) -> None:
    if fate == "fail first":
        raise MadeToFail("the simulation lets the attempt fail before it does anything")
    if fate == "fail for good":
        raise NonRetryableError("the simulation lets the step fail for good")


def _fail_after(fate: str) -> None:
    if fate == "fail after":
        raise MadeToFail("the simulation lets the attempt fail after it has done its work")


class _Life:
    """One incarnation of the workflow under simulation: its program, and the listener to what it asks."""

    def __init__(self, program: Program, episode: Episode) -> None:
        self._program = program
        self._episode = episode
        self._step: StepContext | None = None

    async def run(self, event: RunEvent, step: StepContext) -> object:
        self._step = step
        self._episode.calling(None)
        try:
            result = await self._program.run(event, ListeningContext(step, self))
        except Exception:
            self._note_end()
            raise
        self._note_end()
        return result

    def code(self, step: StepKey, code: StepCode, *, rollback: bool = False) -> StepCode:
        episode = self._episode

        def begin(told: Any) -> str:
            episode.calling(step, rollback=rollback)
            fate = "succeed" if rollback else episode.fate(told, in_thread=code.in_thread)
            _before(fate)
            return fate

        async def call(told: Any) -> object:
            fate = begin(told)
            value = code.callback(told)
            result = await value if inspect.isawaitable(value) else value
            _fail_after(fate)
            if fate == "time out":
                await never()
            return result

        def call_in_thread(told: Any) -> object:
            fate = begin(told)
            value = code.callback(told)
            _fail_after(fate)
            return value

        return msgspec.structs.replace(code, callback=call_in_thread if code.in_thread else call)

    async def asked(self, asked: Asked, hand_on: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self._episode.asked.append(asked)
        if self._is_cancelled and _goes_on(asked.place):
            self._episode.swallowed.append(Swallowed(asked.place, asked.step))
        return await hand_on()

    def opened(self, asked: Asked) -> bool:
        self._episode.asked.append(asked)
        return True

    @property
    def _is_cancelled(self) -> bool:
        # Not what the task says: before Python 3.13 a task group may leave it with a cancellation of its own.
        return self._step is not None and self._step.is_closed

    def _note_end(self) -> None:
        if self._is_cancelled:
            self._episode.swallowed.append(Swallowed(None, None))


def _goes_on(place: Place | None) -> bool:
    """Whether code that was cancelled takes it for something else, and does not just clean up in a `finally`."""
    if not isinstance(sys.exception(), asyncio.CancelledError):
        return True
    return place is not None and any(
        first <= place.line <= last for first, last in _handlers(place.file)
    )


@lru_cache(maxsize=64)
def _handlers(file: str) -> list[tuple[int, int]]:
    """The lines of the `except` clauses of a file, from first to last."""
    tree = ast.parse(Path(file).read_bytes(), file)
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
    ]
