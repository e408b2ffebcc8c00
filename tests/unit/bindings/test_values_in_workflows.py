"""What workflows get is the same live and replayed, and always a copy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bindings import WorkflowStep
from emulator.domain.values import JsDict
from tests.unit.bindings.project import Project, in_virtual_time, pause_for

FALSY: list[Any] = [None, 0, False, "", [], {}, b""]
MOMENT = datetime(2026, 3, 1, 12, 30)


VALUES: list[Any] = [
    *FALSY,
    1.5,
    2**60,
    2**80,
    float("inf"),
    MOMENT,
    MOMENT.replace(tzinfo=UTC),
    b"\x00\xff",
    {1, "a"},
    {"a": {"b": [1, {"c": None}]}},
    {1: "one", None: 2},
    {"$": "tag"},
]


@pytest.mark.parametrize("value", VALUES)
@in_virtual_time
async def test_a_result_has_the_same_type_and_value_live_and_replayed(value: Any) -> None:
    seen: list[Any] = []
    bodies: list[None] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("value")
        async def give() -> Any:
            bodies.append(None)
            return value

        seen.append(await give())
        await step.sleep("nap", "1 hour")
        return seen[-1]

    async with Project(run, max_live=0) as project:
        output = await project.result()
        assert len(bodies) == 1
        assert len(seen) == 2
        assert seen[0] == seen[1] == output == value
        assert type(seen[0]) is type(seen[1])
        assert type(seen[0]) is (JsDict if type(value) is dict else type(value))


@in_virtual_time
async def test_dictionaries_answer_to_attributes_live_and_replayed() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("order")
        async def order() -> Any:
            return {"customer": {"name": "Ada"}, "items": [{"sku": "mug"}]}

        made = await order()
        await step.sleep("nap", "1 hour")
        made.customer.mark = 1
        with pytest.raises(AttributeError):
            _ = made.total
        return [made.customer.name, made["items"][0].sku, made.customer["mark"]]

    async with Project(run, max_live=0) as project:
        assert await project.result() == ["Ada", "mug", 1]


@in_virtual_time
async def test_a_result_is_neither_shared_with_the_callback_nor_with_the_journal() -> None:
    seen: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        kept: list[list[int]] = []

        @step.do("numbers")
        async def numbers() -> list[int]:
            kept.append([1])
            return kept[0]

        result = await numbers()
        for made in kept:
            made.append(2)
        seen.append(list(result))
        result.append(3)
        await step.sleep("nap", "1 hour")
        return seen

    async with Project(run, max_live=0) as project:
        assert await project.result() == [[1], [1]]


@in_virtual_time
async def test_dependents_of_one_step_get_copies_of_their_own_after_a_replay_too() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def numbers() -> list[int]:
            return [1]

        @step.do("left")
        async def left(numbers: list[int]) -> list[int]:
            numbers.append(2)
            return numbers

        @step.do("right")
        async def right(numbers: list[int]) -> list[int]:
            return numbers

        first = await left()
        await step.sleep("nap", "1 hour")
        return [first, await right()]

    outputs: list[Any] = []
    for max_live in (0, 1_000):
        async with Project(run, max_live=max_live) as project:
            outputs.append(await project.result())
    assert outputs == [[[1, 2], [1]]] * 2


@in_virtual_time
async def test_the_event_is_new_in_every_life() -> None:
    seen: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        seen.append(dict(event))
        assert set(event) == {"payload", "timestamp", "instanceId", "workflowName"}
        event.payload.append(2)
        event["instanceId"] = "other"
        await step.sleep("nap", "1 hour")
        return event.payload

    async with Project(run, max_live=0) as project:
        began_ms = project.now_ms()
        assert await project.result(id="a", params=[1]) == [1, 2]
        assert len(seen) == 2
        assert seen[0] == {
            "payload": [1, 2],
            "timestamp": datetime.fromtimestamp(began_ms / 1000),
            "instanceId": "a",
            "workflowName": "orders",
        }
        assert seen[0]["timestamp"] == seen[1]["timestamp"]


@in_virtual_time
async def test_an_event_that_was_awaited_has_payload_type_and_time_of_arrival() -> None:
    seen: list[Any] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        seen.append(
            [
                await step.wait_for_event("first", "paid"),
                await step.wait_for_event("second", "paid"),
            ]
        )
        await step.sleep("nap", "1 hour")

    async with Project(run, max_live=0) as project:
        instance = await project.workflow.create()
        await pause_for(5)
        arrived = datetime.fromtimestamp(project.now_ms() / 1000)
        await instance.send_event(type="paid", payload={"n": 5})
        await instance.send_event({"type": "paid"})
        await project.ended(instance)
        with_payload = {"payload": {"n": 5}, "type": "paid", "timestamp": arrived}
        assert seen == [[with_payload, {"type": "paid", "timestamp": arrived}]] * 2
        without = seen[0][1]
        assert without["payload"] is without.payload is without.get("payload") is None
        with pytest.raises(KeyError):
            without["paylod"]
        assert seen[0][0].payload.n == 5
        with pytest.raises(KeyError):
            seen[0][0]["n"]


@in_virtual_time
async def test_a_payload_of_null_is_not_the_same_as_none_at_all() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        first = await step.wait_for_event("first", "a")
        second = await step.wait_for_event("second", "a")
        return ["payload" in first, "payload" in second]

    async with Project(run) as project:
        instance = await project.workflow.create()
        await instance.send_event(type="a", payload=None)
        await instance.send_event(type="a")
        assert (await project.ended(instance))["output"] == [True, False]


@in_virtual_time
async def test_the_status_has_four_keys_at_every_moment() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleep("nap", "1 hour")
        if event["payload"]:
            raise ValueError("no")

    async with Project(run) as project:
        good = await project.workflow.create(params=False)
        nothing = {"error": None, "output": None, "rollback": None}
        assert await good.status() == {"status": "running"} | nothing
        await project.becomes(good, "waiting")
        assert await good.status() == {"status": "waiting"} | nothing
        assert await project.ended(good) == {"status": "complete"} | nothing
        bad = await project.outcome(params=True)
        assert list(bad) == ["status", "error", "output", "rollback"]
        assert bad.error == {"message": "no", "name": "ValueError"}
        assert bad.output is None


@in_virtual_time
async def test_a_clean_run_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("a")
        async def give() -> Any:
            return {"a": 1}

        try:
            await step.wait_for_event("w", "never", timeout="1 minute")
        except TimeoutError:
            return await give()

    async with Project(run) as project:
        for _ in range(100):
            assert await project.result() == {"a": 1}
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]
