"""The binding of another process does what a Worker's does, and refuses what it refuses, in the same words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from bindings import Workflow, WorkflowStep
from bindings.http import HttpWorkflow
from bindings.wire import PREFIX, exception_of, refusal_of
from emulator import errors
from emulator.domain.values import JsDict
from emulator.errors import ConfigError, EmulatorError, EngineStopped
from tests.product_errors import product_errors
from tests.unit.bindings.hosts import Way, both_ways, in_process, over_http, transport_to
from tests.unit.bindings.project import (
    ONCE,
    Project,
    in_virtual_time,
    pause_for,
)
from tests.unit.bindings.project import (
    refusal_of as refused,
)
from wrangler_compat.server import Access

Call = Callable[[Workflow], Awaitable[Any]]


async def answers(event: JsDict, step: WorkflowStep) -> Any:
    """One step with a slow rollback, then an event."""

    async def release() -> None:
        await pause_for(100)

    @step.do("reserve", config=ONCE, rollback=release)
    async def reserve() -> str:
        return "reserved"

    await reserve()
    answer = await step.wait_for_event("answer", "answer", timeout="1 hour")
    return {"params": event["payload"], "answer": answer.get("payload")}


VALUES: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "aware": datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC),
    "naive": datetime(2026, 1, 2),
    "set": {1, "a"},
    "large": 2**70,
    "infinite": float("inf"),
    "lone": "\ud800\u2028",
    "keys": {1: [None, True, 1.5]},
    "$": "dollar",
}


@both_ways
@in_virtual_time
async def test_values_arrive_as_what_they_are(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create(params=VALUES)
        await instance.send_event(type="answer", payload=VALUES)
        await project.ended(instance.id)
        output = (await instance.status()).output
        assert output == {"params": VALUES, "answer": VALUES}
        assert output.answer.bytes == VALUES["bytes"]


@both_ways
@in_virtual_time
async def test_an_instance_is_created_found_and_removed(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        made = await orders.create({"id": "a", "retention": {"success_retention": "1 day"}})
        assert (made.id, (await orders.get("a")).id) == ("a", "a")
        assert [each.id for each in await orders.create_batch([{"id": "a"}, {"id": "b"}])] == ["b"]
        batch = await orders.createBatch({"instances": [{"id": "c"}, {"id": "c"}, {"id": "a"}]})
        assert [each.id for each in batch.created] == ["c"]
        assert [(each.index, each.code) for each in batch.errors] == [(1, 10415), (2, 10405)]
        assert len((await orders.create_batch(count=2, params=1)).created) == 2
        assert await orders.deleteBatch(["b", "x", "b"]) == {
            "deleted": [{"id": "b"}, {"id": "b"}],
            "errors": [
                {"id": "x", "code": 10400, "message": "workflows.api.error.instance.not_found"}
            ],
        }
        await made.delete()
        assert {"a", "b"}.isdisjoint(await project.listed())


@both_ways
@in_virtual_time
async def test_an_instance_is_steered(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        await project.becomes(instance.id, "waiting")
        await instance.pause()
        assert (await instance.status()).status == "paused"
        await instance.resume()
        await instance.sendEvent({"type": "answer"})
        await project.ended(instance.id)
        assert await instance.status() == {
            "status": "complete",
            "error": None,
            "output": {"params": {}, "answer": None},
            "rollback": None,
        }
        await instance.restart({"from": {"name": "answer", "type": "waitForEvent"}})
        await project.becomes(instance.id, "waiting")


@both_ways
@in_virtual_time
async def test_a_termination_waits_for_its_rollback(way: Way) -> None:
    async with Project(answers) as project, way(project) as orders:
        instance = await orders.create()
        await project.becomes(instance.id, "waiting")
        began_ms = project.now_ms()
        await instance.terminate(rollback=True)
        assert project.now_ms() - began_ms >= 100_000
        status = await instance.status()
        assert (status.status, status.rollback.outcome) == ("terminated", "complete")


async def _gone(orders: Workflow, call: str, *arguments: Any) -> None:
    instance = await orders.create()
    await instance.delete()
    await getattr(instance, call)(*arguments)


async def _on(orders: Workflow, instance_id: str, call: str, *arguments: Any) -> None:
    await getattr(await orders.get(instance_id), call)(*arguments)


REFUSALS: dict[str, tuple[type[Exception], Call]] = {
    "id": (errors.InvalidInstanceId, lambda orders: orders.create(id="no good")),
    "id taken": (errors.InstanceAlreadyExists, lambda orders: orders.create(id="done")),
    "retention": (
        errors.InvalidRetention,
        lambda orders: orders.create(retention={"error_retention": "31 days"}),
    ),
    "params": (errors.SerializationError, lambda orders: orders.create(params={"x": [(1,)]})),
    "large params": (
        errors.PayloadTooLarge,
        lambda orders: orders.create(params="x" * 2**20 + "x"),
    ),
    "option": (TypeError, lambda orders: orders.create(identity="a")),
    "no batch": (errors.InvalidBatch, lambda orders: orders.create_batch([])),
    "large batch": (errors.InvalidBatch, lambda orders: orders.create_batch(count=101)),
    "batch of what": (errors.InvalidBatch, lambda orders: orders.create_batch(1)),
    "id in a batch": (errors.InvalidInstanceId, lambda orders: orders.create_batch([{"id": "-"}])),
    "reserved id": (
        errors.InvalidInstanceId,
        lambda orders: orders.create_batch(instances=[{"id": "batch"}]),
    ),
    "batch too large": (
        errors.PayloadTooLarge,
        lambda orders: orders.create_batch([{"params": "x" * 600_000}] * 2),
    ),
    "unknown": (errors.InstanceNotFound, lambda orders: orders.get("nobody")),
    "impossible": (errors.InvalidInstanceId, lambda orders: orders.get("no$")),
    "delete none": (errors.InvalidBatch, lambda orders: orders.delete_batch([])),
    "delete what": (errors.InvalidInstanceId, lambda orders: orders.delete_batch(["no$"])),
    "terminate": (errors.CannotTerminate, lambda orders: _on(orders, "done", "terminate")),
    "rollback": (
        errors.InvalidInput,
        lambda orders: _on(orders, "done", "terminate", {"rollback": 1}),
    ),
    "restart from": (
        errors.StepNotFound,
        lambda orders: _on(orders, "done", "restart", {"from": {"name": "nothing"}}),
    ),
    "restart how": (
        errors.InvalidInput,
        lambda orders: _on(orders, "done", "restart", {"from": {"name": "a", "count": "2"}}),
    ),
    "event too late": (
        errors.InstanceFinished,
        lambda orders: _on(orders, "done", "send_event", {"type": "answer"}),
    ),
    "event type": (
        errors.InvalidEventType,
        lambda orders: _on(orders, "done", "send_event", {"type": "a.b"}),
    ),
    "payload": (
        errors.SerializationError,
        lambda orders: _on(orders, "done", "send_event", {"type": "a", "payload": {"x": object}}),
    ),
    "large payload": (
        errors.PayloadTooLarge,
        lambda orders: _on(orders, "done", "send_event", {"type": "a", "payload": b"x" * 2**21}),
    ),
    "cursor": (
        errors.InvalidSubscription,
        lambda orders: _on(orders, "done", "subscribe", {"cursor": -1}),
    ),
    "follow nobody": (errors.InstanceNotFound, lambda orders: _gone(orders, "subscribe")),
    "status of nobody": (errors.InstanceNotFound, lambda orders: _gone(orders, "status")),
    "pause nobody": (errors.InstanceNotFound, lambda orders: _gone(orders, "pause")),
    "delete nobody": (errors.InstanceNotFound, lambda orders: _gone(orders, "delete")),
    "event to nobody": (
        errors.InstanceNotFound,
        lambda orders: _gone(orders, "send_event", {"type": "answer"}),
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
@in_virtual_time
async def test_a_refusal_is_the_same_exception(case: str) -> None:
    kind, call = REFUSALS[case]
    told: list[tuple[Any, ...]] = []
    for way in (in_process, over_http):
        async with Project(answers) as project, way(project) as orders:
            # The ids that are made up are in some messages.
            await orders.create(id="done")
            await (await orders.get("done")).send_event(type="answer")
            await project.ended("done")
            error = await refused(call(orders))
            assert type(error) is kind
            text = str(error)
            for each in await project.listed() | {"done"}:
                text = text.replace(each, "<id>")
            told.append(
                (_without_ids(text), getattr(error, "code", ""), getattr(error, "name", ""))
            )
    assert told[0] == told[1]


def _without_ids(text: str) -> str:
    return text if '(instance.not_found) Instance "' not in text else "(instance.not_found)"


@both_ways
@in_virtual_time
async def test_an_unknown_workflow_and_a_stopped_engine_are_said(way: Way) -> None:
    async with Project(answers) as project:
        async with way(project, "nothing") as unknown:
            assert type(await refused(unknown.create())) is errors.WorkflowNotFound
        async with way(project) as orders:
            instance = await orders.create()
            await project.engine.close()
            for call in (orders.create(), orders.get("a"), instance.status(), instance.pause()):
                assert type(await refused(call)) is EngineStopped


@pytest.mark.parametrize("kind", product_errors())
def test_every_exception_survives_the_journey(kind: type[EmulatorError]) -> None:
    error = kind("what is wrong")
    again = exception_of(refusal_of(error))
    assert type(again) is kind
    assert (again.code, again.name, again.message, str(again)) == (
        error.code,
        error.name,
        error.message,
        str(error),
    )


def test_an_exception_of_a_later_version_keeps_its_code_and_text() -> None:
    sent = refusal_of(EmulatorError("new")).__class__("NewError", "new.code", "Error", "new", "why")
    error = exception_of(sent)
    assert (type(error), error.code, error.message) == (EmulatorError, "new.code", "new")


async def test_a_url_where_nobody_answers_or_that_is_none_is_named() -> None:
    async with HttpWorkflow("http://127.0.0.1:9", "orders") as orders:
        error = await refused(orders.create())
    assert type(error) is EngineStopped
    assert "http://127.0.0.1:9" in str(error)
    async with HttpWorkflow("nowhere", "orders") as orders:
        assert type(await refused(orders.create())) is ConfigError


@pytest.mark.parametrize("token", ["é", ""])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="The API token can only have"):
        HttpWorkflow("http://localhost", "orders", token=token)


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_another_server_is_no_emulator(status: int) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text="<html>"))
    async with HttpWorkflow("http://localhost", "orders", transport=transport) as orders:
        for call in (orders.create(), orders.get("a")):
            error = await refused(call)
            assert type(error) is EngineStopped
            assert "is no workflow-emulator" in str(error)


@in_virtual_time
async def test_a_server_with_a_token_lets_only_its_holder_in() -> None:
    async with Project(answers) as project:
        transport = transport_to(project, Access("secret"))
        async with HttpWorkflow("http://localhost", "orders", transport=transport) as orders:
            assert type(await refused(orders.create())) is ConfigError
        async with HttpWorkflow(
            "http://localhost", "orders", token="secret", transport=transport
        ) as orders:
            await orders.create(id="a")


BAD_REQUESTS: list[tuple[str, str, bytes]] = [
    ("POST", "/orders/instances", b"nonsense"),
    ("POST", "/orders/instances", b'{"instances": []}'),
    ("POST", "/orders/instances", b'{"instances": [{"id": "no good", "params": 1}]}'),
    ("POST", "/orders/instances", b'{"instances": [{"id": "a", "params": {"$": "bytes"}}]}'),
    (
        "POST",
        "/orders/instances",
        b'{"instances": [{"id": "a", "params": {"$": "str", "value": 1}}]}',
    ),
    ("POST", "/orders/instances", b'{"instances": [{"id": "a", "params": ' + b"[" * 9_999),
    (
        "POST",
        "/orders/instances",
        b'{"instances": [{"id": "a", "params": 1, "error_retention_ms": 9999999999999}]}',
    ),
    *(
        (
            "POST",
            "/orders/instances",
            b'{"instances": [{"id": "a", "params": 1, "hook": ' + hook + b"}]}",
        )
        for hook in (
            b'{"hook_id": "", "token": " "}',
            b'{"hook_id": "", "token": "t", "metadata": {"$": "bytes"}}',
            b'{"hook_id": "", "token": "t", "min_retention": {}}',
            b'{"hook_id": "", "token": "t", "min_retention": {"duration_ms": 0}}',
            b'{"hook_id": "", "token": "t", "min_retention": {"duration_ms": 2592000001}}',
            b'{"hook_id": "", "token": "t", "min_retention": {"until_ms": 1}}',
            b'{"hook_id": "", "token": "t", "min_retention": {"until_ms": 9999999999999}}',
        )
    ),
    ("POST", "/find", b'"no$"'),
    ("POST", "/holder", b'"t"'),
    ("POST", "/resume", b'{"token": ["", "t"]}'),
    ("POST", "/resume", b'{"token": ["", "t"], "payload": {"$": 1}}'),
    ("POST", "/orders/instances/a", b'{"ask": "wake_up", "labels": 1}'),
    ("POST", "/orders/instances/a", b'{"ask": "attributes", "changes": {"$a": "b"}}'),
    ("POST", "/orders/instances/a", b"[]"),
    ("POST", "/orders/instances/a", b'{"ask": "explode"}'),
    ("POST", "/orders/instances/a", b'{"ask": "terminate", "rollback": 1}'),
    ("POST", "/orders/instances/a", b'{"ask": "terminate", "reason": "%s"}' % (b"x" * 513)),
    ("POST", "/orders/instances/a", b'{"ask": "restart", "holders": []}'),
    ("POST", "/orders/instances/a", b'{"ask": "event", "event_type": "a", "delivery_id": "d"}'),
    ("POST", "/orders/instances/a", b'{"ask": "event", "event_type": "a b"}'),
    ("POST", "/orders/instances/a", b'{"ask": "event", "event_type": "a", "payload": {"$": 1}}'),
    ("GET", "/orders/instances/a/subscribe?filter=nothing", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), BAD_REQUESTS)
@in_virtual_time
async def test_what_a_foreign_client_sends_is_checked(method: str, path: str, body: bytes) -> None:
    async with Project(answers) as project:
        async with httpx.AsyncClient(transport=transport_to(project)) as client:
            response = await client.request(method, f"http://localhost{PREFIX}{path}", content=body)
            assert response.status_code == 400
            kind = getattr(errors, response.json()["refusal"]["type"])
            assert issubclass(kind, errors.InvalidInput)
        assert await project.listed() == set()
