"""Hypothesis strategies for what the domain is made of."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from emulator.domain.config import RetryConfig, StepConfig
from emulator.domain.entries import FACTS, STEP_KINDS, Entry, Fact
from emulator.domain.failure import Failure
from emulator.domain.hooks import HookRecord
from emulator.domain.instance import Creation, InstanceKey, Schedule, TriggerSource
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.journal.port import InstanceRow

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
"""Texts of columns: without control characters, at whose NUL SQLite would end them."""
step_names = st.sampled_from(["charge", "charge-1", "10", 'a "quoted" name', "Größe 😀"]) | st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20
)
instants_ms = st.integers(0, 2**53)
durations_ms = st.integers(0, 2**53)
counts = st.integers(1, 10_000)
config_numbers = st.integers(0, 2**53) | st.floats(0, 1e15)

stored_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
).map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
"""Values as they are stored: JSON texts."""

failures = st.builds(Failure, name=texts, message=texts)
step_configs = st.builds(
    StepConfig,
    retries=st.builds(
        RetryConfig, limit=config_numbers, delay=config_numbers | texts, backoff=texts
    ),
    timeout=config_numbers | texts,
    sensitive=st.none() | texts,
)

_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "result": stored_values,
    "payload": st.none() | stored_values,
    "error": failures,
    "config": step_configs,
    "event_type": plain_texts,
    "delivery_id": st.none() | plain_texts,
    "attempt": counts,
    "event_seq": counts,
    "total_steps": counts,
    "completed_steps": counts,
    "duration_ms": durations_ms,
    "timeout_ms": durations_ms,
    "retry_delay_ms": st.none() | durations_ms,
    "received_ms": instants_ms,
    "wake_ms": instants_ms,
    "deadline_ms": instants_ms,
    "has_rollback": st.booleans(),
    "metadata": stored_values,
    "changes": st.dictionaries(texts, st.none() | texts, max_size=3),
    "terminating": st.booleans(),
    "until": st.booleans(),
}


def facts_of(kind: type[Fact]) -> st.SearchStrategy[Fact]:
    """Facts of one kind. A field that no strategy is known for takes any value of its type."""
    known = {name: _FIELDS[name] for name in kind.__struct_fields__ if name in _FIELDS}
    return st.builds(kind, **known)


def step_keys(kind: StepKind | None = None) -> st.SearchStrategy[StepKey]:
    """Steps, of one kind or of any."""
    kinds = st.sampled_from(StepKind) if kind is None else st.just(kind)
    return st.builds(StepKey, kind=kinds, name=step_names, count=st.integers(1, 3))


def entries_of(fact: Fact, at_ms: st.SearchStrategy[int] = instants_ms) -> st.SearchStrategy[Entry]:
    """Entries with this fact, about a step of the kind that it wants."""
    kind = STEP_KINDS.get(fact.event)
    return st.builds(Entry, at_ms, st.none() if kind is None else step_keys(kind), st.just(fact))


facts = st.sampled_from(sorted(FACTS)).flatmap(lambda event: facts_of(FACTS[event]))
entries = facts.flatmap(entries_of)

TOKENS = ("a", "order:1", 'a "quoted" one', "Größe 😀")
tokens = st.sampled_from(TOKENS)


def hook_records(hook_id: str, at_ms: st.SearchStrategy[int]) -> st.SearchStrategy[HookRecord]:
    """Hooks that are alive. Their instances need not exist."""
    return st.builds(
        HookRecord,
        hook_id=st.just(hook_id),
        workflow=st.sampled_from(["orders", "mail"]),
        instance_id=st.sampled_from(["x", "tenant:x"]),
        token=tokens,
        created_ms=at_ms,
        metadata=stored_values,
        retain_until_ms=st.none() | at_ms,
        is_webhook=st.booleans(),
        schema=st.none() | plain_texts,
    )


instance_keys = st.builds(
    InstanceKey,
    workflow=st.sampled_from(["orders", "mail"]),
    id=st.sampled_from(["a", "B", "10", "x-1", "z_9"]),
)


@st.composite
def instance_rows(draw: st.DrawFn, key: InstanceKey, number: int) -> InstanceRow:
    """Rows of an instance that has this name and number. Their times often coincide."""
    near_ms = st.integers(1, 5)
    creation = Creation(
        key.workflow,
        key.id,
        draw(stored_values),
        draw(near_ms),
        draw(st.sampled_from(TriggerSource)),
        draw(st.none() | st.builds(Schedule, cron=texts, scheduled_ms=instants_ms)),
        draw(st.none() | durations_ms),
        draw(st.none() | durations_ms),
        draw(st.none() | plain_texts),
    )
    return InstanceRow(
        number,
        creation,
        draw(st.sampled_from(InstanceStatus)),
        draw(near_ms),
        draw(st.none() | near_ms),
        draw(st.none() | near_ms),
        draw(st.booleans()),
        draw(st.none() | near_ms),
        draw(
            st.dictionaries(st.sampled_from(["a", 'b"c', "$.é"]), st.sampled_from(["1", "2", ""]))
        ),
    )
