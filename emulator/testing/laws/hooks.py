"""The laws of hooks: who holds a token, what becomes of payloads, and what those are told who send them."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.domain import entries as facts
from emulator.domain.entries import HOOK_CHANNEL, Entry
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import InstanceKey
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import StepKey
from emulator.journal.port import Commit, Cut, EntryRow
from emulator.testing.laws.breach import LawBroken, kept, statuses
from emulator.testing.trace import Answered, Asked, Committed, Deleted, ProcessEnded, Story, Trace

RESUME = "resume_hook"
"""The operation of sending a payload; the call's key is ("", token), its detail the payload and the resume id."""

Sent = tuple[str, str | None]
"""A payload as a text, and its resume id."""


def owner(trace: Trace) -> None:
    """A token has one holder: nobody gets it before the former one has released it, or its retention is over.

    A hook is in the table from the commit that creates it, and no instance that is gone holds one that lives.
    """
    holders: dict[TokenKey, HookRecord] = {}
    keys: dict[int, InstanceKey] = {}
    for record in trace.records:
        if isinstance(record, Committed):
            keys.update((row.number, row.creation.key) for row in record.commit.created)
            _hold(holders, record)
            _judge_creations(record.commit)
            gone = {keys[number] for number in record.commit.deleted}
            left = [hook for hook in holders.values() if hook.stage is HookStage.LIVE]
            for hook in left:
                if hook.owner in gone and hook.owner not in _created(record.commit):
                    raise LawBroken("owner", hook.owner, f"it is gone, and holds {hook.token}")


def _created(commit: Commit) -> set[InstanceKey]:
    return {row.creation.key for row in commit.created}


def _hold(holders: dict[TokenKey, HookRecord], record: Committed) -> None:
    commit = record.commit
    # What was decided in one turn was decided at one time, and that may be a while ago.
    at_ms = commit.entries[0].entry.at_ms if commit.entries else record.at_ms
    for hook in commit.hooks.values():
        former = holders.get(hook.key)
        if hook.stage is HookStage.RELEASED and former and former.hook_id == hook.hook_id:
            del holders[hook.key]
    for hook in commit.hooks.values():
        if hook.stage is HookStage.RELEASED:
            continue
        former = holders.get(hook.key)
        if former is not None and former.hook_id != hook.hook_id and former.holds_at(at_ms):
            text = f"{hook.owner} gets {hook.token}, which {former.owner} holds"
            raise LawBroken("owner", hook.owner, text)
        holders[hook.key] = hook


def _judge_creations(commit: Commit) -> None:
    for row in commit.entries:
        fact = row.entry.fact
        if isinstance(fact, facts.HookCreated) and fact.hook_id not in commit.hooks:
            raise LawBroken("owner", row.number, f"{fact.token} is created, and not in the table")


def payloads(trace: Trace) -> None:
    """The payloads of a hook are taken first in, first out, each once; a restart that keeps the hook puts them back so.

    None is lost but with the hook, or with the end of the instance.
    """
    for story in trace.stories():
        _Payloads(story).judge()


