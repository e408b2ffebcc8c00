"""`@step.do`: its forms, `ctx`, dependencies, and where callbacks run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial, wraps
from typing import Any, cast

import pytest

from bindings import WorkflowEntrypoint, WorkflowStep
from emulator.domain.values import JsDict
from emulator.errors import StepError
from tests.unit.bindings.project import (
    AT_ONCE,
    ONCE,
    Project,
    in_virtual_time,
    pause_for,
    refusal_of,
)


@in_virtual_time
async def test_a_step_is_named_after_its_function_unless_it_has_a_name() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def reserve(ctx: JsDict) -> Any:
            return ctx["step"]

        @step.do("ship the goods")
        async def ship(ctx: JsDict) -> Any:
            return ctx["step"]

        assert reserve.__name__ == "reserve"
        assert ship._step_name == "ship the goods"  # type: ignore[attr-defined]
        return [await reserve(), await ship(), await step.do(name="reserve")(lambda: None)()]

    async with Project(run) as project:
        assert await project.result() == [
            {"name": "reserve", "count": 1},
            {"name": "ship the goods", "count": 1},
            None,
        ]


@in_virtual_time
async def test_a_callback_is_told_its_step_its_attempt_and_its_config() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        config = {
            "retries": {"limit": 2, "delay": "5 seconds", "backoff": "linear"},
            "sensitive": "output",
        }

        @step.do("pay", config=config)
        async def pay(ctx: JsDict) -> Any:
            if ctx.attempt < 3:
                raise RuntimeError
            return ctx

        @step.do("plain")
        def plain(ctx: JsDict) -> Any:
            return ctx

        return [await pay(), await plain()]

    async with Project(run) as project:
        assert await project.result() == [
            {
                "step": {"name": "pay", "count": 1},
                "attempt": 3,
                "config": {
                    "retries": {"limit": 2, "backoff": "linear", "delay": "5 seconds"},
                    "timeout": "10 minutes",
                    "sensitive": "output",
                },
            },
            {
                "step": {"name": "plain", "count": 1},
                "attempt": 1,
                "config": {
                    "retries": {"limit": 5, "backoff": "exponential", "delay": 10_000},
                    "timeout": "10 minutes",
                },
            },
        ]


@in_virtual_time
async def test_changing_what_it_is_told_changes_nothing() -> None:
    attempts: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("pay", config=AT_ONCE)
        async def pay(ctx: JsDict) -> Any:
            attempts.append(ctx.attempt)
            ctx["config"]["retries"]["limit"] = 0
            ctx.step.name = "other"
            ctx.attempt = 9
            raise RuntimeError("no")

        event["payload"]["n"] = 2
        await pay()

    async with Project(run) as project:
        instance = await project.workflow.create(params={"n": 1})
        await project.ended(instance)
        assert attempts == [1, 2, 3]
        assert ("StepFailed", "pay-1") in await project.history(instance)


@in_virtual_time
async def test_each_use_of_a_name_is_a_step_of_its_own() -> None:
    bodies: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        results: list[Any] = []
        for number in range(3):

            @step.do("same")
            async def same(ctx: JsDict) -> Any:
                bodies.append(number)  # noqa: B023 - called within the loop
                return [number, ctx.step.count]  # noqa: B023

            results.append(await same())
            await step.sleep("nap", "1 hour")
        return results

    async with Project(run, max_live=0) as project:
        assert await project.result() == [[0, 1], [1, 2], [2, 3]]
        assert bodies == [0, 1, 2]


@in_virtual_time
async def test_a_parameter_gets_the_result_of_the_step_of_its_name() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("price")
        async def look_up() -> int:
            return 20

        @step.do()
        async def quantity() -> int:
            return 3

        @step.do("bill")
        async def bill(price: int, ctx: JsDict, *, quantity: int) -> Any:
            return [price * quantity, ctx.step.name]

        assert step.step_closures["price"] is look_up
        return await bill()

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["output"] == [60, "bill"]
        started = [step for kind, step in await project.history(instance) if kind == "StepStarted"]
        assert started == ["price-1", "quantity-1", "bill-1"]


@in_virtual_time
async def test_depends_matches_parameters_by_position() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("look up")
        async def look_up() -> int:
            return 20

        @step.do("count")
        async def count() -> int:
            return 3

        @step.do("bill", depends=[look_up, count])
        async def bill(a: int, ctx: JsDict, b: int) -> Any:
            return [a, b, ctx.attempt]

        return await bill()

    async with Project(run) as project:
        assert await project.result() == [20, 3, 1]


@in_virtual_time
async def test_dependencies_that_do_not_match_are_named() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("first")
        async def first() -> int:
            return 1

        async def needs(a: int, ctx: JsDict) -> int:
            return a

        async def plain() -> None: ...

        errors = [
            await refusal_of(step.do("x")(needs)()),
            await refusal_of(step.do("x", depends=[])(needs)()),
            await refusal_of(step.do("x", depends=[first, first])(needs)()),
            await refusal_of(step.do("x", depends=[plain])(needs)()),
            await refusal_of(step.do("x", [first])(plain)()),
        ]
        assert [type(error) for error in errors] == [TypeError] * 5
        [note] = errors[0].__notes__
        assert "Steps here: first, x." in note
        return [str(error) for error in errors]

    async with Project(run) as project:
        instance = await project.workflow.create()
        assert (await project.ended(instance))["output"] == [
            "Received unexpected parameter a",
            "Step declares 1 non-ctx parameter(s) but 'depends' has 0 item(s)",
            "Step declares 1 non-ctx parameter(s) but 'depends' has 2 item(s)",
            "'depends' entry for parameter 'a' is not a function decorated with step.do",
            "Step declares 0 non-ctx parameter(s) but 'depends' has 1 item(s)",
        ]
        assert not [step for _, step in await project.history(instance) if step]


@in_virtual_time
async def test_a_step_is_called_without_arguments_and_says_so() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("pay")
        async def pay(cents: int) -> int:
            return cents

        call = cast("Callable[..., Any]", pay)
        errors = [await refusal_of(call(3)), await refusal_of(call(cents=3))]
        assert [type(error) for error in errors] == [TypeError] * 2
        return [str(error).partition(":")[0] for error in errors]

    async with Project(run) as project:
        instance = await project.workflow.create()
        said = 'The step "pay" is called without arguments'
        assert (await project.ended(instance))["output"] == [said, said]
        assert not [step for _, step in await project.history(instance) if step]


@pytest.mark.parametrize(("concurrent", "took_ms"), [(False, 3_000), (True, 2_000)])
@in_virtual_time
async def test_dependencies_are_run_one_by_one_or_at_once(concurrent: bool, took_ms: int) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def slow() -> int:
            await pause_for(2)
            return 2

        @step.do()
        async def quick() -> int:
            await pause_for(1)
            return 1

        @step.do("sum", concurrent=concurrent)
        async def add(slow: int, quick: int) -> int:
            return slow * 10 + quick

        return await add()

    async with Project(run) as project:
        began_ms = project.now_ms()
        assert await project.result() == 21
        assert project.now_ms() - began_ms == took_ms


@pytest.mark.parametrize("concurrent", [False, True])
@in_virtual_time
async def test_the_shared_step_of_a_diamond_runs_once(concurrent: bool) -> None:
    bodies: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def root() -> int:
            bodies.append("root")
            await pause_for(1)
            return 1

        @step.do()
        async def left(root: int) -> int:
            bodies.append("left")
            return root + 10

        @step.do()
        async def right(root: int) -> int:
            bodies.append("right")
            return root + 100

        @step.do(concurrent=concurrent)
        async def tip(left: int, right: int) -> list[int]:
            return [left, right]

        await step.sleep("nap", "1 day")
        return await tip()

    async with Project(run, max_live=0) as project:
        assert await project.result() == [11, 101]
        assert bodies == ["root", "left", "right"]


@in_virtual_time
async def test_a_step_under_way_is_awaited_not_started_again() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def slow(ctx: JsDict) -> Any:
            await pause_for(5)
            return ctx.step.count

        @step.do("next")
        async def following(slow: int) -> int:
            return slow

        direct = asyncio.ensure_future(slow())
        await pause_for(1)
        return [await following(), await direct]

    async with Project(run) as project:
        assert await project.result() == [1, 1]


@in_virtual_time
async def test_a_failure_is_not_remembered_but_asked_for_again() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do(config=ONCE)
        async def fragile(ctx: JsDict) -> int:
            if ctx.step.count == 1:
                raise RuntimeError("the first use fails")
            return ctx.step.count

        @step.do("left")
        async def left(fragile: int) -> int:
            return fragile

        @step.do("right")
        async def right(fragile: int) -> int:
            return fragile

        error = await refusal_of(left())
        assert isinstance(error, StepError)
        return [await right(), await left()]

    async with Project(run) as project:
        assert await project.result() == [2, 2]


@in_virtual_time
async def test_who_waits_for_a_step_that_fails_gets_its_failure_and_tries_it_no_further() -> None:
    tried: list[int] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do(config=ONCE)
        async def fragile(ctx: JsDict) -> None:
            tried.append(ctx.step.count)
            await pause_for(1)
            raise ValueError("out of stock")

        @step.do("left")
        async def left(fragile: None) -> None: ...

        @step.do("right")
        async def right(fragile: None) -> None: ...

        errors = await asyncio.gather(left(), right(), return_exceptions=True)
        return [str(error) for error in errors]

    async with Project(run) as project:
        assert await project.result() == ["out of stock", "out of stock"]
        assert tried == [1]


@in_virtual_time
async def test_who_waits_for_a_dependency_does_not_fall_with_whoever_started_it() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def slow(ctx: JsDict) -> Any:
            await pause_for(5)
            return ctx.step.count

        @step.do("next")
        async def following(slow: int) -> int:
            return slow

        impatient = asyncio.create_task(asyncio.wait_for(slow(), 1))
        await pause_for(0.5)
        waiting = asyncio.ensure_future(following())
        assert isinstance(await refusal_of(impatient), TimeoutError)
        return await waiting

    async with Project(run) as project:
        assert await project.result() == 2


@pytest.mark.parametrize("concurrent", [False, True])
@in_virtual_time
async def test_steps_that_need_one_another_are_refused_and_do_not_wait_for_ever(
    concurrent: bool,
) -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("fetch")
        async def fetch() -> int:
            return 1

        @step.do("fetch")
        async def refined(fetch: int) -> int:
            return fetch + 1

        @step.do(concurrent=concurrent)
        async def chicken(fetched: int, egg: int) -> int:
            return egg

        @step.do(concurrent=concurrent)
        async def egg(shell: int) -> int:
            return shell

        @step.do(concurrent=concurrent)
        async def shell(chicken: int) -> int:
            return chicken

        @step.do()
        async def fetched() -> int:
            return 1

        errors = [await refusal_of(each()) for each in (refined, chicken, egg)]
        at_once = await asyncio.gather(egg(), shell(), return_exceptions=True)
        assert {type(error) for error in (*errors, *at_once)} == {TypeError}
        return [str(error) for error in errors]

    async with Project(run) as project:
        assert await project.result() == [
            "Parameter 'fetch' of step \"fetch\" asks for that step itself",
            "Parameter 'chicken' of step \"shell\" asks for a step that waits for it",
            "Parameter 'egg' of step \"chicken\" asks for a step that waits for it",
        ]


@in_virtual_time
async def test_calling_a_step_directly_always_runs_it() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        async def count(ctx: JsDict) -> Any:
            return ctx.step.count

        @step.do("last")
        async def last(count: int) -> int:
            return count

        return [await count(), await count(), await last()]

    async with Project(run) as project:
        assert await project.result() == [1, 2, 2]


@in_virtual_time
async def test_any_kind_of_callable_is_a_callback() -> None:
    class Pricing:
        async def price(self, ctx: JsDict) -> Any:
            return ["method", ctx.attempt]

        async def __call__(self) -> str:
            return "object"

    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    @traced
    async def decorated(ctx: JsDict) -> Any:
        return ["decorated", ctx.attempt]

    def plain(number: int) -> int:
        return number

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        return [
            await step.do("method")(Pricing().price)(),
            await step.do("object")(Pricing())(),
            await step.do("decorated")(decorated)(),
            await step.do("lambda")(lambda: pause_for(1))(),
            await step.do("partial")(partial(plain, 7))(),
            await step.do("any number")(partial(collecting, 1))(),
            await step.do("written in C")(dict)(),
        ]

    def collecting(*args: int, **options: int) -> list[Any]:
        return [list(args), options]

    async with Project(run) as project:
        found = await project.result()
        assert found[:5] == [["method", 1], "object", ["decorated", 1], None, 7]
        assert found[5:] == [[[1], {}], {}]


@in_virtual_time
async def test_what_cannot_be_declared_is_refused_with_the_way_to_write_it() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        def by_position(ctx: JsDict, /) -> None: ...

        async def call(declare: Callable[[], Any]) -> Any:
            return await declare()

        def one() -> int:
            return 1

        errors = [
            await refusal_of(call(lambda: step.do()(partial(one))())),
            await refusal_of(call(lambda: step.do("x", cast("Any", one)))),
            await refusal_of(call(lambda: step.do("x", cast("Any", ONCE))(one)())),
            await refusal_of(step.do("x")(by_position)()),
        ]
        return [str(error) for error in errors]

    async with Project(run) as project:
        unnamed, javascript, config, positional = await project.result()
        assert unnamed.endswith('has no name: give the step one, step.do("name").')
        assert javascript.startswith('Write step.do("x")(function): step.do makes a decorator')
        assert config.startswith('Write step.do("x", config={…})(function): step.do makes')
        assert positional == (
            "A step gives a function its parameters by name; (ctx) has some that are positional only."
        )


@in_virtual_time
async def test_a_plain_function_runs_in_a_thread_and_stalls_nobody() -> None:
    loop_thread = threading.get_ident()
    released = threading.Event()

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do()
        def blocking() -> bool:
            assert released.wait(timeout=30), "the other instances were held up"
            return threading.get_ident() != loop_thread

        @step.do()
        async def quick() -> bool:
            return threading.get_ident() == loop_thread

        return await (blocking if event["payload"] == "blocking" else quick)()

    async with Project(run) as project:
        blocked = await project.workflow.create(params="blocking")
        assert [await project.result() for _ in range(10)] == [True] * 10
        assert (await blocked.status())["status"] == "running"
        released.set()
        assert (await project.ended(blocked))["output"] is True


@in_virtual_time
async def test_a_workflow_class_gets_its_context_and_env_in_every_life() -> None:
    class Orders(WorkflowEntrypoint):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.visits = 0

        async def run(self, event: JsDict, step: WorkflowStep) -> Any:
            self.visits += 1
            await step.sleep("nap", "1 hour")
            return [self.env["GREETING"], self.ctx, self.visits]

    async with Project(Orders, env={"GREETING": "hello"}, max_live=0) as project:
        assert await project.result() == ["hello", None, 1]


@in_virtual_time
async def test_run_may_be_a_plain_function() -> None:
    class Orders(WorkflowEntrypoint):
        def run(self, event: JsDict, step: WorkflowStep) -> Any:  # type: ignore[override]
            return event.instanceId

    async with Project(Orders) as project:
        assert await project.result(id="a") == "a"


@in_virtual_time
async def test_a_class_without_run_says_so() -> None:
    class Orders(WorkflowEntrypoint):
        pass

    async with Project(Orders) as project:
        assert await project.error() == (
            "NotImplementedError",
            "Orders has no run(self, event, step)",
        )


@in_virtual_time
async def test_a_class_that_cannot_be_made_fails_its_instance_only() -> None:
    class Orders(WorkflowEntrypoint):
        def __init__(self, ctx: Any, env: Any) -> None:
            raise LookupError("no such binding")

    async with Project(Orders) as project:
        assert await project.error() == ("LookupError", "no such binding")
        assert await project.error() == ("LookupError", "no such binding")


@in_virtual_time
async def test_the_javascript_spellings_are_the_same_methods() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        await step.sleepUntil("nap", event["payload"] + 1_000)
        return (await step.waitForEvent("w", {"type": "go", "timeout": timedelta(hours=1)})).payload

    async with Project(run) as project:
        [instance] = await project.workflow.createBatch([{"params": project.now_ms()}])
        await instance.sendEvent(type="go", payload="gone")
        assert (await project.ended(instance))["output"] == "gone"
        answer = await project.workflow.deleteBatch([instance.id])
        assert answer.deleted == [{"id": instance.id}]


@in_virtual_time
async def test_a_step_has_an_id_for_all_its_attempts_and_for_itself_alone() -> None:
    seen: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        @step.do("pay", config=AT_ONCE)
        async def pay(ctx: Any) -> None:
            seen.append(ctx.step_id)
            if ctx.attempt < 3:
                raise ValueError("declined")

        await pay()
        await pay()

    async with Project(run) as project:
        await project.result(id="a")
        await project.result(id="b")
    assert seen[0] == seen[1] == seen[2] != seen[3] == seen[4] == seen[5]
    assert len(set(seen)) == 4
    assert all(each.startswith("step_") for each in seen)
