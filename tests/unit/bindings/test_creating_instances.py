"""`Workflow.create`, `create_batch`, `get` and `delete_batch`: what they take, refuse and answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import DAY_MS
from emulator.domain.values import JsDict
from emulator.errors import (
    InstanceAlreadyExists,
    InstanceNotFound,
    InvalidBatch,
    InvalidInstanceId,
    InvalidRetention,
    PayloadTooLarge,
    SerializationError,
)
from tests.unit.bindings.project import Project, in_virtual_time, pause_for, refusal_of

MIB = 2**20
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
BAD_IDS = [
    None,
    "",
    "-a",
    "a b",
    "a;b",
    "é",
    "a" * 101,
    "*/5 * * * *-1786001400000",
    7,
    b"a",
    True,
    ["a"],
]

BAD_BATCHES: list[tuple[Any, str]] = [
    ([], "batchCreate should have at least 1 instance"),
    ([{}] * 101, "batchCreate only supports 100 instances at a time"),
    ({"count": 0}, "(body) count must be a positive integer"),
    ({"count": -1}, "(body) count must be a positive integer"),
    ({"count": 1.0}, "(body) count must be a positive integer"),
    ({"count": True}, "(body) count must be a positive integer"),
    ({"count": None}, "(body) count must be a positive integer"),
    ({"count": 101}, "(body) batchCreate only supports 100 instances at a time"),
    ({"instances": []}, "(body) Batch size exceeds maximum allowed"),
    ({"instances": [{}] * 101}, "(body) Batch size exceeds maximum allowed"),
    ({"instances": "ab"}, "(body) Provided argument is invalid"),
    ({}, "(body) Provided argument is invalid"),
    (None, "(body) Provided argument is invalid"),
    ("ab", "(body) Provided argument is invalid"),
    (3, "(body) Provided argument is invalid"),
]


async def echo(event: JsDict, step: WorkflowStep) -> Any:
    return event["payload"]


@in_virtual_time
async def test_an_instance_without_options_gets_an_id_and_an_empty_payload() -> None:
    async with Project(echo) as project:
        instances = [await project.workflow.create() for _ in range(100)]
        assert all(UUID.fullmatch(instance.id) for instance in instances)
        assert len({instance.id for instance in instances}) == 100
        assert (await project.ended(instances[0]))["output"] == {}


@pytest.mark.parametrize("params", [None, {}, {"a": [1, None]}, [], 0, False, "", "text", b"\x00"])
@in_virtual_time
async def test_params_come_back_as_the_payload(params: Any) -> None:
    async with Project(echo) as project:
        output = await project.result(params=params)
        assert output == params
        assert type(output) is (JsDict if isinstance(params, dict) else type(params))


@in_virtual_time
async def test_options_are_a_dictionary_or_keywords_or_both() -> None:
    async with Project(echo) as project:
        one = await project.workflow.create({"id": "one", "params": 1})
        two = await project.workflow.create({"id": "two"}, params=2)
        three = await project.workflow.create(id="three", params=3)
        handles = [one, two, three]
        assert [handle.id for handle in handles] == ["one", "two", "three"]
        assert [(await project.ended(handle))["output"] for handle in handles] == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "keywords", "text"),
    [
        ({"parms": 1}, {}, "create() does not take 'parms'. It takes: attributes, "),
        ({}, {"payload": 1}, "does not take 'payload'"),
        ({"id": "a"}, {"id": "a"}, "create() got 'id' twice."),
        ({"locationHint": "weur"}, {"location_hint": "weur"}, "got 'location_hint' twice"),
        ("one", {}, "as a dictionary or as keywords, not str"),
        (["one"], {}, "not list"),
    ],
)
@in_virtual_time
async def test_wrong_options_are_named(options: Any, keywords: dict[str, Any], text: str) -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.create(options, **keywords))
        assert isinstance(error, TypeError)
        assert text in str(error)
        assert await project.listed() == set()


@pytest.mark.parametrize("instance_id", ["a" * 100, "_", "0", "A-b_9", "batch", "cf_" + "0" * 64])
@in_virtual_time
async def test_an_allowed_id_is_taken_as_it_is(instance_id: str) -> None:
    async with Project(echo) as project:
        assert (await project.workflow.create(id=instance_id)).id == instance_id


@pytest.mark.parametrize("instance_id", BAD_IDS)
@in_virtual_time
async def test_a_bad_id_creates_nothing_alone_or_in_a_batch(instance_id: Any) -> None:
    async with Project(echo) as project:
        alone = await refusal_of(project.workflow.create(id=instance_id))
        listing = [{"id": "good"}, {"id": instance_id}]
        in_list = await refusal_of(project.workflow.create_batch(listing))
        detailed = await refusal_of(project.workflow.create_batch({"instances": listing}))
        assert [type(error) for error in (alone, in_list, detailed)] == [InvalidInstanceId] * 3
        assert str(alone) == str(in_list) == "Workflow instance has invalid id"
        assert str(detailed) == "(instance.invalid_id) Instance ID is invalid"
        assert await project.listed() == set()


@in_virtual_time
async def test_a_used_id_is_refused_and_its_instance_left_alone() -> None:
    async with Project(echo) as project:
        before = await project.outcome(id="a", params=1)
        error = await refusal_of(project.workflow.create(id="a", params=2))
        assert isinstance(error, InstanceAlreadyExists)
        assert error.code == "instance.already_exists"
        assert '(instance.already_exists) Workflow instance with id "a"' in str(error)
        await project.restart()
        assert isinstance(await refusal_of(project.workflow.create(id="a")), InstanceAlreadyExists)
        assert await project.handle("a").status() == before


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ((1, 2), "params: a tuple"),
        ({"a": [1, object()]}, "params at a[1]: an object"),
        ({"a": {"b c": lambda: 1}}, "params at a['b c']: a function"),
        ([{1, 2}, bytearray()], "params at [1]: a bytearray"),
    ],
)
@in_virtual_time
async def test_params_that_cannot_be_stored_are_refused_with_the_path(
    params: Any, path: str
) -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.create(id="a", params=params))
        assert isinstance(error, SerializationError)
        assert isinstance(error, TypeError)
        assert path in str(error)
        assert await project.listed() == set()


@in_virtual_time
async def test_params_may_have_a_mebibyte_and_no_byte_more() -> None:
    async with Project(echo) as project:
        assert await project.result(params="x" * MIB) == "x" * MIB
        error = await refusal_of(project.workflow.create(params="x" * (MIB + 1)))
        assert isinstance(error, PayloadTooLarge)
        assert f"{MIB + 1} bytes" in str(error)


@in_virtual_time
async def test_params_are_a_copy() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", "1 second")
        return event["payload"]

    async with Project(run) as project:
        params = {"items": [1]}
        instance = await project.workflow.create(params=params)
        params["items"].append(2)
        assert (await project.ended(instance))["output"] == {"items": [1]}


@pytest.mark.parametrize(
    "retention",
    ["banana", "", "0 seconds", 0, -1, 1.5, True, "-1 day", "31 days", float("inf"), timedelta(0)],
)
@in_virtual_time
async def test_a_bad_retention_is_refused_everywhere(retention: Any) -> None:
    async with Project(echo) as project:
        for options in ({"success_retention": retention}, {"errorRetention": retention}):
            create = project.workflow.create(retention=options)
            listing = project.workflow.create_batch([{"retention": options}])
            counted = project.workflow.create_batch(count=2, retention=options)
            for call in (create, listing, counted):
                assert isinstance(await refusal_of(call), InvalidRetention)
        assert await project.listed() == set()


@in_virtual_time
async def test_a_retention_in_a_unit_that_does_not_exist_is_hinted_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Project(echo) as project:
        for _ in range(2):
            await project.workflow.create(retention={"success_retention": "3 dayz"})
        [hint] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert hint.startswith(
            """create(), success_retention='3 dayz': there is no unit "dayz", so that is milliseconds."""
        )


@in_virtual_time
async def test_retention_is_kept_with_the_instance() -> None:
    async with Project(echo) as project:
        await project.workflow.create(
            id="a", retention={"successRetention": "30 days", "error_retention": 1000}
        )
        row = await project.journal.row(InstanceKey("orders", "a"))
        assert row is not None
        assert row.creation.success_retention_ms == 30 * DAY_MS
        assert row.creation.error_retention_ms == 1_000


@in_virtual_time
async def test_an_unknown_retention_is_named() -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.create(retention={"success": "1 day"}))
        assert isinstance(error, TypeError)
        assert "retention does not take 'success'" in str(error)


@in_virtual_time
async def test_a_list_leaves_out_ids_that_are_taken_or_repeated() -> None:
    async with Project(echo) as project:
        await project.workflow.create(id="a", params="first")
        batch = [{"id": "a"}, {"id": "b", "params": 1}, {"id": "b", "params": 2}, {}]
        made = await project.workflow.create_batch(batch)
        assert made[0].id == "b"
        assert UUID.fullmatch(made[1].id)
        assert len(made) == 2
        assert (await project.ended("a"))["output"] == "first"
        assert (await project.ended("b"))["output"] == 1


@in_virtual_time
async def test_a_detailed_batch_tells_which_ids_are_taken_and_which_repeated() -> None:
    async with Project(echo) as project:
        await project.workflow.create(id="a")
        answer = await project.workflow.createBatch(
            instances=[{"id": "b"}, {"id": "a"}, {"id": "b"}, {"id": "c"}]
        )
        assert [instance.id for instance in answer.created] == ["b", "c"]
        assert answer.errors == [
            {
                "index": 1,
                "id": "a",
                "code": 10405,
                "message": "workflows.api.error.instance.already_exists",
            },
            {
                "index": 2,
                "id": "b",
                "code": 10415,
                "message": "workflows.api.error.instance.duplicate_in_batch",
            },
        ]


@in_virtual_time
async def test_a_count_makes_as_many_alike_and_wins_over_instances() -> None:
    async with Project(echo) as project:
        answer = await project.workflow.create_batch(
            {"count": 100, "params": {"n": 1}, "instances": [{"id": "unused"}]}
        )
        assert len({instance.id for instance in answer["created"]}) == 100
        assert answer["errors"] == []
        assert (await project.ended(answer["created"][99]))["output"] == {"n": 1}
        assert "unused" not in await project.listed()


@pytest.mark.parametrize(("batch", "text"), BAD_BATCHES)
@in_virtual_time
async def test_a_batch_of_another_shape_is_refused(batch: Any, text: str) -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.create_batch(batch))
        assert isinstance(error, InvalidBatch)
        assert str(error) == text
        assert await project.listed() == set()


@pytest.mark.parametrize("batch", [["a"], {"instances": [{"name": "a"}]}, {"counts": 3}])
@in_virtual_time
async def test_an_item_of_a_batch_is_checked_like_the_options_of_create(batch: Any) -> None:
    async with Project(echo) as project:
        assert isinstance(await refusal_of(project.workflow.create_batch(batch)), TypeError)


@in_virtual_time
async def test_a_list_takes_no_options_beside_it() -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.create_batch([{}], params=1))
        assert isinstance(error, TypeError)
        assert await project.listed() == set()


@pytest.mark.parametrize("instance_id", ["batch", "terminate", "terminateAll", "cf_" + "0" * 64])
@in_virtual_time
async def test_only_a_detailed_batch_refuses_reserved_ids(instance_id: str) -> None:
    async with Project(echo) as project:
        error = await refusal_of(
            project.workflow.create_batch(instances=[{"id": "a"}, {"id": instance_id}])
        )
        assert isinstance(error, InvalidInstanceId)
        assert str(error) == "(instance.invalid_id) Instance ID is invalid"
        assert await project.listed() == set()
        [made] = await project.workflow.create_batch([{"id": instance_id}])
        assert made.id == instance_id


@pytest.mark.parametrize("batch", [list, lambda items: {"instances": items}])  # type: ignore[misc]
@in_virtual_time
async def test_the_params_of_a_batch_may_have_a_mebibyte_together(
    batch: Callable[[list[Any]], Any],
) -> None:
    async with Project(echo) as project:
        halves = [{"params": "x" * (MIB // 2)} for _ in range(2)]
        over = batch([*halves, {"params": "x"}])
        error = await refusal_of(project.workflow.create_batch(over))
        assert isinstance(error, PayloadTooLarge)
        assert await project.listed() == set()
        await project.workflow.create_batch(batch(halves))
        assert len(await project.listed()) == 2


@in_virtual_time
async def test_getting_an_instance_that_does_not_exist_creates_nothing() -> None:
    async with Project(echo) as project:
        error = await refusal_of(project.workflow.get("nope"))
        assert isinstance(error, InstanceNotFound)
        assert str(error) == '(instance.not_found) Instance "nope" does not exist'
        assert await project.listed() == set()


@pytest.mark.parametrize("instance_id", ["", "a;b", "é", "a" * 272, "a\n", None, 5])
@in_virtual_time
async def test_an_id_that_no_instance_can_have_is_refused_by_get(instance_id: Any) -> None:
    async with Project(echo) as project:
        assert isinstance(await refusal_of(project.workflow.get(instance_id)), InvalidInstanceId)


@pytest.mark.parametrize("instance_id", ["*/30 * * * *-1786001400000", "-a", "A", "a" * 271])
@in_virtual_time
async def test_an_id_that_a_schedule_could_make_is_merely_not_found(instance_id: str) -> None:
    async with Project(echo) as project:
        await project.workflow.create(id="a")
        error = await refusal_of(project.workflow.get(instance_id))
        assert isinstance(error, InstanceNotFound)


@in_virtual_time
async def test_a_batch_of_deletions_answers_for_every_position() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"] == "long":
            await step.sleep("nap", "1 day")

    async with Project(run) as project:
        await project.workflow.create(id="live", params="long")
        await project.outcome(id="done")
        answer = await project.workflow.deleteBatch(["live", "done", "gone", "gone", "done"])
        assert answer == {
            "deleted": [{"id": "live"}, {"id": "done"}, {"id": "done"}],
            "errors": [
                {"id": "gone", "code": 10400, "message": "workflows.api.error.instance.not_found"}
            ]
            * 2,
        }
        assert await project.listed() == set()
        assert await project.timers() == 0
        assert await project.result(id="done") is None
        await pause_for(2 * 86_400)
        assert await project.listed() == {"done"}


@pytest.mark.parametrize(
    ("ids", "kind", "text"),
    [
        ([], InvalidBatch, "(body) batchDeleteInstances should have at least 1 instance"),
        (
            ["a"] * 101,
            InvalidBatch,
            "(body) batchDeleteInstances only supports 100 instances at a time",
        ),
        ("a", InvalidBatch, "(body) Provided argument is invalid"),
        (None, InvalidBatch, "(body) Provided argument is invalid"),
        ({"a"}, InvalidBatch, "(body) Provided argument is invalid"),
        (["a", "b;c"], InvalidInstanceId, "(instance.invalid_id) Instance ID is invalid"),
        (["a", 7], InvalidInstanceId, "(instance.invalid_id) Instance ID is invalid"),
    ],
)
@in_virtual_time
async def test_a_bad_batch_of_deletions_removes_nothing(
    ids: Any, kind: type[Exception], text: str
) -> None:
    async with Project(echo) as project:
        await project.workflow.create(id="a")
        error = await refusal_of(project.workflow.delete_batch(ids))
        assert isinstance(error, kind)
        assert str(error) == text
        assert await project.listed() == {"a"}


@in_virtual_time
async def test_handles_and_bindings_say_what_they_are() -> None:
    async with Project(echo) as project:
        instance = await project.workflow.create(id="a")
        assert repr(project.workflow) == "<Workflow orders>"
        assert repr(instance) == "<WorkflowInstance orders/a>"
        assert repr(await project.workflow.get("a")) == repr(instance)


@in_virtual_time
async def test_a_refusal_has_a_note_of_what_is_allowed_where_its_text_has_none() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None: ...

    async with Project(run) as project:
        await project.workflow.create(id="a")
        invalid = await refusal_of(project.workflow.create(id="a b"))
        taken = await refusal_of(project.workflow.create(id="a"))
    assert invalid.__notes__[0].startswith("An id is 1 to 100 letters, digits,")
    assert taken.__notes__ == ["Choose another id, or delete the instance that has it."]