class _Payloads:
    """What has arrived for each hook of an instance and not been taken, and what each step has taken."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._queues: dict[str, list[bytes]] = {}
        self._taken: dict[StepKey, tuple[str, bytes]] = {}
        self._hooks: dict[StepKey, str] = {}
        self._waits: dict[StepKey, str] = {}
        self._disposed: set[StepKey] = set()
        self._due_back: dict[str, list[bytes]] = {}

    def judge(self) -> None:
        last_place = -1
        for place, happening in self._story.happenings:
            if place != last_place:
                self._all_are_back()
            last_place = place
            match happening:
                case Cut():
                    self._cut(happening)
                case EntryRow(entry=entry):
                    self._hear(entry)
                case _:
                    pass

    def _cut(self, cut: Cut) -> None:
        taken = [each for step, each in self._taken.items() if cut.steps and step in cut.steps]
        for channel, payload in reversed(taken):
            self._queues.setdefault(channel, []).insert(0, payload)
        self._hooks, self._taken = kept(self._hooks, cut), kept(self._taken, cut)
        self._waits = kept(self._waits, cut)
        self._disposed &= self._hooks.keys()
        channels = self._hooks.values()
        self._due_back = {name: self._queues[name] for name in channels if self._queues.get(name)}
        self._queues = {}

    def _all_are_back(self) -> None:
        for step, channel in self._hooks.items():
            if step not in self._disposed and self._due_back.get(channel):
                self._fail(f"{step.label}: a restart has lost {self._due_back[channel]}")
        self._due_back = {}

    def _hear(self, entry: Entry) -> None:
        match entry:
            case Entry(step=StepKey() as step, fact=facts.HookCreated(hook_id)):
                self._hooks[step] = HOOK_CHANNEL + hook_id
            case Entry(step=StepKey() as step, fact=facts.HookDisposed()):
                self._disposed.add(step)
            case Entry(step=StepKey() as step, fact=facts.HookReclaimed()):
                self._disposed.discard(step)
            case Entry(fact=facts.EventReceived(channel, payload)) if payload is not None:
                self._arrive(channel, bytes(payload))
            case Entry(step=StepKey() as step, fact=facts.WaitStarted(channel)):
                self._waits[step] = channel
            case Entry(step=StepKey() as step, fact=facts.WaitCompleted(payload=payload)):
                self._take(step, self._waits[step], bytes(payload or b""))
            case Entry(
                fact=facts.WorkflowSucceeded() | facts.WorkflowFailed() | facts.WorkflowTerminated()
            ):
                self._queues = {}
            case _:
                pass

    def _arrive(self, channel: str, payload: bytes) -> None:
        due = self._due_back.get(channel)
        if due:
            if due[0] != payload:
                self._fail(f"{payload!r} is put back, {due[0]!r} was first")
            del due[0]
        self._queues.setdefault(channel, []).append(payload)

    def _take(self, step: StepKey, channel: str, payload: bytes) -> None:
        if not channel.startswith(HOOK_CHANNEL):
            return
        queue = self._queues.get(channel, [])
        if queue[:1] != [payload]:
            self._fail(f"{step.label} takes {payload!r} out of {queue}")
        del queue[0]
        self._taken[step] = channel, payload

    def _fail(self, text: str) -> None:
        raise LawBroken("payloads", self._story, text)


def answered(trace: Trace) -> None:
    """Who sends a payload is told the truth, and a create that is refused for its token leaves nothing behind."""
    sender = _Answers(trace)
    calls: dict[int, tuple[int, Asked]] = {}
    for place, record in enumerate(trace.records):
        if isinstance(record, Asked):
            calls[record.call] = (place, record)
        elif isinstance(record, Answered):
            asked, call = calls[record.call]
            if not sender.is_true(asked, place, call, record.outcome):
                text = f"{call.operation} {call.detail} was answered {record.outcome!r}"
                raise LawBroken("answered", call.key, text)


class _Answers:
    """What can be known of tokens and payloads."""

    def __init__(self, trace: Trace) -> None:
        self._ends = {
            record.process: record.how
            for record in trace.records
            if isinstance(record, ProcessEnded)
        }
        self._arrivals: dict[Sent, list[int]] = {}
        self._named: dict[str | None, set[tuple[str, str]]] = {}
        self._tokens = {
            HOOK_CHANNEL + hook.hook_id: hook.token
            for record in trace.records
            if isinstance(record, Committed)
            for hook in record.commit.hooks.values()
        }
        self._born = {story.key for story in trace.stories()}
        self._held: dict[str, list[tuple[int, bool, bool]]] = {}
        for story in trace.stories():
            self._read(story)
        self._watch(trace)

    def _read(self, story: Story) -> None:
        for place, happening in story.happenings:
            match happening:
                case EntryRow(entry=Entry(fact=facts.EventReceived(channel, payload, name))) if (
                    payload and channel in self._tokens
                ):
                    text = bytes(payload).decode()
                    resume_id = name and name.removeprefix("resume ")
                    self._arrivals.setdefault((text, resume_id), []).append(place)
                    named = self._named.setdefault(resume_id, set())
                    named.add((text, self._tokens[channel]))
                case _:
                    pass

    def _watch(self, trace: Trace) -> None:
        """Note of each token when it was held, and when payloads were taken for it."""
        stages: dict[TokenKey, HookRecord] = {}
        rolls_back = dict(_rollbacks(trace))
        for place, record in enumerate(trace.records):
            if not isinstance(record, Committed):
                continue
            for hook in record.commit.hooks.values():
                former = stages.get(hook.key)
                is_his = former is None or former.hook_id == hook.hook_id
                if hook.stage is not HookStage.RELEASED or is_his:
                    stages[hook.key] = hook
            for key, hook in stages.items():
                is_live = hook.stage is HookStage.LIVE
                takes = is_live and hook.owner not in rolls_back.get(place, ())
                held = hook.stage is not HookStage.RELEASED
                self._held.setdefault(key.token, []).append((place, held, takes))

    def is_true(self, asked: int, place: int, call: Asked, outcome: str) -> bool:
        if call.operation == "create" and outcome == "hook_conflict":
            was_held = any(held for held, _ in self._during(str(call.detail), asked, place))
            return was_held and call.key not in self._born
        if call.operation != RESUME:
            return True
        sent: Sent = call.detail  # pyright: ignore[reportAssignmentType]
        arrived = [when for when in self._arrivals.get(sent, []) if when < place]
        if outcome == "done":
            return any(when >= asked for when in arrived) or (bool(arrived) and sent[1] is not None)
        if outcome == "hook_not_found":
            return not all(takes for _, takes in self._during(call.key.id, asked, place))
        if outcome == "resume_conflict":
            return bool(self._named[sent[1]] - {(sent[0], call.key.id)})
        crashed = self._ends.get(call.process) == "crash"
        return outcome == "engine.stopped" and (crashed or not arrived or sent[1] is not None)

    def _during(self, token: str, asked: int, answered: int) -> Iterator[tuple[bool, bool]]:
        """Whether it was held, and took payloads, at each commit of a while, and before the first."""
        before = (False, False)
        for place, held, takes in self._held.get(token, []):
            if place >= answered:
                break
            if place > asked:
                yield before
                yield held, takes
            before = (held, takes)
        yield before


def _rollbacks(trace: Trace) -> Iterator[tuple[int, set[InstanceKey]]]:
    """At each commit the instances that roll back, or have ended."""
    changes: dict[int, list[tuple[InstanceKey, bool]]] = {}
    for story in trace.stories():
        places = (place for place, _ in story.happenings)
        for place, (happening, status) in zip(places, statuses(story), strict=True):
            is_over = status is InstanceStatus.ROLLING_BACK or status in TERMINAL
            if isinstance(happening, EntryRow | Cut | Deleted):
                changes.setdefault(place, []).append((story.key, is_over))
    rolling: set[InstanceKey] = set()
    for place, record in enumerate(trace.records):
        for key, is_over in changes.get(place, []):
            (rolling.add if is_over else rolling.discard)(key)
        if isinstance(record, Committed):
            yield place, set(rolling)
