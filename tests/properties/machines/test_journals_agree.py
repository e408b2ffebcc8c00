"""Three journals that are told the same answer the same: in memory, SQLite in memory, SQLite in a file."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from emulator.domain.entries import (
    AttemptStarted,
    Entry,
    EventReceived,
    RollbackStepSucceeded,
    SleepCompleted,
    WorkflowQueued,
    WorkflowRunning,
    WorkflowStarted,
)
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.domain.names import RESERVED
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import (
    ChunkRow,
    ClosedRow,
    Commit,
    Cut,
    EntryRow,
    HookQuery,
    InstanceQuery,
    InstanceRow,
    Journal,
    StreamCommit,
    TickRow,
    TimerRow,
)
from emulator.journal.sqlite import SqliteJournal
from tests.strategies import (
    TOKENS,
    entries,
    hook_records,
    instance_keys,
    instance_rows,
    step_keys,
    stored_values,
)

T = TypeVar("T")
WORKFLOWS = ("orders", "mail", "none")
SLEEP = StepKey(StepKind.SLEEP, "nap", 1)
NAMESAKE = StepKey(StepKind.DO, "nap", 1)
HISTORY = [
    Entry(1, None, WorkflowQueued()),
    Entry(1, None, WorkflowStarted()),
    Entry(1, None, WorkflowRunning()),
    Entry(1, SLEEP, SleepCompleted()),
    Entry(1, NAMESAKE, AttemptStarted(1)),
    Entry(1, NAMESAKE, RollbackStepSucceeded()),
]
STREAMS = ("default", "Größe 😀", RESERVED + NAMESAKE.label)
WRITERS = (None, NAMESAKE.label, "other-1")
due_times_ms = st.integers(1, 6)
tick_rows = st.builds(
    TickRow,
    st.sampled_from(["", "orders"]),
    st.sampled_from(["* * * * *", "0 0 * * *"]),
    due_times_ms,
)


class Journals(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.memory = MemoryJournal()
        self.file = SqliteJournal(Path(self.folder.name) / "journal.db")
        self.journals: list[Journal] = [self.memory, SqliteJournal(":memory:"), self.file]
        self.rows: dict[int, InstanceRow] = {}
        self.steps: dict[int, set[StepKey]] = {}
        self.events: dict[int, list[int]] = {}
        self.lengths: dict[tuple[int, str], int] = {}
        self.last_number = 0
        self.last_seq = 0
        self.hooks: dict[TokenKey, HookRecord] = {}
        self.last_hook = 0
        for journal in self.journals:
            self.run(journal.open())

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.runner.run(work)

    def write(self, commit: Commit) -> None:
        for journal in self.journals:
            self.run(journal.commit(commit))

    def new_row(self, draw: st.DataObject, key: InstanceKey) -> InstanceRow:
        self.last_number += draw.draw(st.integers(1, 3), label="numbers skipped, and one")
        row = draw.draw(instance_rows(key, self.last_number))
        self.rows[row.number] = row
        self.steps[row.number] = set()
        self.events[row.number] = []
        return row

    def append(self, number: int, new: list[Entry]) -> list[EntryRow]:
        placed: list[EntryRow] = []
        for entry in new:
            self.last_seq += 1
            if entry.step is not None:
                self.steps[number].add(entry.step)
            if isinstance(entry.fact, EventReceived):
                self.events[number].append(self.last_seq)
            placed.append(EntryRow(number, self.last_seq, entry))
        return placed

    def forget(self, number: int) -> None:
        del self.rows[number], self.steps[number], self.events[number]
        self.lengths = {key: length for key, length in self.lengths.items() if key[0] != number}

    def any_number(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.rows)), label="number")

    @rule(
        data=st.data(), keys=st.sets(instance_keys, min_size=1), new=st.lists(entries, max_size=3)
    )
    def create(self, data: st.DataObject, keys: set[InstanceKey], new: list[Entry]) -> None:
        taken = {row.creation.key for row in self.rows.values()}
        created = [self.new_row(data, key) for key in sorted(keys - taken)]
        appended = [row for made in created for row in self.append(made.number, new)]
        self.write(Commit(created=created, entries=appended))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), new=st.lists(entries, min_size=1, max_size=5))
    def go_on(self, data: st.DataObject, new: list[Entry]) -> None:
        self.write(Commit(entries=self.append(self.any_number(data), new)))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), new=st.lists(entries, max_size=2), due_ms=due_times_ms)
    def park(self, data: st.DataObject, new: list[Entry], due_ms: int) -> None:
        number = self.any_number(data)
        row = self.rows[number]._replace(status=InstanceStatus.WAITING, modified_ms=due_ms)
        self.rows[number] = row
        step = data.draw(step_keys() | st.sampled_from([SLEEP, *sorted(self.steps[number])]))
        self.write(
            Commit(
                updated={number: row},
                entries=self.append(number, new),
                armed=[TimerRow(number, step, due_ms), TimerRow(number, step, due_ms + 1)],
            )
        )
        self.steps[number].add(step)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        number = self.any_number(data)
        old = self.rows[number]
        drawn = data.draw(instance_rows(old.creation.key, number))
        self.rows[number] = drawn._replace(creation=old.creation)
        self.write(Commit(updated={number: self.rows[number]}))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), new=st.lists(entries, max_size=2))
    def take_events(self, data: st.DataObject, new: list[Entry]) -> None:
        number = self.any_number(data)
        sent = Entry(1, None, EventReceived("paid"))
        self.write(Commit(entries=self.append(number, [sent, sent])))
        taken = data.draw(st.sets(st.sampled_from(self.events[number]), min_size=1))
        self.events[number] = [seq for seq in self.events[number] if seq not in taken]
        self.write(
            Commit(entries=self.append(number, new), taken=[(number, seq) for seq in sorted(taken)])
        )

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), everything=st.booleans())
    def disarm(self, data: st.DataObject, everything: bool) -> None:
        number = self.any_number(data)
        steps = sorted(self.steps[number])
        step = None if everything or not steps else data.draw(st.sampled_from(steps))
        self.write(Commit(disarmed=[(number, step)]))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), everything=st.booleans(), new=st.lists(entries, max_size=2))
    def restart(self, data: st.DataObject, everything: bool, new: list[Entry]) -> None:
        number = self.any_number(data)
        self.write(Commit(entries=self.append(number, HISTORY)))
        steps = sorted(self.steps[number])
        some = st.frozensets(st.sampled_from(steps))
        cut = Cut(number, None if everything else data.draw(some))
        self.events[number] = []
        for stream in STREAMS:
            if cut.steps is None or (stream.startswith(RESERVED) and NAMESAKE in cut.steps):
                self.lengths.pop((number, stream), None)
        self.write(Commit(cuts=[cut], entries=self.append(number, new)))

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), new=st.lists(entries, max_size=1))
    def write_streams(self, data: st.DataObject, new: list[Entry]) -> None:
        number = self.any_number(data)
        written = StreamCommit()
        for stream in data.draw(st.sets(st.sampled_from(STREAMS)), label="cleared"):
            written.cleared.append((number, stream))
            self.lengths.pop((number, stream), None)
        for value in data.draw(st.lists(stored_values, max_size=4)):
            stream = data.draw(st.sampled_from(STREAMS))
            place = self.lengths.get((number, stream), 0)
            step = data.draw(st.sampled_from(WRITERS))
            attempt = None if step is None else place + 1
            written.chunks.append(ChunkRow(number, stream, place, step, attempt, value))
            self.lengths[number, stream] = place + 1
        if data.draw(st.booleans(), label="closes"):
            stream = data.draw(st.sampled_from(STREAMS))
            written.closed.append(ClosedRow(number, stream, data.draw(st.sampled_from(WRITERS))))
        self.write(Commit(entries=self.append(number, new), streams=written))

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete_and_create_again(self, data: st.DataObject) -> None:
        number = self.any_number(data)
        key = self.rows[number].creation.key
        self.forget(number)
        self.write(Commit(deleted=[number], created=[self.new_row(data, key)]))

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        number = self.any_number(data)
        self.forget(number)
        self.write(Commit(deleted=[number]))

    @rule(data=st.data(), now_ms=due_times_ms)
    def claim_tokens(self, data: st.DataObject, now_ms: int) -> None:
        """Some that are free, among them perhaps one whose retention is over."""
        claimed: dict[TokenKey, HookRecord] = {}
        for _ in range(data.draw(st.integers(1, 3))):
            self.last_hook += 1
            hook = data.draw(hook_records(f"hook_{self.last_hook}", due_times_ms))
            former = self.hooks.get(hook.key)
            if hook.key not in claimed and (former is None or not former.holds_at(now_ms)):
                claimed[hook.key] = hook
        self.hold(list(claimed.values()))

    @precondition(lambda self: self.hooks)
    @rule(data=st.data(), stage=st.sampled_from(HookStage), until_ms=due_times_ms)
    def change_hook(self, data: st.DataObject, stage: HookStage, until_ms: int) -> None:
        hook = data.draw(st.sampled_from(sorted(self.hooks.values(), key=attrgetter("hook_id"))))
        self.hold([replace(hook, stage=stage, retain_until_ms=until_ms)])

    @precondition(lambda self: self.hooks)
    @rule(data=st.data())
    def hand_over_in_one_commit(self, data: st.DataObject) -> None:
        former = data.draw(st.sampled_from(sorted(self.hooks.values(), key=attrgetter("hook_id"))))
        self.last_hook += 1
        drawn = data.draw(hook_records(f"hook_{self.last_hook}", due_times_ms))
        heir = replace(drawn, instance_id=former.instance_id, token=former.token)
        self.hold(data.draw(st.permutations([replace(former, stage=HookStage.RELEASED), heir])))

    @rule(data=st.data())
    def release_one_that_is_not_there(self, data: st.DataObject) -> None:
        gone = data.draw(hook_records("hook_0", due_times_ms))
        self.hold([replace(gone, stage=HookStage.RELEASED)])

    @rule(until_ms=due_times_ms)
    def forget_tokens(self, until_ms: int) -> None:
        for journal in self.journals:
            self.run(journal.forget_tokens(until_ms))
        self.hooks = {
            key: hook
            for key, hook in self.hooks.items()
            if hook.stage is HookStage.LIVE or hook.holds_at(until_ms)
        }

    def hold(self, hooks: list[HookRecord]) -> None:
        self.write(Commit(hooks={hook.hook_id: hook for hook in hooks}))
        by_id = {hook.hook_id: hook for hook in self.hooks.values()}
        for hook in hooks:
            if hook.hook_id in by_id:
                del self.hooks[hook.key]
        for hook in hooks:
            if hook.stage is not HookStage.RELEASED:
                self.hooks[hook.key] = hook

    @rule(ticks=st.lists(tick_rows, min_size=1))
    def settle_ticks(self, ticks: list[TickRow]) -> None:
        self.write(Commit(ticks=ticks))

    @rule()
    def close_and_reopen(self) -> None:
        for journal in (self.memory, self.file):
            self.run(journal.close())
            self.run(journal.open())

    @invariant()
    def all_answer_the_same(self) -> None:
        expected, *others = [self.run(self.answers(journal)) for journal in self.journals]
        for answers in others:
            assert answers == expected

    async def answers(self, journal: Journal) -> list[object]:
        keys = [row.creation.key for row in self.rows.values()] + [InstanceKey("orders", "no")]
        return [
            await journal.last_number(),
            await journal.last_ticks(),
            await journal.load(keys),
            await journal.load_some(keys),
            await journal.existing(keys),
            [await journal.entries(key, *page) for key in keys for page in ((0, 99), (2, 2))],
            [await journal.row(key) for key in keys],
            [await journal.unfinished(known) for known in ((), ("orders",), WORKFLOWS)],
            [await journal.status_counts(workflow) for workflow in WORKFLOWS],
            [
                await journal.queued(workflow, limit, waking=waking)
                for workflow, waking, limit in product(WORKFLOWS, (False, True), (2, 9))
            ],
            [await journal.expired(until_ms, limit) for until_ms, limit in ((9, 9), (3, 2))],
            await journal.next_expiry_ms(),
            [await journal.recoverable(after, limit) for after, limit in ((0, 9), (2, 2))],
            [await journal.restless(after, limit) for after, limit in ((0, 9), (2, 2))],
            [await journal.due(until_ms, limit) for until_ms, limit in ((9, 99), (3, 2), (4, 99))],
            await self.timers(journal),
            [await journal.next_due_ms(after_ms) for after_ms in (0, 3, 9)],
            await self.listings(journal),
            await self.tokens(journal),
            await journal.stream_states(list(product([*self.rows, 999_999], STREAMS))),
            [await journal.streams(key) for key in keys],
            [
                await journal.chunks(key, stream, *page)
                for key, stream in product(keys, STREAMS)
                for page in ((0, 9, 99_999), (1, 2, 99_999), (0, 9, 12), (0, 0, 0))
            ],
        ]

    async def timers(self, journal: Journal) -> list[object]:
        """Those behind each of the first ones, and behind one that is not there."""
        found = [timer for _, timer in await journal.due(9, 4)]
        return [await journal.due(9, 3, after) for after in (*found, TimerRow(2, SLEEP, 3))]

    async def tokens(self, journal: Journal) -> list[object]:
        """What is asked about hooks; who holds a token is also what the rules above have made of it."""
        wanted = [TokenKey(scope, token) for scope in ("", "tenant") for token in TOKENS]
        assert await journal.holders(wanted) == self.hooks
        everything = await journal.hooks(HookQuery())
        assert {hook.key: hook for hook in everything} == self.hooks
        pages = [HookQuery("orders"), HookQuery("mail", "tenant:x"), HookQuery("none", "x")]
        pages.append(HookQuery(limit=2))
        if len(everything) > 1:
            last = everything[1]
            pages.append(HookQuery(after=(last.created_ms, last.hook_id), limit=1))
        return [everything, [await journal.hooks(page) for page in pages]]

    async def listings(self, journal: Journal) -> list[object]:
        found: list[object] = []
        for query in queries(self.last_number):
            found.append(await journal.rows(query))
            found.append(await journal.count(query))
        return found

    def teardown(self) -> None:
        for journal in self.journals:
            self.run(journal.close())
        self.runner.close()
        self.folder.cleanup()


def queries(last_number: int) -> list[InstanceQuery]:
    """Every filter, order and kind of page, some of them together."""
    afters = (None, last_number // 2, last_number)
    pages = [
        InstanceQuery("orders", status, ascending=ascending, after=after, limit=3)
        for status, ascending, after in product(
            (None, InstanceStatus.WAITING), (False, True), afters
        )
    ]
    return [
        *pages,
        InstanceQuery("mail", created_from_ms=2, created_to_ms=4),
        InstanceQuery("mail", created_from_ms=3, ascending=True, offset=1),
        InstanceQuery("mail", attributes=(("a", "1"),)),
        InstanceQuery("orders", ascending=True, attributes=(('b"c', ""), ("$.é", "2"))),
        InstanceQuery("none"),
    ]


TestJournals = Journals.TestCase
TestJournals.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
