"""Hooks and runs in the engine's process and over HTTP: the same answers, and the same exceptions with all their fields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, field_validator

from bindings import Workflow, WorkflowStep, define_hook
from bindings.ambient import hosting
from bindings.run import Run
from bindings.wire import PREFIX
from emulator import errors
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.journal.port import HookQuery
from tests.unit.bindings.hosts import Way, both_ways, in_process, over_http, transport_to
from tests.unit.bindings.project import NAME, Project, in_virtual_time
from tests.unit.bindings.project import refusal_of as refused


@dataclass
class Approval:
    """What the hook "doc" takes."""

    approved: bool
    by: str = "nobody"


class Doubled(BaseModel):
    """What the hook "doubled" takes: a check that must not be made twice."""

    count: int

    @field_validator("count")
    @classmethod
    def double(cls, count: int) -> int:
        return count * 2


doubled = define_hook(schema=Doubled)


async def collects(event: JsDict, step: WorkflowStep) -> Any:
    """Takes payloads until one is "last", or fails."""
    if event.payload == "sleep":
        await step.sleep("nap", "1 day")
    if event.payload == "doc":
        approval = await step.create_hook(token="doc", schema=Approval)
        assert isinstance(approval, Approval)
        return vars(approval)
    if event.payload == "doubled":
        return [each async for each in doubles(step)]
    taken: list[object] = []
    async for payload in step.create_hook(token="t"):
        if payload == "fail":
            raise ValueError("broken")
        taken.append(payload)
        if payload == "last":
            break
    return taken


async def doubles(step: WorkflowStep) -> AsyncIterator[int]:
    """What is stored of four payloads; to make objects of them doubles them once more."""
    hook = doubled.create(step, token="doubled")
    for _ in range(4):
        payload = await hook
        assert isinstance(payload, Doubled)
        yield payload.count


def run_of(orders: Workflow, instance_id: str, workflow: str = NAME) -> Run:
    """A handle, on whatever host the binding is."""
    host: Any = vars(orders)["_host"]
    return Run(host, InstanceKey(workflow, instance_id))


@both_ways
@in_virtual_time
async def test_a_token_is_claimed_and_its_holder_found(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        await orders.create(
            id="a",
            hook={"token": "t", "metadata": {"raw": b"x"}},
            minRetention="1 day",
            attributes={"who": "me"},
        )
        hook = await orders.get_hook_by_token("t")
        assert (hook.run_id, hook.workflow_name, hook.token) == ("a", NAME, "t")
        assert (hook.metadata, hook.is_webhook) == ({"raw": b"x"}, False)
        assert hook.retain_until is not None
        assert (hook.retain_until - hook.created_at).total_seconds() == 86_400
        assert hook.created_at == datetime.fromtimestamp(project.now_ms() / 1000, UTC)
        assert await run_of(orders, "a").attributes() == {"who": "me"}


@both_ways
@in_virtual_time
async def test_a_conflict_has_all_its_fields(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        await orders.create(id="a", hook="t")
        error = await refused(orders.create(id="a", hook={"token": "t"}))
        assert isinstance(error, errors.HookConflictError)
        assert (error.token, error.conflicting_run_id) == ("t", "a")
        assert (error.conflicting_workflow, error.index) == (NAME, None)
        error = await refused(orders.create_batch([{"id": "b"}, {"id": "c", "hook": "t"}]))
        assert isinstance(error, errors.HookConflictError)
        assert (error.conflicting_run_id, error.index) == ("a", 1)
        made = await orders.create_batch([{"id": "a"}, {"id": "d", "hook": "u"}])
        assert [each.id for each in made] == ["d"]
        batch = await orders.create_batch(
            instances=[{"id": "e", "hook": "t"}, {"id": "f", "hook": "v"}, {"id": "a"}]
        )
        assert [each.id for each in batch.created] == ["f"]
        conflict, taken = batch.errors
        assert conflict.pop("message")
        assert conflict == {
            "index": 0,
            "id": "e",
            "code": "hook_conflict",
            "token": "t",
            "conflicting_run_id": "a",
            "conflicting_workflow": NAME,
        }
        assert (taken.index, taken.code) == (2, 10405)
        assert await project.listed() == {"a", "d", "f"}


@both_ways
@in_virtual_time
async def test_payloads_arrive_as_what_they_are_and_once(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(id="a", hook="t")
        payload = {"raw": b"x", "set": {1}, "at": datetime(2026, 1, 2, tzinfo=UTC)}
        first = await orders.resume_hook("t", payload, resume_id="r")
        again = await orders.resumeHook(first, payload, resume_id="r")
        assert first == again
        assert first == await orders.get_hook_by_token("t")
        error = await refused(orders.resume_hook("t", {}, resume_id="r"))
        assert type(error) is errors.HookResumeConflictError
        await orders.resume_hook("t")
        await orders.resume_hook("t", "last")
        assert (await project.ended(made)).output == [payload, None, "last"]
        for call in (orders.resume_hook("t", 1), orders.get_hook_by_token("t")):
            error = await refused(call)
            assert isinstance(error, errors.HookNotFoundError)
            assert error.token == "t"


@both_ways
@in_virtual_time
async def test_a_schema_is_checked_where_the_instance_runs(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(id="a", params="doc")
        await project.becomes(made, "waiting")
        error = await refused(orders.resume_hook("doc", {"approved": 1}))
        assert type(error) is errors.TypeValidationError
        assert "$.approved" in str(error)
        await orders.resume_hook("doc", {"approved": True})
        assert (await project.ended(made)).output == {"approved": True, "by": "nobody"}


@both_ways
@in_virtual_time
async def test_a_schema_is_checked_once(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(id="a", params="doubled")
        await project.becomes(made, "waiting")
        host: Any = vars(orders)["_host"]
        await orders.resume_hook("doubled", {"count": 1})
        await orders.resume_hook("doubled", Doubled(count=1))
        with hosting(host):
            await doubled.resume("doubled", {"count": 1})
            await doubled.resume("doubled", Doubled(count=1))
        assert (await project.ended(made)).output == [4, 4, 4, 4]


@both_ways
@in_virtual_time
async def test_an_object_of_the_class_is_a_payload(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(params="doc")
        await project.becomes(made, "waiting")
        await orders.resume_hook("doc", Approval(approved=True, by="me"))
        assert (await project.ended(made)).output == {"approved": True, "by": "me"}


@both_ways
@in_virtual_time
async def test_a_run_tells_how_it_is_and_what_came_of_it(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(id="a", hook="t")
        run = run_of(orders, "a")
        assert (await run.exists(), await run.status()) == (True, "running")
        value = asyncio.create_task(run.return_value())
        await orders.resume_hook("t", "last")
        assert await value == ["last"]
        assert await run.status() == "completed"
        error = await refused(run.cancel())
        assert type(error) is errors.EntityConflictError
        await made.delete()
        assert not await run.exists()
        error = await refused(run.return_value())
        assert isinstance(error, errors.WorkflowRunNotFoundError)
        assert error.run_id == "a"


@both_ways
@in_virtual_time
async def test_a_run_that_failed_or_was_cancelled_says_so(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        await orders.create(id="a", hook="t")
        await orders.resume_hook("t", "fail")
        await project.ended("a")
        error = await refused(run_of(orders, "a").return_value())
        assert isinstance(error, errors.WorkflowRunFailedError)
        assert (error.run_id, error.error_name, error.error_message) == (
            "a",
            "ValueError",
            "broken",
        )
        await orders.create(id="b", hook="t")
        run = run_of(orders, "b")
        for _ in range(2):
            await run.cancel("superseded")
        assert await run.status() == "cancelled"
        error = await refused(run.return_value())
        assert isinstance(error, errors.WorkflowRunCancelledError)
        assert error.run_id == "b"


@both_ways
@in_virtual_time
async def test_a_run_is_found_by_its_id_and_woken_up(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        made = await orders.create(id="a", params="sleep")
        await project.becomes(made, "waiting")
        run = run_of(orders, "a", workflow="")
        assert await run.wake_up(["nap-2"]) == 0
        assert run.workflow_name == NAME
        assert await run.wakeUp(["nap-1"]) == 1
        assert await run.wake_up() == 0
        for call in (
            run_of(orders, "nobody", "").status(),
            run_of(orders, "nobody").wake_up(),
            run_of(orders, "nobody").attributes(),
        ):
            assert type(await refused(call)) is errors.WorkflowRunNotFoundError


REFUSALS: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "blank token": (errors.InvalidHook, {"hook": " "}),
    "no token": (errors.InvalidHook, {"hook": {}}),
    "long token": (errors.InvalidHook, {"hook": "x" * 513}),
    "unknown key": (TypeError, {"hook": {"token": "a", "is_webhook": True}}),
    "nothing to retain": (errors.InvalidHook, {"min_retention": 1}),
    "past": (errors.InvalidHook, {"hook": "a", "min_retention": datetime(2020, 1, 1, tzinfo=UTC)}),
    "naive": (errors.InvalidHook, {"hook": "a", "min_retention": datetime(2030, 1, 1)}),
    "too long": (errors.HookRetentionTooLong, {"hook": "a", "min_retention": "31 days"}),
    "metadata": (errors.SerializationError, {"hook": {"token": "a", "metadata": object()}}),
    "attributes": (errors.InvalidAttributes, {"attributes": {"$a": "b"}}),
}


@pytest.mark.parametrize("case", REFUSALS)
@in_virtual_time
async def test_a_refusal_is_the_same_exception(case: str) -> None:
    kind, given = REFUSALS[case]
    told: list[str] = []
    for way in (in_process, over_http):
        async with Project(collects) as project, way(project) as orders:
            error = await refused(orders.create(**given))
            assert type(error) is kind
            told.append(str(error).split(" at 0x")[0])
            assert await project.listed() == set()
    assert told[0] == told[1]


@both_ways
@in_virtual_time
async def test_a_payload_that_cannot_be_stored_is_refused(way: Way) -> None:
    async with Project(collects) as project, way(project) as orders:
        await orders.create(id="a", hook="t")
        error = await refused(orders.resume_hook("t", {"x": object()}))
        assert type(error) is errors.SerializationError
        error = await refused(orders.resume_hook("t", "x" * 2**21))
        assert type(error) is errors.PayloadTooLarge
        assert type(await refused(orders.resume_hook("t", resume_id=""))) is errors.InvalidHook


@in_virtual_time
async def test_only_a_run_says_what_a_hook_is() -> None:
    async with (
        Project(collects) as project,
        httpx.AsyncClient(transport=transport_to(project)) as client,
    ):
        hook = {"hook_id": "mine", "token": "t", "is_webhook": True, "schema": "os:system"}
        body = {"instances": [{"id": "a", "params": 1, "hook": hook}]}
        url = f"http://localhost{PREFIX}"
        assert (await client.post(f"{url}/{NAME}/instances", json=body)).status_code == 200
        [record] = await project.journal.hooks(HookQuery())
        assert (record.token, record.is_webhook, record.schema) == ("t", False, None)
        assert record.hook_id != "mine"


@in_virtual_time
async def test_what_a_foreign_client_sends_is_held_against_the_schema() -> None:
    async with (
        Project(collects) as project,
        httpx.AsyncClient(transport=transport_to(project)) as client,
    ):
        await project.becomes(await project.workflow.create(params="doc"), "waiting")
        body = {"token": ["", "doc"], "payload": {"approved": 1}}
        answer = await client.post(f"http://localhost{PREFIX}/resume", json=body)
        assert answer.status_code == 400
        assert answer.json()["refusal"]["type"] == "TypeValidationError"
