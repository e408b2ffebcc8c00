"""Introspectors: Cloudflare's verbs, over a real engine."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bindings import NonRetryableError, WorkflowEntrypoint
from emulator.errors import Conflict, InstanceNotFound, InvalidInput, StepError
from wrangler_compat.testing import (
    TestProject,
    introspect_workflow,
    introspect_workflow_instance,
)

PREFIX = re.escape("[WorkflowIntrospector] ")
RETRIES = {"retries": {"limit": 2, "delay": "1 hour", "backoff": "constant"}}


class Orders(WorkflowEntrypoint):
    """Sleeps, charges, and waits for the parcel's arrival."""

    async def run(self, event: Any, step: Any) -> Any:
        @step.do("charge", config=RETRIES)
        async def charge(ctx: Any) -> Any:
            return {"really": ctx["attempt"]}

        @step.do("secret", config={"sensitive": "output"})
        async def secret() -> str:
            return "hush"

        await step.sleep("think", "30 days")
        charged = await charge()
        await secret()
        try:
            arrived = await step.wait_for_event("parcel", "arrived", timeout="365 days")
        except TimeoutError:
            return {"charged": charged, "arrived": None}
        return {"charged": charged, "arrived": arrived.get("payload")}


class Unlucky(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        raise NonRetryableError("no luck")


pytestmark = pytest.mark.workflows(classes=[Orders, Unlucky])


async def test_sleeps_can_be_disabled(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.disable_sleeps())
        await workflows.env.ORDERS.create(id="o")
        await workflows.settle()
        assert (await order.wait_for_step_result({"name": "charge"})) == {"really": 1}


async def test_only_listed_sleeps_can_be_disabled(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.disable_sleeps([{"name": "think", "index": 1}]))
        instance = await workflows.env.ORDERS.create(id="o")
        await instance.send_event(type="arrived", payload="a parcel")
        await workflows.settle()
        assert (await order.get_output())["arrived"] == "a parcel"


async def test_retry_delays_can_be_disabled(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:

        async def change(m: Any) -> None:
            await m.disableSleeps()
            await m.disableRetryDelays()
            await m.mockStepError("charge", ConnectionError("down"), 2)

        await order.modify(change)
        await workflows.env.ORDERS.create(id="o")
        await workflows.settle()
        assert (await order.waitForStepResult(name="charge")) == {"really": 3}


@pytest.mark.parametrize("value", [{"ok": True}, None, 0, "", False, []])
async def test_a_result_can_be_mocked_also_a_falsy_one(workflows: TestProject, value: Any) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.disable_sleeps().mock_step_result("charge", value))
        await workflows.env.ORDERS.create(id="o")
        assert await order.wait_for_step_result("charge") == value


async def test_an_error_can_be_mocked_for_every_attempt(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.mock_step_error("charge", ConnectionError("down")))
        await workflows.env.ORDERS.create(id="o")
        with pytest.raises(StepError, match="down"):
            await order.wait_for_step_result("charge")
        await order.wait_for_status("errored")
        assert await order.get_error() == {"name": "ConnectionError", "message": "down"}


async def test_an_error_that_is_not_retryable_ends_the_step(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.mock_step_error("charge", NonRetryableError("never"), 1))
        await workflows.env.ORDERS.create(id="o")
        with pytest.raises(NonRetryableError, match="never"):
            await order.wait_for_step_result("charge")


async def test_a_step_can_be_made_to_time_out(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.force_step_timeout("charge", times=1))
        await workflows.env.ORDERS.create(id="o")
        assert await order.wait_for_step_result("charge") == {"really": 2}
        [tree] = workflows.trees()
        assert "attempt 1: WorkflowTimeoutError: Execution timed out after 0ms" in tree


async def test_an_event_can_be_there_before_the_instance(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.mock_event({"type": "arrived", "payload": 7}))
        await workflows.env.ORDERS.create(id="o")
        assert await order.wait_for_step_result("parcel") == 7
        await order.wait_for_status("complete")
        assert (await order.get_output())["arrived"] == 7


async def test_a_wait_can_be_made_to_time_out(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.disable_sleeps().force_event_timeout("parcel"))
        await workflows.env.ORDERS.create(id="o")
        await workflows.settle()
        assert (await order.get_output())["arrived"] is None


async def test_a_sleep_can_be_waited_for(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await workflows.env.ORDERS.create(id="o")
        assert await order.wait_for_sleep() == {"name": "think", "index": 1}
        assert await order.wait_for_sleep("think") == {"name": "think", "index": 1}
        with pytest.raises(AssertionError, match="instance o has ended, and does not sleep"):
            await order.wait_for_sleep("snore")


async def test_what_is_arranged_survives_a_restart_and_a_crash(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(
            lambda m: m.mock_step_result("charge", 1).mock_event(type="arrived", payload=2)
        )
        instance = await workflows.env.ORDERS.create(id="o")
        await order.wait_for_status("complete")
        await instance.restart()
        await order.wait_for_sleep()
        await workflows.restart()
        await order.wait_for_status("complete")
        assert await order.get_output() == {"charged": 1, "arrived": 2}


async def test_something_can_be_arranged_for_an_instance_that_sleeps(
    workflows: TestProject,
) -> None:
    await workflows.env.ORDERS.create(id="o")
    await workflows.advance("1 day")
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(
            lambda m: m.mock_step_result("charge", "free").mock_event(type="arrived")
        )
        await order.wait_for_status("complete")
        assert await order.get_output() == {"charged": "free", "arrived": None}


async def test_the_result_of_a_sensitive_step_is_not_shown(workflows: TestProject) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await workflows.env.ORDERS.create(id="o")
        assert await order.wait_for_step_result("secret") == "[REDACTED]"


async def test_an_end_that_makes_a_status_impossible_is_told(workflows: TestProject) -> None:
    order = introspect_workflow_instance(workflows.env.UNLUCKY, "u")
    await order.wait_for_status("queued")
    await workflows.env.UNLUCKY.create(id="u")
    text = (
        "The Workflow instance u has reached status 'errored'. This is a finite status that "
        "prevents it from ever reaching the expected status of 'complete'."
    )
    with pytest.raises(AssertionError, match=PREFIX + re.escape(text)):
        await order.wait_for_status("complete")
    with pytest.raises(Conflict, match='is in status "errored" but must be "complete" to have an'):
        await order.get_output()
    with pytest.raises(AssertionError, match=r'"charge-1" never did\. Steps that ran: none\.'):
        await order.wait_for_step_result("charge")


async def test_a_result_that_never_came_is_told_with_the_steps_that_ran(
    workflows: TestProject,
) -> None:
    await workflows.env.ORDERS.create(id="o")
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    await order.wait_for_status("complete")
    ran = 'sleep "think-1", do "charge-1", do "secret-1", wait "parcel-1"'
    with pytest.raises(AssertionError, match=rf'"chrage-1" never did\. Steps that ran: {ran}\.'):
        await order.wait_for_step_result("chrage")


async def test_waiting_in_vain_is_an_error(workflows: TestProject) -> None:
    instance = await workflows.env.ORDERS.create(id="o")
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    await workflows.settle()
    await instance.pause()
    with pytest.raises(AssertionError, match='o will not have a result of step "charge-1": it is'):
        await order.wait_for_step_result("charge")
    with pytest.raises(Conflict, match='Cannot retrieve error: Workflow instance is in status "pa'):
        await order.get_error()


async def test_disposing_frees_the_id_and_forgets_what_was_arranged(
    workflows: TestProject,
) -> None:
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.modify(lambda m: m.mock_step_result("charge", 1).mock_event(type="arrived"))
        instance = await workflows.env.ORDERS.create(id="o")
        await order.wait_for_status("complete")
    with pytest.raises(InstanceNotFound):
        await instance.status()
    assert "o: complete" in workflows.trees()[0], "kept for a report"
    again = await workflows.env.ORDERS.create(id="o")
    await again.send_event(type="arrived")
    await workflows.until(again, "complete")
    assert (await again.status())["output"]["charged"] == {"really": 1}


async def test_a_mock_for_a_step_that_never_ran_is_reported(workflows: TestProject) -> None:
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    await order.modify(
        lambda m: (
            m.mock_step_result("charge", 1)
            .mock_step_error("chrage", ValueError())
            .disable_sleeps(["thnik"])
        )
    )
    await workflows.env.ORDERS.create(id="o")
    await order.wait_for_step_result("charge")
    text = r'"o" that never ran: do "chrage-1", sleep "thnik-1"\. .* Steps that ran: sleep "think-1", do "charge-1"'
    with pytest.raises(AssertionError, match=text):
        await order.dispose()
    await order.dispose()


async def test_a_mocked_event_that_nothing_took_is_reported(workflows: TestProject) -> None:
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    await order.modify(lambda m: m.mock_event({"type": "arived"}).mock_event({"type": "arrived"}))
    await workflows.env.ORDERS.create(id="o")
    await order.wait_for_status("complete")
    text = r'An event was arranged for instance "o", and nothing took it: "arived"\. Is'
    with pytest.raises(AssertionError, match=text):
        await order.dispose()


async def test_a_result_that_is_mocked_too_late_is_reported(workflows: TestProject) -> None:
    await workflows.env.ORDERS.create(id="o")
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    await order.wait_for_step_result("charge")
    await order.modify(lambda m: m.mock_step_result("charge", 1))
    text = r'A result was arranged for steps of instance "o" after they had run: do "charge-1"\. Is'
    with pytest.raises(AssertionError, match=text):
        await order.dispose()


async def test_a_result_that_is_mocked_late_may_be_for_a_restart(workflows: TestProject) -> None:
    instance = await workflows.env.ORDERS.create(id="o")
    async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
        await order.wait_for_step_result("charge")
        await order.modify(lambda m: m.mock_step_result("charge", 1))
        await instance.restart()
        assert await order.wait_for_step_result("charge") == 1


async def test_a_mocked_event_for_all_is_reported_if_none_took_it(workflows: TestProject) -> None:
    introspector = introspect_workflow(workflows.env.ORDERS)
    await introspector.modify_all(lambda m: m.mock_event(type="arived").mock_event(type="arrived"))
    instances = [await workflows.env.ORDERS.create() for _ in range(2)]
    await workflows.until(instances[0], "complete")
    text = r'arranged for workflow "orders", and nothing took it: "arived"\. '
    with pytest.raises(AssertionError, match=text):
        await introspector.dispose()


async def test_a_failure_in_the_block_is_not_hidden_by_the_report(workflows: TestProject) -> None:
    async def fail() -> None:
        async with introspect_workflow_instance(workflows.env.ORDERS, "o") as order:
            await order.modify(lambda m: m.mock_step_result("nothing", 1))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()


async def test_all_instances_to_come_can_be_modified(workflows: TestProject) -> None:
    before = await workflows.env.ORDERS.create(id="before")
    async with introspect_workflow(workflows.env.ORDERS) as introspector:
        await introspector.modify_all(
            lambda m: m.disable_sleeps().mock_step_result({"name": "charge"}, 1)
        )
        await workflows.env.ORDERS.create_batch([{"id": "b"}, {"id": "a"}])
        await workflows.settle()
        captured = await introspector.get()
        assert [each.id for each in captured] == ["b", "a"]
        assert [await each.wait_for_step_result("charge") for each in captured] == [1, 1]
    await before.send_event(type="arrived")
    await workflows.until(before, "complete")
    assert (await before.status())["output"]["charged"] == {"really": 1}


async def test_a_mock_for_all_is_reported_if_it_ran_in_none(workflows: TestProject) -> None:
    introspector = introspect_workflow(workflows.env.ORDERS)
    await introspector.modify_all(lambda m: m.disable_sleeps().mock_step_result("charg", 1))
    await workflows.env.ORDERS.create()
    await workflows.settle()
    text = (
        f'{PREFIX}Something was arranged for steps of workflow "orders" that never ran: do "charg'
    )
    with pytest.raises(AssertionError, match=text):
        await introspector.dispose()
    introspect_workflow(workflows.env.ORDERS)  # the next session may begin


async def test_a_workflow_has_one_session_at_a_time(workflows: TestProject) -> None:
    introspect_workflow(workflows.env.ORDERS)
    text = 'Workflow "orders" already has an active introspection session for binding "ORDERS".'
    with pytest.raises(Conflict, match=re.escape(text)):
        introspect_workflow(workflows.env.ORDERS)


async def test_a_binding_and_an_id_are_required(workflows: TestProject) -> None:
    nothing: Any = None
    with pytest.raises(InvalidInput, match=f"{PREFIX}Workflow binding and instance id are requir"):
        introspect_workflow_instance(workflows.env.ORDERS, "")
    with pytest.raises(InvalidInput, match=f"{PREFIX}Workflow binding is required"):
        introspect_workflow(nothing)
    with pytest.raises(InvalidInput, match="no binding of a test harness"):
        introspect_workflow(Orders)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("selector", [{"name": "charge", "index": 0}, {"index": 1}, {}])
async def test_a_step_is_given_by_name_and_index(workflows: TestProject, selector: Any) -> None:
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    with pytest.raises(InvalidInput, match="A step is given by its name"):
        await order.modify(lambda m: m.mock_step_result(selector, 1))


@pytest.mark.parametrize("times", [0, -1, 1.5, True])
async def test_times_is_a_number_of_attempts(workflows: TestProject, times: Any) -> None:
    order = introspect_workflow_instance(workflows.env.ORDERS, "o")
    with pytest.raises(InvalidInput, match="times must be a whole number from 1"):
        await order.modify(lambda m: m.force_step_timeout("charge", times))
