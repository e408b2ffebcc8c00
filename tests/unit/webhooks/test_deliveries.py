"""Deliveries, from the request to the workflow that waits for the event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import httpx
import pytest

from emulator.core.state import InstanceState
from emulator.domain import values
from emulator.domain.entries import EventReceived, Fact
from emulator.domain.instance import Creation, InstanceKey
from emulator.engine.engine import Engine
from emulator.engine.programs import RunEvent
from emulator.engine.steps import StepContext
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Commit, Journal
from emulator.journal.sqlite import SqliteJournal
from emulator.testing.clock import VirtualClock
from tests.unit.rest.emulated import workflow
from tests.unit.webhooks.senders import SENDERS, Sender
from wrangler_compat.webhooks import app as app_module
from wrangler_compat.webhooks.app import WebhookApp
from wrangler_compat.webhooks.schemes import GitHub, SharedToken, Slack, StandardWebhooks, Stripe
from wrangler_compat.webhooks.table import Webhook
from wrangler_compat.webhooks.template import parse_template

Json: TypeAlias = dict[str, object]

TOLERANCE_MS = 300_000
GITHUB = SENDERS[1]
EVENT = {"data": {"order_id": 7, "amount": 12}, "id": "e-1", "event_id": "e-1"}
KEY = InstanceKey("orders", "order-7")

every_sender = pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)


async def orders(event: RunEvent, step: StepContext) -> object:
    """Two payments make an order."""
    first = await step.wait_for_event("first", "payment", 3_600_000)
    second = await step.wait_for_event("second", "payment", 3_600_000)
    return [first.payload, second.payload]


async def notes(event: RunEvent, _: StepContext) -> object:
    """Ends at once, with its params."""
    return event.payload


def webhook_of(sender: Sender) -> Webhook:
    schemes = {
        "standard": lambda: StandardWebhooks(sender.secret, TOLERANCE_MS),
        "github": lambda: GitHub(sender.secret),
        "stripe": lambda: Stripe(sender.secret, TOLERANCE_MS),
        "slack": lambda: Slack(sender.secret, TOLERANCE_MS),
        "token": lambda: SharedToken(sender.secret, "X-Token"),
    }
    return Webhook(
        f"/{sender.name}",
        "orders",
        parse_template("order-{data.order_id}"),
        parse_template("payment"),
        ("data",),
        create=False,
        scheme=schemes[sender.name](),
    )


@dataclass
class Site:
    """What senders reach, and the engine behind it."""

    client: httpx.AsyncClient
    engine: Engine
    clock: VirtualClock

    async def deliver(
        self,
        sender: Sender,
        body: object = EVENT,
        delivery: str = "e-1",
        *,
        path: str | None = None,
        changed: bytes = b"",
        **options: Any,
    ) -> httpx.Response:
        """Sign and send. The name of the delivery is put where the sender has it."""
        if sender.id_field and isinstance(body, dict):
            body = {**cast("Json", body), sender.id_field: delivery}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent_s = options.pop("sent_s", self.clock.now_ms() // 1000)
        headers = sender.sign(content, sent_s, delivery, **options)
        return await self.client.post(
            path or f"/{sender.name}", content=content + changed, headers=headers
        )

    async def create(self, key: InstanceKey = KEY) -> None:
        params = values.encode(None, "params")
        creation = Creation(*key, params, self.clock.now_ms())
        assert await self.engine.create([creation], may_be_taken=True) == [None]

    async def output(self, key: InstanceKey = KEY) -> Any:
        def ended(state: InstanceState) -> Any:
            return state.output

        async with asyncio.timeout(10):
            return values.decode(await self.engine.until(key, ended))

    async def becomes_asked_for(self, step: str) -> None:
        """Wait until the code has come to a step."""

        def reached(state: InstanceState) -> bool | None:
            return any(key.name == step for key in state.open) or None

        async with asyncio.timeout(10):
            await self.engine.until(KEY, reached)

    async def facts(self, key: InstanceKey = KEY) -> list[Fact]:
        stored = (await self.engine.journal.load([key])).get(key)
        assert isinstance(stored, tuple)
        return [entry.fact for _, entry in stored.entries]

    async def exists(self, key: InstanceKey = KEY) -> bool:
        return key in await self.engine.journal.existing([key])


async def worker(scope: Any, receive: Any, send: Any) -> None:
    """Answers whatever is no delivery, with its method and path."""
    text = f"{scope['method']} {scope['path']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def site(
    *webhooks: Webhook, journal: Journal | None = None, clock: VirtualClock | None = None
) -> AsyncGenerator[Site]:
    clock = clock or VirtualClock()
    definitions = [workflow("orders", orders), workflow("notes", notes)]
    engine = Engine(journal or MemoryJournal(), clock, definitions)
    await engine.start()
    taken = webhooks or tuple(map(webhook_of, SENDERS))
    transport = httpx.ASGITransport(WebhookApp(taken, engine, worker))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Site(client, engine, clock)
    finally:
        await engine.close()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert (body["success"], body["result"]) == (False, None)
    [error] = body["errors"]
    assert isinstance(error["code"], int)
    return answer.status_code, error["message"]


@every_sender
async def test_a_signed_delivery_is_an_event_of_the_instance(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        await it.becomes_asked_for("first")
        answer = await it.deliver(sender)
        assert answer.status_code == 202
        assert answer.json()["result"] == {"workflow": "orders", "instance": "order-7"}
        other = {"data": {"order_id": 7, "amount": 5}}
        assert (await it.deliver(sender, other, "e-2")).status_code == 202
        assert await it.output() == [EVENT["data"], other["data"]]


@every_sender
async def test_a_wrong_signature_stores_nothing(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        await it.becomes_asked_for("first")
        before = await it.facts()
        status, text = refusal(await it.deliver(sender, secret=b"guess"))
        assert status == 401
        assert sender.secret not in text
        assert await it.facts() == before


@pytest.mark.parametrize("sender", [each for each in SENDERS if each.signs_body])
async def test_a_changed_body_stores_nothing(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        status, text = refusal(await it.deliver(sender, changed=b" "))
        assert (status, text) == (401, "The signature does not match.")
        assert not [each for each in await it.facts() if isinstance(each, EventReceived)]


@pytest.mark.parametrize("sender", [each for each in SENDERS if each.is_timed])
async def test_an_old_delivery_is_refused_by_the_clock_of_the_engine(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        signed_s = it.clock.now_ms() // 1000
        await it.clock.advance(TOLERANCE_MS + 1_000)
        answer = await it.deliver(sender, sent_s=signed_s)
        assert refusal(answer) == (401, "The timestamp is too old: 300 seconds are allowed.")
        assert not [each for each in await it.facts() if isinstance(each, EventReceived)]


@every_sender
async def test_who_is_not_verified_learns_nothing_about_bodies_and_instances(
    sender: Sender,
) -> None:
    async with site() as it:
        bodies: list[object] = [EVENT, b"no JSON", {"data": None}]
        for body in bodies:
            status, _ = refusal(await it.deliver(sender, body, secret=b"guess"))
            assert status == 401


@every_sender
async def test_an_early_delivery_waits_for_the_workflow(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        early = [await it.deliver(sender, delivery=name) for name in ("e-1", "e-2")]
        assert [each.status_code for each in early] == [202, 202]
        assert await it.output() == [EVENT["data"], EVENT["data"]]


@every_sender
async def test_a_repeated_delivery_is_acknowledged_and_not_sent_twice(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        for _ in range(3):
            assert (await it.deliver(sender)).status_code == 202
        await it.becomes_asked_for("second")
        assert (await it.deliver(sender)).status_code == 202
        last = {"data": {"order_id": 7, "amount": 5}}
        assert (await it.deliver(sender, last, "e-2")).status_code == 202
        assert await it.output() == [EVENT["data"], last["data"]]
        assert (await it.deliver(sender)).status_code == 202


@every_sender
async def test_simultaneous_repetitions_are_one_event(sender: Sender) -> None:
    async with site() as it:
        await it.create()
        answers = await asyncio.gather(*(it.deliver(sender) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {202}
        await it.becomes_asked_for("second")
        assert not [each for each in await it.facts() if isinstance(each, EventReceived)]


@pytest.mark.parametrize("taken", [False, True])
async def test_a_repetition_is_known_for_one_after_a_restart(tmp_path: Path, taken: bool) -> None:
    clock = VirtualClock()
    path = tmp_path / "journal.sqlite"
    async with site(journal=SqliteJournal(path), clock=clock) as it:
        await it.create()
        await it.deliver(GITHUB)
        if taken:
            await it.becomes_asked_for("second")
    async with site(journal=SqliteJournal(path), clock=clock) as it:
        assert (await it.deliver(GITHUB)).status_code == 202
        await it.becomes_asked_for("second")
        assert not [each for each in await it.facts() if isinstance(each, EventReceived)]


async def test_deliveries_of_two_webhooks_may_have_one_name() -> None:
    async with site() as it:
        await it.create()
        await it.deliver(GITHUB)
        await it.deliver(SENDERS[0])
        assert await it.output() == [EVENT["data"], EVENT["data"]]


async def test_deliveries_without_a_name_are_all_different() -> None:
    async with site() as it:
        await it.create()
        headers = {"X-Token": SENDERS[4].secret}
        for _ in range(2):
            answer = await it.client.post("/token", json=EVENT, headers=headers)
            assert answer.status_code == 202
        assert await it.output() == [EVENT["data"], EVENT["data"]]


async def test_a_finished_instance_takes_no_new_delivery() -> None:
    async with site() as it:
        await it.create()
        for name in ("e-1", "e-2"):
            await it.deliver(GITHUB, delivery=name)
        await it.output()
        status, text = refusal(await it.deliver(GITHUB, delivery="e-3"))
        assert status == 409
        assert "finite state" in text


async def test_an_unknown_instance_is_not_found() -> None:
    async with site() as it:
        status, text = refusal(await it.deliver(GITHUB))
        assert (status, text) == (404, '(instance.not_found) Instance "order-7" does not exist')
        assert not await it.exists()


async def test_a_missing_instance_is_created_with_the_payload_and_sent_the_event() -> None:
    async with site(replace(webhook_of(GITHUB), create=True)) as it:
        assert (await it.deliver(GITHUB)).status_code == 202
        row = await it.engine.journal.row(KEY)
        assert row is not None
        assert values.decode(row.creation.params) == EVENT["data"]
        assert (await it.deliver(GITHUB)).status_code == 202
        await it.becomes_asked_for("second")
        assert (await it.deliver(GITHUB, delivery="e-2")).status_code == 202
        assert await it.output() == [EVENT["data"], EVENT["data"]]


class Recording(MemoryJournal):
    """A journal that remembers its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    async def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        await super().commit(commit)


