"""Tenants: pinned to their code, and alone in their world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import Workflow
from bindings.dynamic import (
    DynamicCodeNotFoundError,
    ProcessLimits,
    code_store,
    create_dynamic_workflow_entrypoint,
    wrap_workflow_binding,
)
from bindings.dynamic.code import LoadedCodes
from bindings.http import HttpWorkflow
from emulator.domain.instance import InstanceKey, scope_of
from emulator.errors import (
    InstanceAlreadyExists,
    InstanceNotFound,
    InvalidInput,
    PayloadTooLarge,
    SerializationError,
)
from emulator.journal.codes import MemoryCodes
from emulator.journal.port import InstanceQuery
from tests.unit.bindings.project import in_virtual_time
from tests.unit.dynamic.dispatcher import NAME, SHOP, Dispatcher, saying, source

TELL = source("return [event.payload, event.instanceId, event.workflowName, vars(self.env)]")


@in_virtual_time
async def test_an_instance_goes_on_with_the_code_that_it_was_created_with() -> None:
    async with Dispatcher(max_live=0) as running:
        old_hash = await running.publish("acme", "v1", saying("old", naps=2))
        old = await running.binding("acme").create()
        await running.becomes("acme", old, "waiting")
        new_hash = await running.publish("acme", "v2", saying("new", naps=2))
        await running.engine.kill()
        await running.restart()
        new = await running.binding("acme").create()
        chosen = await running.binding("acme", "v1").create()
        assert (await running.ended("acme", old))["output"] == "old"
        assert (await running.ended("acme", new))["output"] == "new"
        assert (await running.ended("acme", chosen))["output"] == "old"
        codes = [(await running.state("acme", each)).creation.code for each in (old, new, chosen)]
        assert codes == [old_hash, new_hash, old_hash]


@in_virtual_time
async def test_a_restart_runs_the_same_code_again() -> None:
    async with Dispatcher() as running:
        assert await running.result("acme", saying("old"), id="i") == "old"
        await running.publish("acme", "v2", saying("new"))
        again = await running.binding("acme").get("i")
        await again.restart()
        assert (await running.ended("acme", again))["output"] == "old"


@in_virtual_time
async def test_the_envelope_is_not_seen_by_the_tenant() -> None:
    workflow = create_dynamic_workflow_entrypoint(
        tenant_env=lambda metadata, env: {"PLAN": metadata.plan, "SHARED": env}
    )
    async with Dispatcher(workflow, env="the Worker's") as running:
        await running.publish("acme", "v1", TELL)
        instance = await running.binding("acme", plan="free").create(id="i", params={"n": 1})
        status = await running.ended("acme", instance)
        env = {"PLAN": "free", "SHARED": "the Worker's"}
        assert status["output"] == [{"n": 1}, "i", NAME, env]
        assert instance.id == "i"
        events: list[Any] = []
        async with instance.subscribe() as following:
            events = [event async for event in following]
        assert {event.instanceId for event in events} == {"i"}
        assert [event.params for event in events if "params" in event] == [{"n": 1}]


@in_virtual_time
async def test_tenants_with_the_same_ids_do_not_see_each_other() -> None:
    code = source("return (await step.wait_for_event('w', 'go')).payload")
    async with Dispatcher() as running:
        bindings = {name: running.binding(name) for name in ("acme", "zenith")}
        for tenant in bindings:
            await running.publish(tenant, "v1", code)
        handles = {name: await each.create(id="same") for name, each in bindings.items()}
        for tenant, handle in handles.items():
            await handle.send_event(type="go", payload=tenant)
        for tenant, handle in handles.items():
            assert (await running.ended(tenant, handle))["output"] == tenant

        only = await bindings["acme"].create(id="only")
        for foreign in ("only", "acme:only"):
            with pytest.raises(InstanceNotFound, match=f'^[^:]*"{foreign}" does not exist'):
                await bindings["zenith"].get(foreign)
        gone = await bindings["zenith"].delete_batch(["only", "same"])
        assert [each.id for each in gone.deleted] == ["same"]
        assert [each.id for each in gone.errors] == ["only"]
        assert (await only.status()).status == "running"
        with pytest.raises(InstanceAlreadyExists, match='id "only" already exists'):
            await bindings["acme"].create(id="only")
        created = await bindings["acme"].create_batch([{"id": "only"}, {"id": "another"}])
        assert [each.id for each in created] == ["another"]
        with pytest.raises(InstanceNotFound, match='"same" does not exist'):
            await handles["zenith"].status()

        listed = await running.journal.rows(InstanceQuery(NAME, ascending=True))
        ids = [row.creation.id for row in listed]
        assert ids == ["acme:same", "acme:only", "acme:another"]
        assert {scope_of(each) for each in ids} == {"acme"}
        assert (await (await running.raw.get("acme:only")).status()).status


@in_virtual_time
async def test_a_handle_of_one_that_is_gone_speaks_of_the_tenants_id() -> None:
    async with Dispatcher() as running:
        await running.publish("acme", "v1", saying("hello", naps=1))
        instance = await running.binding("acme").create(id="i")
        await instance.delete()
        events = instance.subscribe()
        for asking in (instance.pause(), instance.status(), events.next()):
            with pytest.raises(InstanceNotFound, match='"i" does not exist'):
                await asking


@in_virtual_time
async def test_a_missing_code_is_an_error_at_create_and_writes_nothing() -> None:
    async with Dispatcher() as running:
        with pytest.raises(DynamicCodeNotFoundError):
            await running.binding("acme").create()
        await running.publish("acme", "v1", saying("hello"))
        with pytest.raises(DynamicCodeNotFoundError, match="There are: v1"):
            await running.binding("acme", "v2").create_batch([{}, {}])
        with pytest.raises(DynamicCodeNotFoundError):
            await running.binding("zenith").create()
        assert await running.journal.rows(InstanceQuery(NAME)) == []


@in_virtual_time
async def test_a_code_that_is_gone_at_resume_errors_its_instance_by_name() -> None:
    async with Dispatcher(max_live=0) as running:
        await running.publish("acme", "v1", saying("hello", naps=1))
        instance = await running.binding("acme").create()
        await running.becomes("acme", instance, "waiting")
        codes = running.journal.codes
        assert isinstance(codes, MemoryCodes)
        codes.__init__()
        running.tenants.loaded = LoadedCodes()
        error = (await running.ended("acme", instance))["error"]
        assert error["name"] == "DynamicCodeNotFoundError"
        assert "not in the store any more" in error["message"]


def no_runner(**_: Any) -> None:
    """A loader that is not asked for anything."""


@pytest.mark.parametrize("loader", [None, no_runner])
def test_an_instance_that_no_tenant_created_is_refused_by_its_run(loader: Any) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Dispatcher(create_dynamic_workflow_entrypoint(loader)) as running:
            payloads: list[Any] = [{}, None, {"__dispatcherMetadata": {}}]
            for params in payloads:
                instance = await running.raw.create(params=params)
                key = InstanceKey(NAME, instance.id)
                await running.engine.until(key, lambda state: state.is_terminal or None)
                error = (await instance.status()).error
                assert error.name == "MissingDispatcherMetadataError"

    test()


@in_virtual_time
async def test_an_instance_without_code_says_so() -> None:
    async with Dispatcher() as running:
        binding = wrap_workflow_binding({"tenant": "acme"}, binding=running.raw)
        error = (await running.ended("acme", await binding.create()))["error"]
        assert error["name"] == "DynamicCodeNotFoundError"
        assert "without code" in error["message"]


@in_virtual_time
async def test_a_loader_at_create_pins_what_it_gives() -> None:
    answers = iter([saying("first", naps=1), saying("second", naps=1)])

    async def load(metadata: Any) -> str:
        assert metadata == {"tenant": "acme"}
        return next(answers)

    async with Dispatcher(max_live=0) as running:
        binding = wrap_workflow_binding({"tenant": "acme"}, binding=running.raw, load=load)
        instances = [await binding.create() for _ in range(2)]
        await running.restart()
        outputs = [(await running.ended("acme", each))["output"] for each in instances]
        assert outputs == ["first", "second"]


@in_virtual_time
async def test_a_loader_at_every_run_decides_by_the_metadata() -> None:
    loads: list[Any] = []

    class Runner:
        """What a dispatcher of its own makes of the metadata."""

        def __init__(self, word: str) -> None:
            self._word = word

        async def run(self, event: Any, step: Any) -> Any:
            await step.sleep("nap", "1 hour")
            return [self._word, event.payload, event.instanceId]

    async def load_runner(*, metadata: Any, env: Any, ctx: Any) -> Any:
        loads.append((metadata, env))
        if metadata.word == "raise":
            raise LookupError("no such code")
        return Runner(metadata.word) if metadata.word != "nothing" else object()

    workflow = create_dynamic_workflow_entrypoint(load_runner)
    async with Dispatcher(workflow, env="env", max_live=0) as running:

        async def outcome(word: str) -> Any:
            binding = wrap_workflow_binding({"word": word}, tenant="acme", binding=running.raw)
            instance = await binding.create(id=word, params=7)
            return await running.ended("acme", instance)

        assert (await outcome("hello"))["output"] == ["hello", 7, "hello"]
        assert loads == [({"word": "hello"}, "env")] * 2, "once for each incarnation"
        assert (await outcome("raise"))["error"] == {
            "name": "LookupError",
            "message": "no such code",
        }
        error = (await outcome("nothing"))["error"]
        assert error["name"] == "TypeError"
        assert "object with a run(event, step)" in error["message"]


@in_virtual_time
async def test_what_a_wrapped_binding_is_made_of_is_checked() -> None:
    async with Dispatcher() as running:
        for metadata in ({}, {"tenant": "a/b"}, {"tenant": 7}):
            with pytest.raises(InvalidInput, match="name of a tenant"):
                wrap_workflow_binding(metadata, binding=running.raw)
        with pytest.raises(SerializationError, match="metadata of a tenant at plan"):
            wrap_workflow_binding({"tenant": "acme", "plan": (1,)}, binding=running.raw)
        with pytest.raises(TypeError, match="name or load"):
            wrap_workflow_binding(
                {"tenant": "acme"}, binding=running.raw, name=SHOP, load=lambda _: ""
            )
        await running.publish("acme", "v1", saying("hello"))
        with pytest.raises(PayloadTooLarge, match="together"):
            await running.binding("acme", note="x" * 1_000).create(params="x" * (2**20 - 500))


async def test_another_process_has_no_store_here() -> None:
    async with HttpWorkflow("http://localhost:1", NAME) as elsewhere:
        with pytest.raises(TypeError, match="over HTTP"):
            code_store(elsewhere)
        with pytest.raises(TypeError, match="over HTTP"):
            wrap_workflow_binding({"tenant": "acme"}, binding=elsewhere)


def test_options_that_do_nothing_are_refused() -> None:
    with pytest.raises(TypeError, match="A loader of your own"):
        create_dynamic_workflow_entrypoint(no_runner, isolation="process")
    with pytest.raises(TypeError, match="limits are those of a process"):
        create_dynamic_workflow_entrypoint(limits=ProcessLimits())


@in_virtual_time
async def test_the_store_is_reached_by_a_binding() -> None:
    async with Dispatcher() as running:
        store = code_store(running.raw)
        published = await store.publish("acme", SHOP, "v1", saying("hello"))
        assert await running.store.versions("acme", SHOP) == [published.version]
        many = await asyncio.gather(*(running.binding("acme").create() for _ in range(20)))
        outputs = [(await running.ended("acme", each))["output"] for each in many]
        assert outputs == ["hello"] * 20
        assert isinstance(running.binding("acme"), Workflow)
