"""Creating an instance and claiming a token is one step (specification of hooks 2, 10.8)."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bindings import WorkflowStep, get_hook_by_token
from emulator.domain.values import JsDict
from emulator.engine.engine import Engine
from emulator.errors import (
    EmulatorError,
    HookConflictError,
    HookNotFoundError,
    HookRetentionTooLong,
    InstanceAlreadyExists,
    InvalidAttributes,
    InvalidHook,
    SerializationError,
)
from tests.unit.bindings.project import NAME, Project, in_virtual_time, pause_for, refusal_of

T = "order:1"


async def collects(event: JsDict, step: WorkflowStep) -> Any:
    """Take payloads until one says that it is the last."""
    found: list[Any] = []
    async for payload in step.create_hook(token=T):
        found.append(payload)
        if payload == "last":
            break
    return found


async def sleeps(event: JsDict, step: WorkflowStep) -> str:
    await step.sleep("nap", "1 hour")
    return "slept"


async def conflict_of(project: Project, token: str = T) -> HookConflictError:
    refused = await refusal_of(project.workflow.create(hook=token))
    assert isinstance(refused, HookConflictError), refused
    return refused


@in_virtual_time
async def test_of_fifty_creates_with_one_token_one_wins() -> None:
    async with Project(sleeps) as project:
        calls = (project.workflow.create(hook={"token": T}) for _ in range(50))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        [won] = [each for each in answers if not isinstance(each, BaseException)]
        lost = [each for each in answers if isinstance(each, HookConflictError)]
        assert len(lost) == 49
        for error in lost:
            assert error.token == T
            assert error.conflicting_run_id == won.id
            assert error.conflicting_workflow == NAME
            assert error.code == "hook_conflict"
            assert won.id in error.message
        assert await project.listed() == {won.id}
        assert await project.tokens() == {T: won.id}


@in_virtual_time
async def test_an_answer_that_was_lost_is_found_again_by_the_token() -> None:
    async with Project(sleeps) as project:
        call = asyncio.ensure_future(project.workflow.create(id="a", hook=T))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert (await conflict_of(project)).conflicting_run_id == "a"


@in_virtual_time
async def test_an_instance_runs_whose_process_died_before_it_was_scheduled() -> None:
    async with Project(sleeps) as project:
        instance = await project.workflow.create(hook=T)
        await project.crash()
        assert (await conflict_of(project)).conflicting_run_id == instance.id
        assert (await project.ended(instance))["output"] == "slept"
        assert not await project.tokens()


@pytest.mark.parametrize("crashes", [False, True])
def test_payloads_before_the_first_line_come_first_and_in_order(crashes: bool) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(collects, concurrency_limit=1) as project:
            first = await project.workflow.create(hook=T)
            for payload in (1, 2, "last"):
                await project.workflow.resume_hook(T, payload)
                if crashes:
                    await project.crash()
            assert (await project.ended(first))["output"] == [1, 2, "last"]

    test()


@in_virtual_time
async def test_payloads_reach_an_instance_that_stands_in_the_queue() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"] == {"blocks": True}:

            @step.do("block")
            async def block() -> None:
                await pause_for(60)

            return await block()
        return await collects(event, step)

    async with Project(run, concurrency_limit=1) as project:
        await project.workflow.create(params={"blocks": True})
        queued = await project.workflow.create(hook=T)
        assert (await queued.status())["status"] == "queued"
        for payload in (1, 2, 3, "last"):
            await project.workflow.resume_hook(T, payload)
        assert (await project.ended(queued))["output"] == [1, 2, 3, "last"]


@in_virtual_time
async def test_a_hook_that_is_never_opened_is_only_a_key() -> None:
    async with Project(sleeps) as project:
        first = await project.workflow.create(hook=T)
        await project.workflow.resume_hook(T, "nobody reads this")
        assert (await conflict_of(project)).conflicting_run_id == first.id
        assert (await project.ended(first))["output"] == "slept"
        assert not await project.tokens()
        second = await project.workflow.create(hook=T)
        assert second.id != first.id


@pytest.mark.parametrize("end", ["completes", "terminated"])
def test_a_retained_token_is_kept_to_the_tick(end: str) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(sleeps) as project:
            begun_ms = project.now_ms()
            first = await project.workflow.create(hook=T, min_retention="1 day")
            if end == "terminated":
                await first.terminate()
            await project.ended(first)
            await project.restart()
            assert (await conflict_of(project)).conflicting_run_id == first.id
            assert (await get_hook_by_token(T)).run_id == first.id
            refused = await refusal_of(project.workflow.resume_hook(T, 1))
            assert isinstance(refused, HookNotFoundError)
            await pause_for((begun_ms + 86_400_000 - 1 - project.now_ms()) / 1_000)
            assert project.now_ms() == begun_ms + 86_399_999
            assert (await conflict_of(project)).conflicting_run_id == first.id
            await pause_for(0.001)
            assert isinstance(await refusal_of(get_hook_by_token(T)), HookNotFoundError)
            assert (await project.workflow.create(hook=T)).id != first.id

    test()


@in_virtual_time
async def test_a_deadline_that_passes_while_it_runs_frees_the_token_at_the_end() -> None:
    async with Project(sleeps) as project:
        first = await project.workflow.create(hook=T, min_retention="1 minute")
        await pause_for(600)
        assert (await conflict_of(project)).conflicting_run_id == first.id
        await project.workflow.resume_hook(T, 1)
        await project.ended(first)
        await project.workflow.create(hook=T)


@in_virtual_time
async def test_a_retained_token_outlives_its_instance_unless_that_is_deleted() -> None:
    async with Project(sleeps, success_retention_ms=1_000) as project:
        for is_deleted in (False, True):
            first = await project.workflow.create(hook=T, min_retention="1 day")
            await project.ended(first)
            if is_deleted:
                await first.delete()
                await project.workflow.create(hook=T)
            else:
                await pause_for(60)
                assert first.id not in await project.listed()
                assert (await conflict_of(project)).conflicting_run_id == first.id
                await pause_for(86_400)


@in_virtual_time
async def test_tokens_that_are_free_are_forgotten() -> None:
    async with Project(sleeps) as project:
        await project.outcome(hook=T, min_retention="2 hours")
        await pause_for(30 * 86_400)
        assert await project.journal.holders([_key(T)]) == {}


@in_virtual_time
async def test_opening_the_claim_adds_no_entry_and_no_step() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        if event["payload"].get("opens"):
            hook = step.create_hook(token=T)
            assert await hook.get_conflict() is None
            assert await hook.get_conflict() is None

        @step.do("work")
        async def work() -> int:
            return 1

        return await work()

    async with Project(run) as project:
        histories: list[list[tuple[str, str]]] = []
        for opens in (False, True):
            instance = await project.workflow.create(hook=T, params={"opens": opens})
            await project.ended(instance)
            histories.append(await project.history(instance))
        assert histories[0] == histories[1]
        assert [kind for kind, _ in histories[0]].count("HookCreated") == 1


@in_virtual_time
async def test_a_hook_says_what_was_given_with_it() -> None:
    async with Project(sleeps) as project:
        now_ms = project.now_ms()
        instance = await project.workflow.create(
            hook={"token": T, "metadata": {"a": [1]}}, min_retention=timedelta(hours=2)
        )
        hook = await project.workflow.get_hook_by_token(T)
        assert (hook.token, hook.run_id, hook.workflow_name) == (T, instance.id, NAME)
        assert hook.metadata == {"a": [1]}
        assert hook.hook_id.startswith("hook_")
        assert not hook.is_webhook
        assert hook.created_at == datetime.fromtimestamp(now_ms / 1_000, UTC)
        assert hook.retain_until == hook.created_at + timedelta(hours=2)


@pytest.mark.parametrize(
    "options",
    [
        {"hook": T, "min_retention": "1 day"},
        {"hook": {"token": T}, "minRetention": "1 day"},
        {"hook": {"token": T, "min_retention": "1 day"}},
        {"experimental_hook": {"token": T}, "experimental_min_retention": "1 day"},
        {"experimental_hook": T, "experimental_minRetention": "1 day"},
        {"hook": {"token": T, "experimental_minRetention": "1 day"}, "min_retention": "1 day"},
        {"hook": T, "experimental_hook": T, "min_retention": 86_400_000},
    ],
)
def test_every_spelling_of_a_claim_is_the_same(options: dict[str, Any]) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(sleeps) as project:
            await project.workflow.create(options)
            hook = await project.workflow.get_hook_by_token(T)
            assert hook.retain_until == hook.created_at + timedelta(days=1)

    test()


BAD: list[tuple[dict[str, Any], type[Exception]]] = [
    *(({"hook": {"token": token}}, InvalidHook) for token in ("", "  ", 5, None, "x" * 513, "\ud800")),
    ({"hook": ""}, InvalidHook),
    ({"hook": {}}, InvalidHook),
    ({"hook": 5}, TypeError),
    ({"hook": {"token": T, "is_webhook": True}}, TypeError),
    ({"hook": {"token": T, "tokens": T}}, TypeError),
    ({"hooks": T}, TypeError),
    ({"hook": {"token": T, "metadata": object()}}, SerializationError),
    ({"hook": T, "experimental_hook": "order:2"}, InvalidHook),
    ({"min_retention": "1 day"}, InvalidHook),
    ({"hook": {"token": T, "min_retention": "1 day"}, "min_retention": "2 days"}, InvalidHook),
    *(
        ({"hook": T, "min_retention": given}, InvalidHook)
        for given in (0, -5, math.nan, "soon", True, datetime(2999, 1, 1), datetime(1999, 1, 1, tzinfo=UTC))
    ),
    ({"hook": T, "min_retention": "31 days"}, HookRetentionTooLong),
    ({"hook": T, "min_retention": datetime(2999, 1, 1, tzinfo=UTC)}, HookRetentionTooLong),
    ({"attributes": {"$a": "1"}}, InvalidAttributes),
    ({"attributes": {str(n): "1" for n in range(65)}}, InvalidAttributes),
    ({"attributes": {"a": "x" * 257}}, InvalidAttributes),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error"), BAD)
def test_what_is_not_valid_is_refused_and_nothing_written(
    options: dict[str, Any], error: type[Exception]
) -> None:
    @in_virtual_time
    async def test() -> None:
        async with Project(sleeps) as project:
            workflow = project.workflow
            for call in (
                workflow.create(options),
                workflow.create_batch([{"id": "good"}, options]),
                workflow.create_batch(instances=[{"id": "good"}, options]),
            ):
                refused = await refusal_of(call)
                assert type(refused) is error
                if isinstance(refused, EmulatorError):
                    assert not refused.is_retryable
            assert not await project.listed()
            assert not await project.tokens()

    test()


@in_virtual_time
async def test_a_taken_token_comes_before_a_taken_id() -> None:
    async with Project(sleeps) as project:
        await project.workflow.create(id="a", hook=T)
        for options, error in (
            ({"id": "b", "hook": T}, HookConflictError),
            ({"id": "a", "hook": T}, HookConflictError),
            ({"id": "a", "hook": "order:2"}, InstanceAlreadyExists),
        ):
            assert type(await refusal_of(project.workflow.create(options))) is error
        assert await project.listed() == {"a"}
        assert await project.tokens() == {T: "a"}


# batches


@in_virtual_time
async def test_a_list_is_refused_as_a_whole_for_a_taken_token() -> None:
    async with Project(sleeps) as project:
        await project.workflow.create(id="owner", hook=T)
        batch = [{"id": "a"}, {"id": "b", "hook": "order:2"}, {"id": "c", "hook": T}]
        refused = await refusal_of(project.workflow.create_batch(batch))
        assert isinstance(refused, HookConflictError)
        assert (refused.index, refused.conflicting_run_id) == (2, "owner")
        assert await project.listed() == {"owner"}
        assert await project.tokens() == {T: "owner"}


@in_virtual_time
async def test_a_list_is_refused_for_a_token_that_it_has_twice() -> None:
    async with Project(sleeps) as project:
        batch = [{"id": "a", "hook": T}, {"id": "b"}, {"id": "c", "hook": {"token": T}}]
        refused = await refusal_of(project.workflow.create_batch(batch))
        assert isinstance(refused, HookConflictError)
        assert (refused.index, refused.conflicting_run_id) == (2, "a")
        assert not await project.listed()
        assert not await project.tokens()


@in_virtual_time
async def test_a_list_leaves_out_ids_that_are_taken() -> None:
    async with Project(sleeps) as project:
        await project.workflow.create(id="a")
        batch = [{"id": "a", "hook": T}, {"id": "b", "hook": "order:2"}]
        created = await project.workflow.create_batch(batch)
        assert [each.id for each in created] == ["b"]
        assert await project.tokens() == {"order:2": "b"}


@in_virtual_time
async def test_in_the_other_form_each_item_stands_for_itself() -> None:
    async with Project(sleeps) as project:
        await project.workflow.create(id="owner", hook=T)
        batch = [
            {"id": "a", "hook": "order:2"},
            {"id": "b", "hook": "order:2"},
            {"id": "c", "hook": T},
            {"id": "owner"},
            {"id": "d"},
        ]
        answer = await project.workflow.create_batch(instances=batch)
        assert [each.id for each in answer["created"]] == ["a", "d"]
        by_index = {error["index"]: error for error in answer["errors"]}
        assert sorted(by_index) == [1, 2, 3]
        assert by_index[1]["code"] == by_index[2]["code"] == "hook_conflict"
        assert by_index[1]["conflicting_run_id"] == "a"
        assert by_index[2]["conflicting_run_id"] == "owner"
        assert by_index[2]["token"] == T
        assert by_index[2]["conflicting_workflow"] == NAME
        assert await project.listed() == {"owner", "a", "d"}
        assert await project.tokens() == {T: "owner", "order:2": "a"}


@in_virtual_time
async def test_a_count_of_instances_with_one_token_makes_one() -> None:
    async with Project(sleeps) as project:
        answer = await project.workflow.create_batch(count=3, hook=T)
        assert len(answer["created"]) == 1
        assert [error["index"] for error in answer["errors"]] == [1, 2]
        assert len(await project.listed()) == 1


@in_virtual_time
async def test_a_create_that_meets_the_end_of_the_owner_is_a_conflict_or_wins() -> None:
    async def ends(event: JsDict, step: WorkflowStep) -> None:
        return None

    async with Project(ends) as project:
        for _ in range(100):
            answers = await asyncio.gather(
                *(project.workflow.create(hook=T) for _ in range(3)), return_exceptions=True
            )
            for answer in answers:
                assert not isinstance(answer, BaseException) or isinstance(
                    answer, HookConflictError
                )
        rows = await project.listed()
        for instance in rows:
            await project.ended(instance)
        assert not await project.tokens()


@in_virtual_time
async def test_a_failed_commit_leaves_neither_instance_nor_token() -> None:
    async with Project(sleeps) as project:
        await project.engine.kill()
        dead: Engine = project.engine
        refused = await refusal_of(project.workflow.create(hook=T))
        assert isinstance(refused, EmulatorError)
        assert dead is project.engine
        await project.crash()
        assert not await project.tokens()


def _key(token: str) -> Any:
    return ("", token)
