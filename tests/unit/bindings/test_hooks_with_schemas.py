"""Payloads with a schema: checked before anything is stored, and objects when they are taken (H44, H45, B19)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, field_validator

from bindings import BaseHook, WorkflowStep, define_hook, resume_hook
from emulator.domain.values import JsDict
from emulator.errors import InvalidHook, TypeValidationError
from tests.unit.bindings.project import Project, in_virtual_time, refusal_of

T = "document:1"


@dataclass
class Comment:
    """Inside of another."""

    text: str
    at: datetime


@dataclass
class Approval(BaseHook):
    """A payload that is a dataclass."""

    approved: bool
    by: str = "nobody"
    comments: list[Comment] = field(default_factory=list[Comment])


class Order(BaseModel):
    """A payload that is a pydantic model, and that is made from another by a rule of its own."""

    seen: ClassVar[list[object]] = []

    number: int
    tags: set[str] = set()

    @field_validator("number", mode="before")
    @classmethod
    def count(cls, value: object) -> object:
        cls.seen.append(value)
        return value


class Reply(BaseModel, BaseHook):
    """A hook that is a pydantic model."""

    text: str


orders_hook = define_hook(schema=Order)


def waits_for(schema: Any) -> Any:
    """A workflow that tells of the one payload it takes."""

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        hook = step.create_hook(token=T, schema=schema)
        await step.sleep("nap", "1 minute")
        payload = await hook
        assert type(payload) is schema
        return repr(payload)

    return run


APPROVALS = [
    ({"approved": True}, Approval(True)),
    ({"approved": False, "by": "me"}, Approval(False, "me")),
    (Approval(True, "me"), Approval(True, "me")),
    (
        {"approved": True, "comments": [{"text": "a", "at": datetime(2030, 1, 1, tzinfo=UTC)}]},
        Approval(True, comments=[Comment("a", datetime(2030, 1, 1, tzinfo=UTC))]),
    ),
]


@pytest.mark.parametrize("defines", [False, True])
@pytest.mark.parametrize(("payload", "expected"), APPROVALS)
def test_a_payload_becomes_an_object_of_its_class(
    payload: Any, expected: Approval, defines: bool
) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(waits_for(Approval)) as project:
            instance = await project.workflow.create()
            await project.becomes(instance, "waiting")
            if defines:
                await define_hook(schema=Approval).resume(T, payload)
            else:
                await project.workflow.resume_hook(T, payload)
            await project.restart()
            assert (await project.ended(instance))["output"] == repr(expected)

    test()


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"approved": "perhaps"}, "$.approved"),
        ({"by": "me"}, "approved"),
        ({"approved": True, "comments": [{"text": 5}]}, "$.comments[0]"),
        (5, "object"),
        (None, "object"),
    ],
)
def test_what_does_not_match_is_refused_and_nothing_stored(payload: Any, path: str) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(waits_for(Approval)) as project:
            instance = await project.workflow.create()
            await project.becomes(instance, "waiting")
            kind = define_hook(schema=Approval)
            before = await project.history(instance)
            for call in (resume_hook(T, payload), kind.resume(T, payload)):
                refused = await refusal_of(call)
                assert isinstance(refused, TypeValidationError)
                assert refused.code == "payload_invalid"
                assert refused.message.startswith("Hook payload did not match the defined schema: ")
                assert path in refused.message
            assert await project.history(instance) == before

    test()


@in_virtual_time
async def test_a_model_says_where_it_is_wrong() -> None:
    async with Project(waits_for(Order)) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        for call in (resume_hook(T, {"number": "x"}), orders_hook.resume(T, {"number": "x"})):
            refused = await refusal_of(call)
            assert isinstance(refused, TypeValidationError)
            assert "number: " in refused.message


@pytest.mark.parametrize("payload", [{"number": "5", "tags": ["a"]}, Order(number=5, tags={"a"})])
def test_what_a_model_makes_of_a_payload_is_what_is_stored(payload: Any) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(waits_for(Order)) as project:
            for send in (orders_hook.resume, resume_hook):
                instance = await project.workflow.create()
                await project.becomes(instance, "waiting")
                Order.seen.clear()
                await send(T, payload)
                checks = 0 if isinstance(payload, Order) else 1
                assert len(Order.seen) == checks, "checked once before it is stored"
                output = (await project.ended(instance))["output"]
                assert output == "Order(number=5, tags={'a'})"
                assert Order.seen[checks:] == [5], "stored is what the check has made of it"

    test()


@pytest.mark.parametrize("kind", [Approval, Reply])
def test_a_class_can_be_a_hook(kind: Any) -> None:
    given = Approval(True) if kind is Approval else Reply(text="hello")

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first = await kind.wait(step, token=T)
        second = await kind.wait(step, "by name", token="document:2")
        return repr([first, second])

    @in_virtual_time
    async def test() -> None:
        async with Project(run) as project:
            instance = await project.workflow.create(hook=T)
            await project.becomes(instance, "waiting")
            hook = await given.resume(T, resume_id="r1")
            assert hook.run_id == instance.id
            await given.resume(T, resume_id="r1")
            await project.becomes(instance, "waiting")
            await given.resume("document:2")
            assert (await project.ended(instance))["output"] == repr([given, given])

    test()


@in_virtual_time
async def test_the_claim_of_a_start_gets_its_schema_when_it_is_opened() -> None:
    async with Project(waits_for(Approval)) as project:
        instance = await project.workflow.create(hook=T)
        await project.becomes(instance, "waiting")
        refused = await refusal_of(resume_hook(T, {"approved": 5}))
        assert isinstance(refused, TypeValidationError)
        await resume_hook(T, {"approved": True})
        assert (await project.ended(instance))["output"] == repr(Approval(True))


@in_virtual_time
async def test_an_early_payload_that_does_not_match_is_told_where_it_is_taken() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("before", "1 minute")
        return await step.create_hook(token=T, schema=Approval)

    async with Project(run) as project:
        instance = await project.workflow.create(hook=T)
        await project.becomes(instance, "waiting")
        await resume_hook(T, {"approved": 5})
        status = await project.ended(instance)
        assert status["error"]["name"] == "TypeValidationError"


@pytest.mark.parametrize("schema", ["Approval", 5, Approval(True), [Approval]])
def test_a_schema_is_a_class(schema: Any) -> None:
    with pytest.raises(InvalidHook, match="class"):
        define_hook(schema=schema)