async def test_an_instance_and_its_first_event_are_one_commit() -> None:
    journal = Recording()
    async with site(replace(webhook_of(GITHUB), create=True), journal=journal) as it:
        await it.deliver(GITHUB)
    [creating] = [commit for commit in journal.commits if commit.created]
    assert [row for row in creating.entries if isinstance(row.entry.fact, EventReceived)]


async def test_the_delivery_that_created_an_instance_is_known_after_its_end() -> None:
    starting = replace(webhook_of(GITHUB), create=True, workflow="notes")
    key = InstanceKey("notes", "order-7")
    async with site(starting) as it:
        answers = await asyncio.gather(*(it.deliver(GITHUB) for _ in range(3)))
        assert await it.output(key) == EVENT["data"]
        answers.append(await it.deliver(GITHUB))
        assert {answer.status_code for answer in answers} == {202}
        assert refusal(await it.deliver(GITHUB, delivery="e-2"))[0] == 409


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{]", r"The body of 2 bytes is not JSON: .*\(byte 1\)"),
        (b'{"data"', "The body of 7 bytes is not JSON: Input data was truncated"),
        (b"", "The body of 0 bytes is not JSON"),
        (b'"\xff"', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        ({"data": {}}, r'The body has no field "data\.order_id"\.'),
        ([1], r'The body has no field "data\.order_id"\.'),
        ({"data": {"order_id": {}}}, r'The field "data\.order_id" of the body is \{\}'),
        ({"data": {"order_id": "a/b!"}}, r'invalid id: "order-\{data\.order_id\}" is "order-a/b!"'),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_in_words(body: object, expected: str) -> None:
    async with site() as it:
        answer = await it.deliver(GITHUB, body)
        status, text = refusal(answer)
        assert status == 400
        assert re.search(expected, text), text


async def test_a_missing_payload_is_named() -> None:
    async with site(replace(webhook_of(GITHUB), payload=("data", "object"))) as it:
        expected = (400, 'The body has no field "data.object".')
        assert refusal(await it.deliver(GITHUB)) == expected


async def test_the_event_type_may_come_from_the_body() -> None:
    typed = replace(webhook_of(GITHUB), event=parse_template("{kind}"))
    async with site(typed) as it:
        await it.create()
        for name in ("e-1", "e-2"):
            await it.deliver(GITHUB, {**EVENT, "kind": "payment"}, name)
        assert await it.output() == [EVENT["data"], EVENT["data"]]
        status, text = refusal(await it.deliver(GITHUB, {**EVENT, "kind": "not one"}, "e-3"))
        assert status == 400
        assert '"{kind}" is "not one"' in text


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read_whole(
    monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr(app_module, "MAX_BODY_BYTES", 1_000)
    read: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(100):
            read.append(number)
            yield b"x" * 300

    async def stream() -> AsyncGenerator[bytes]:
        for chunk in chunks():
            yield chunk

    headers = {"content-length": "30000"} if announced else {}
    async with site() as it:
        answer = await it.client.post("/github", content=stream(), headers=headers)
        assert refusal(answer)[0] == 413
        assert len(read) <= 5


async def test_a_payload_over_one_mebibyte_is_too_large() -> None:
    async with site() as it:
        await it.create()
        body = {"data": {"order_id": 7, "text": "x" * 2**20}}
        status, text = refusal(await it.deliver(GITHUB, body))
        assert status == 413
        assert "1MiB" in text


async def test_what_is_no_delivery_goes_to_the_worker() -> None:
    async with site() as it:
        for method, path in (("GET", "/github"), ("POST", "/"), ("POST", "/github/x")):
            answer = await it.client.request(method, path)
            assert answer.text == f"{method} {path}"


async def test_a_stopped_engine_takes_nothing() -> None:
    async with site() as it:
        await it.create()
        await it.engine.close()
        assert refusal(await it.deliver(GITHUB))[0] == 500
