"""An hour in the life of tenants: each publishes, creates, sends, pauses and deletes by a seed of its own.

All use the same ids, types of events, tokens, names and versions, and the process dies twice. What comes back is what each of them
has seen, and what its journals hold, line by line, without what only the operator sees.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from emulator.errors import EmulatorError
from emulator.journal.port import InstanceQuery, StoredInstance
from emulator.testing.faults import rest
from emulator.testing.loop import run
from tests.unit.dynamic.dispatcher import NAME, Dispatcher, source

HOUR_MS = 3_600_000
DEATHS_MS = (1_200_000, 1_200_000, 1_200_000)
"""How long each process lives; the last one is stopped in good order."""

RESTS_MS = (0, 1, 7, 400, 9_000, 30_000, 120_000)
EVENT_TYPES = ("paid", "shipped")
TOKENS = ("desk", "door")
ACTS = ("create", "create", "claim", "event", "event", "event", "resume", "resume", "hook", "look", "operate")  # fmt: skip
CODE = """
@step.do("work", config={{"retries": {{"limit": 3, "delay": 900}}}})
async def work(ctx):
    if ctx.attempt <= {fails}:
        raise ValueError(ctx.attempt)
    return [{word!r}, event.payload, event.instanceId]

@step.do("tell", config={{"retries": {{"limit": 0, "delay": 0}}}})
async def tell():
    return (await resume_hook({token!r}, {word!r})).run_id

done = await work()
with step.create_hook(token={token!r}) as hook:
    try:
        done.append(await hook.receive(timeout={patience_ms}))
    except Exception as error:
        done.append(f"{{type(error).__name__}} {{error}}")
try:
    done.append(await tell())
except Exception as error:
    done.append(str(error))
for event_type in ("paid", "shipped"):
    try:
        done.append((await step.wait_for_event(f"the {{event_type}}", event_type, timeout={patience_ms}))["payload"])
    except Exception as error:
        done.append(type(error).__name__)
    await step.sleep("a while", {nap_ms})
return done
"""


def histories(seed: int, tenants: Sequence[str]) -> dict[str, list[str]]:
    """What each of the tenants has seen, when these are all there are."""
    seen: dict[str, list[str]] = {tenant: [] for tenant in tenants}
    run(_play(seed, seen))
    return seen


async def _play(seed: int, seen: dict[str, list[str]]) -> None:

    max_live = random.Random(f"live {seed}").choice((0, 1_000))
    running = Dispatcher(max_live=max_live)
    await running.__aenter__()
    clients = [asyncio.create_task(_client(running, tenant, seed, seen)) for tenant in seen]
    for life_ms in DEATHS_MS[:-1]:
        await rest(life_ms + 3)
        await running.engine.kill()
        await running.restart()
    await asyncio.gather(*clients)
    await rest(HOUR_MS)
    await running.__aexit__()
    for tenant, lines in seen.items():
        lines += await _journals(running, tenant)


async def _client(running: Dispatcher, tenant: str, seed: int, seen: dict[str, list[str]]) -> None:
    rng = random.Random(f"{tenant} {seed}")
    published = 0
    until_ms = running.engine.now_ms() + HOUR_MS
    while running.engine.now_ms() < until_ms:
        await rest(rng.choice(RESTS_MS) + 1)
        # A new version now and then; the first one at once.
        if not published or rng.random() < 0.1:
            published += 1
            await running.publish(tenant, f"v{published}", _code(rng, tenant, published))
        act = rng.choice(ACTS)
        try:
            answer = await _act(running, tenant, rng, act)
        except EmulatorError as error:
            answer = f"{error.code}: {error.message}"
        seen[tenant].append(f"{running.engine.now_ms()} {act}: {answer}")


def _code(rng: random.Random, tenant: str, number: int) -> str:
    return source(
        before="from bindings import resume_hook\n",
        body=CODE.format(
            token=rng.choice(TOKENS),
            fails=rng.randint(0, 2),
            word=f"{tenant} {number}",
            patience_ms=rng.choice((500, 60_000, 900_000)),
            nap_ms=rng.choice((0, 50, 30_000)),
        ),
    )


async def _act(running: Dispatcher, tenant: str, rng: random.Random, act: str) -> object:
    binding = running.binding(tenant)
    instance_id, number = f"i{rng.randint(0, 2)}", rng.randint(0, 999)
    event_type, operation = (
        rng.choice(EVENT_TYPES),
        rng.choice(("pause", "resume", "terminate", "restart", "delete")),
    )
    token = rng.choice(TOKENS)
    if act == "create":
        return (await binding.create(id=instance_id, params=number)).id
    if act == "claim":
        return (await binding.create(id=f"c{number}", params=number, hook=token)).id
    if act == "resume":
        return (await binding.resume_hook(token, number)).run_id
    if act == "hook":
        return (await binding.get_hook_by_token(token)).run_id
    instance = await binding.get(instance_id)
    if act == "event":
        return await instance.send_event(type=event_type, payload=number)
    if act == "look":
        return dict(await instance.status())
    chosen: Any = getattr(instance, operation)
    return await chosen()


async def _journals(running: Dispatcher, tenant: str) -> list[str]:
    """The journals of a tenant's instances, in the order of their creation."""
    rows = await running.journal.rows(InstanceQuery(NAME, ascending=True, limit=1_000_000))
    lines: list[str] = []
    for key in (row.creation.key for row in rows if row.creation.id.startswith(f"{tenant}:")):
        stored = (await running.journal.load([key]))[key]
        assert isinstance(stored, StoredInstance)
        lines.append(f"{key.id} {stored.row.status} {stored.row.creation.code}")
        lines += [
            f"{seq} {entry.at_ms} {entry.step and entry.step.label} {type(entry.fact).__name__} "
            f"{msgspec.json.encode(entry.fact)}"
            for seq, entry in stored.entries
        ]
    return lines
