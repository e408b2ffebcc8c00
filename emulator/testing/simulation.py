"""Simulation by seed: the real engine, in virtual time, with clients, crashes and a bad disk, held against the laws.

Theory of operation
===================
A seed decides everything: the scripts of the workflows, what clients do and when, how processes end, how slow the disk
is, how the clock jumps, and the order in which ready tasks run. So a failing seed replays exactly.

A simulation has two halves. In the first, clients work while one process after another meets its fault. In the second,
all is well: paused instances are resumed, time passes, and everything must come to its end. The laws of a moment are
asked at every commit, the laws of the whole trace at the end (see `laws`).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from emulator.core.evolve import fold
from emulator.core.inputs import (
    DeleteRequested,
    EventSent,
    Input,
    PauseRequested,
    RestartRequested,
    ResumeRequested,
    TerminateRequested,
)
from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.hooks import HookRequest, MinRetention, TokenKey
from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.limits import DEFAULT_RETENTION_MS
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey
from emulator.engine.engine import Engine
from emulator.engine.hooks import resume
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.turn import Claim
from emulator.errors import EmulatorError, EngineStopped, StorageError
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import (
    Commit,
    HookQuery,
    InstanceQuery,
    InstanceRow,
    Journal,
    StoredInstance,
)
from emulator.journal.sqlite import SqliteJournal
from emulator.testing.clock import EPOCH_MS, LoopClock
from emulator.testing.faults import Crash, Fault, FaultPlan, FaultyJournal, holding, rest
from emulator.testing.laws import answers, hooks, instances, moments, steps
from emulator.testing.laws.breach import LawBroken
from emulator.testing.loop import run
from emulator.testing.scripts import (
    EVENT_TYPES,
    TOKENS,
    Performer,
    Stage,
    draw_script,
    with_hooks,
)
from emulator.testing.trace import (
    Answered,
    Asked,
    CommitReturned,
    Committed,
    ProcessEnded,
    ProcessStarted,
    Trace,
)

_RESTS_MS = (0, 0, 0, 1, 2, 30, 6_000, 70_000, 4_000_000)
_SKEWS_MS = (-4_000_000, -2_000, 1_500, 100_000, 10_000_000)
_RETENTIONS_MS = (1, 5_000, 3_600_000, DEFAULT_RETENTION_MS)
_FAR_FUTURE_MS = 2**53
_ALL = 1_000_000
_LONG_REST_MS = 86_400_000
_LONG_RESTS = 40
_FAULTLESS_S = 40 * 86_400


LAWS = (
    steps.once,
    steps.attempt,
    steps.patience,
    instances.progress,
    instances.closure,
    instances.retention,
    instances.order,
    instances.quiet,
    instances.rollback,
    instances.replay,
    answers.acknowledged,
    hooks.owner,
    hooks.payloads,
    hooks.answered,
)
"""The laws about a whole trace."""


class SimulationFailed(AssertionError):
    """A simulation broke a law; the message has the seed and the line that replays it."""


class _OpenEngine(Engine):
    """The engine, whose live states the laws may look at."""

    def live_states(self) -> dict[int, InstanceState]:
        return {actor.number: actor.state for actor in self._actors.values()}


class Simulation:
    """One run, decided by its seed.

    `plan`, `scripts` and the other attributes are drawn at once, so that they can be shown; `run` may be called once.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace = Trace()
        rng = self._rng = random.Random(seed)  # noqa: S311  no secret
        self.plan = FaultPlan.draw(rng)
        self.uses_sqlite = rng.random() < 0.25
        # SQLite has a thread of its own, and two that race repeat nothing.
        many = rng.randint(2, 5)
        self.scripts = [draw_script(rng, threads=not self.uses_sqlite) for _ in range(many)]
        self.limits = {f"w{place}": rng.choice((None, None, 1, 2)) for place in range(many)}
        self.max_live = rng.choice((0, 1, 3, 1_000))
        # Of its own, so that the rest of a seed is what it was.
        self.retention_ms = random.Random(f"retention {seed}").choice(_RETENTIONS_MS)  # noqa: S311
        hook_rng = random.Random(f"hooks {seed}")  # noqa: S311
        self.has_hooks = hook_rng.random() < 0.25
        if self.has_hooks:
            self.scripts = [with_hooks(script, hook_rng) for script in self.scripts]
        self._journal: Journal = SqliteJournal(":memory:") if self.uses_sqlite else MemoryJournal()
        self._stage = Stage(0, self.trace, Counter())
        self._shown: dict[int, InstanceRow] = {}
        self._skew_ms = 0
        self._clock = LoopClock()
        self._engine: _OpenEngine | None = None
        self._is_up = asyncio.Event()
        self._calls = itertools.count(1)
        self._broken: BaseException | None = None

    def run(self) -> Trace:
        """Run it and hold it against all laws.

        Raises:
            SimulationFailed: a law is broken, or something failed that should not.
        """
        try:
            run(self._play(), seed=self.seed)
            if self._broken is not None:
                raise self._broken
            for law in LAWS:
                law(self.trace)
        except Exception as error:
            raise SimulationFailed(f"{type(error).__name__}: {error}\n{self}") from error
        return self.trace

    def __str__(self) -> str:
        return (
            f"seed={self.seed} faults={[tuple(fault) for fault in self.plan.faults]}\n"
            f"replay: python -m pytest tests/simulation --seed={self.seed}"
        )

    # the two halves

    async def _play(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._hear_of_exception)
        with holding():
            await self._journal.open()
        processes = asyncio.create_task(self._processes())
        clients = [
            asyncio.create_task(self._client(random.Random(self._rng.random())))  # noqa: S311
            for _ in range(self._rng.randint(2, 5))
        ]
        if self.has_hooks:
            hook_rng = random.Random(f"hook clients {self.seed}")  # noqa: S311
            clients += [
                asyncio.create_task(self._hook_client(random.Random(hook_rng.random())))  # noqa: S311
                for _ in range(hook_rng.randint(1, 2))
            ]
        await asyncio.wait([processes, *clients], return_when=asyncio.FIRST_EXCEPTION)
        for client in clients:
            if client.done():
                await client
            client.cancel()
        engine = await processes
        await self._settle(engine)
        await engine.close()
        with holding():
            await self._journal.close()

    async def _processes(self) -> _OpenEngine:
        """One process after another meets its fault; the last one meets none."""
        for fault in self.plan.faults:
            engine = await self._start(fault)
            how = await self._end_of(engine)
            self._is_up.clear()
            self._down.set_result(None)
            self.trace.add(ProcessEnded(self._stage.process, how))
            await rest(fault.downtime_ms)
            if self._rng.random() < 0.5:
                self._skew_ms += self._rng.choice(_SKEWS_MS)
        return await self._start(None)

    async def _start(self, fault: Fault | None) -> _OpenEngine:
        self._stage = Stage(self._stage.process + 1, self.trace, self._stage.handled)
        self._clock = LoopClock(EPOCH_MS + self._skew_ms)
        reload = asyncio.Event()
        journal = FaultyJournal(
            self._journal, self.plan.delays_ms, fault, self._committed, self._returning, reload.set
        )
        engine = _OpenEngine(
            journal, self._clock, self._definitions(self._stage), max_live=self.max_live
        )
        self._engine = engine
        self.trace.add(ProcessStarted(self._stage.process))
        await engine.start()
        self._reload = reload
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_up.set()
        return engine

    def _definitions(self, stage: Stage) -> Iterable[WorkflowDefinition]:
        for (name, limit), script in zip(self.limits.items(), self.scripts, strict=True):
            yield WorkflowDefinition(
                name,
                lambda script=script: Performer(script, stage),
                concurrency_limit=limit,
                success_retention_ms=self.retention_ms,
                error_retention_ms=self.retention_ms,
            )

    async def _end_of(self, engine: Engine) -> str:
        """Wait until the process ends; one whose fault never comes, because nothing happens, is killed in time."""
        end = asyncio.ensure_future(engine.closed())
        reload = asyncio.ensure_future(self._reload.wait())
        await asyncio.wait([end, reload], return_when=asyncio.FIRST_COMPLETED, timeout=_FAULTLESS_S)
        if not end.done():
            reload.cancel()
            await engine.close()
            await end
            return "closed"
        reload.cancel()
        try:
            await end
        except Crash:
            return "crash"
        except EngineStopped as error:
            if not isinstance(error.__cause__, StorageError):
                raise
            return "full"
        return "closed"

    async def _settle(self, engine: Engine) -> None:
        """Let everything come to its end."""
        for _ in range(_LONG_RESTS):
            rows = await self._rows()
            if all(row.status in TERMINAL for row in rows):
                return
            for row in rows:
                if row.status is InstanceStatus.PAUSED:
                    await engine.ask(row.creation.key, ResumeRequested())
            await rest(_LONG_REST_MS)

    # clients

    async def _client(self, rng: random.Random) -> None:
        for _ in range(rng.randint(3, 12)):
            await rest(rng.choice(_RESTS_MS))
            await self._is_up.wait()
            if rng.random() < 0.08:
                self._jump(rng.choice(_SKEWS_MS))
            key = InstanceKey(rng.choice(list(self.limits)), f"i{rng.randint(0, 2)}")
            await self._act(rng, key)

    async def _hook_client(self, rng: random.Random) -> None:
        """Somebody who knows tokens: starts with them, and sends payloads."""
        for _ in range(rng.randint(3, 10)):
            await rest(rng.choice(_RESTS_MS))
            await self._is_up.wait()
            engine = self._engine
            assert engine is not None
            token = rng.choice(TOKENS)
            match rng.choice(("start", "start", "send", "send", "send", "restart")):
                case "start":
                    await self._start_with(engine, rng, token)
                case "send":
                    await self._send(engine, rng, token)
                case _:
                    await self._restart_owner(engine, rng, token)

    async def _start_with(self, engine: Engine, rng: random.Random, token: str) -> None:
        """Start an instance that has a name of its own, for a token that may be taken."""
        key = InstanceKey(rng.choice(list(self.limits)), f"t{next(self._calls)}")
        ms = rng.choice((None, None, 1, 50_000, 5_000_000))
        hook = HookRequest("", token, min_retention=None if ms is None else MinRetention(ms))
        await self._call(key, "create", lambda: self._create(engine, key, hook), detail=token)

    async def _restart_owner(self, engine: Engine, rng: random.Random, token: str) -> None:
        """Restart whoever holds a token, or held it last."""
        with holding():
            holders = await self._journal.holders([TokenKey("", token)])
        for hook in holders.values():
            step = rng.choice(await self._steps(hook.owner))
            await self._ask(engine, hook.owner, "restart", RestartRequested(step))

    async def _send(self, engine: Engine, rng: random.Random, token: str) -> None:
        """Send a payload, perhaps one that others send too."""
        resume_id = rng.choice((None, None, None, "r1", "r2"))
        number = next(self._calls) if resume_id is None else -rng.randint(1, 2)
        payload = values.encode(number, "a payload")
        sent = (bytes(payload).decode(), resume_id)
        where = TokenKey("", token)
        await self._call(
            InstanceKey("", token),
            hooks.RESUME,
            lambda: resume(engine, where, payload, resume_id),
            detail=sent,
        )

    def _jump(self, skew_ms: int) -> None:
        self._skew_ms += skew_ms
        self._clock.skew(skew_ms)

    async def _act(self, rng: random.Random, key: InstanceKey) -> None:
        engine = self._engine
        assert engine is not None
        choices = ("create",) * 6 + ("event",) * 5 + ("pause", "resume", "resume", "read")
        match rng.choice((*choices, "terminate", "restart", "restart", "delete")):
            case "create":
                await self._call(key, "create", lambda: self._create(engine, key))
            case "event":
                number = next(self._calls)
                event = EventSent(rng.choice(EVENT_TYPES), values.encode(number, "an event"))
                await self._call(key, "event", lambda: engine.ask(key, event), detail=number)
            case "read":
                await self._call(key, "read", lambda: engine.read(key, lambda state: state.status))
            case "restart":
                step = rng.choice(await self._steps(key)) if rng.random() < 0.6 else None
                await self._ask(engine, key, "restart", RestartRequested(step))
            case "terminate":
                await self._ask(engine, key, "terminate", TerminateRequested(rng.random() < 0.6))
            case operation:
                item = {
                    "pause": PauseRequested(),
                    "resume": ResumeRequested(),
                    "delete": DeleteRequested(),
                }[operation]
                await self._ask(engine, key, operation, item)

    async def _ask(self, engine: Engine, key: InstanceKey, operation: str, item: Input) -> None:
        await self._call(key, operation, lambda: engine.ask(key, item))

    async def _create(
        self, engine: Engine, key: InstanceKey, hook: HookRequest | None = None
    ) -> None:
        creation = Creation(key.workflow, key.id, values.encode({}, "params"), engine.now_ms())
        claims = None if hook is None else [Claim(hook)]
        [taken] = await engine.create([creation], may_be_taken=True, claims=claims)
        if taken is not None:
            raise taken

    async def _steps(self, key: InstanceKey) -> list[StepKey | None]:
        """The steps that a restart could begin at; None is the whole."""
        with holding():
            stored = (await self._journal.load([key])).get(key)
        if not isinstance(stored, StoredInstance):
            return [None]
        steps = {entry.step: None for _, entry in stored.entries if entry.step is not None}
        return [None, *steps]

    async def _call(
        self,
        key: InstanceKey,
        operation: str,
        call: Callable[[], Coroutine[Any, Any, object]],
        *,
        detail: object = None,
    ) -> None:
        number, down = next(self._calls), self._down
        self.trace.add(Asked(number, self._stage.process, key, operation, detail))
        answer = asyncio.ensure_future(call())
        # A process that dies takes along who waits for its answers.
        await asyncio.wait([answer, down], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            self.trace.add(Answered(number, EngineStopped.code))
        elif isinstance(error := answer.exception(), EmulatorError):
            self.trace.add(Answered(number, error.code))
        else:
            answer.result()
            self.trace.add(Answered(number, "done"))

    # the laws of a moment

    async def _committed(self, commit: Commit) -> None:
        self.trace.add(Committed(self._clock.now_ms(), commit))
        try:
            with holding():
                await self._check(commit)
        except LawBroken as broken:
            self._broken = self._broken or broken

    def _returning(self) -> None:
        self.trace.add(CommitReturned(self._stage.process))

    async def _check(self, commit: Commit) -> None:
        """Hold the instances that a commit is about against the laws of a moment."""
        for number in commit.deleted:
            del self._shown[number]
        self._shown.update((row.number, row) for row in commit.created)
        self._shown.update(commit.updated)
        numbers = dict.fromkeys(each.number for each in commit.entries)
        await self._check_instances([self._shown[number].creation.key for number in numbers])
        for name in sorted({self._shown[number].creation.workflow for number in numbers}):
            await self._check_workflow(name)

    async def _check_instances(self, keys: list[InstanceKey]) -> None:
        assert self._engine is not None
        live = self._engine.live_states()
        now_ms = self._clock.now_ms()
        timers: dict[int, dict[StepKey, int]] = {}
        for _, (number, step, due_ms) in await self._journal.due(_FAR_FUTURE_MS, _ALL):
            timers.setdefault(number, {})[step] = due_ms
        for stored in (await self._journal.load(keys)).values():
            assert isinstance(stored, StoredInstance)
            row, folded = stored.row, fold(stored.row.creation, stored.entries)
            moments.fold(live[row.number], folded)
            moments.deadlines(folded, timers.get(row.number, {}))
            moments.agreement_of_row(row, folded)
            query = HookQuery(*row.creation.key)
            moments.agreement_of_hooks(folded, await self._journal.hooks(query), now_ms)

    async def _check_workflow(self, name: str) -> None:
        rows = self._shown.values()
        statuses = [row.status for row in rows if row.creation.workflow == name]
        moments.slots(statuses, self.limits[name], name)
        moments.agreement_of_counts(statuses, await self._journal.status_counts(name), name)

    async def _rows(self) -> list[InstanceRow]:
        with holding():
            return [
                row
                for name in self.limits
                for row in await self._journal.rows(InstanceQuery(name, limit=_ALL))
            ]

    def _hear_of_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the loop raised. (Tasks whose exceptions nobody fetches are the scripts' own affair.)"""
        if "future" not in context and "task" not in context:
            self._broken = self._broken or context.get("exception")
