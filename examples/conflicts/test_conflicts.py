"""Two runs for one report, five ways."""

from typing import Any

import pytest

from wrangler_compat.testing import TestProject


async def two_runs(workflows: TestProject, strategy: str) -> tuple[Any, Any]:
    binding = getattr(workflows.env, strategy)
    first = await binding.create(params={"name": "sales", "by": "Ada"})
    await workflows.settle()
    second = await binding.create(params={"name": "sales", "by": "Bo"})
    await workflows.settle()
    return first, second


async def finish(workflows: TestProject) -> None:
    answer = await workflows.request("POST", "/finish", json={"name": "sales"})
    assert answer.status == 200


async def output(workflows: TestProject, instance: Any) -> Any:
    await workflows.until(instance, "complete")
    return (await instance.status())["output"]


@pytest.mark.parametrize("strategy", ["REJECT", "INSPECT"])
async def test_a_duplicate_names_the_run_that_counts(workflows: TestProject, strategy: str) -> None:
    first, second = await two_runs(workflows, strategy)
    assert await output(workflows, second) == {"duplicate_of": first.id}
    await finish(workflows)
    assert await output(workflows, first) == "sales by Ada"


async def test_an_adopted_result_is_that_of_the_other_run_also_across_a_crash(
    workflows: TestProject,
) -> None:
    first, second = await two_runs(workflows, "ADOPT")
    await workflows.restart()
    await workflows.settle()
    await finish(workflows)
    assert await output(workflows, first) == await output(workflows, second) == "sales by Ada"


async def test_a_late_duplicate_inspects_a_run_that_has_ended(workflows: TestProject) -> None:
    first = await workflows.env.INSPECT.create(params={"name": "sales", "by": "Ada"})
    await workflows.settle()
    await finish(workflows)
    assert await output(workflows, first) == "sales by Ada"
    late = await workflows.env.INSPECT.create(params={"name": "sales", "by": "Bo"})
    assert await output(workflows, late) == "sales by Ada"


async def test_a_signal_reaches_the_other_run(workflows: TestProject) -> None:
    first, second = await two_runs(workflows, "SIGNAL")
    assert await output(workflows, second) == {"added_to": first.id}
    await finish(workflows)
    assert await output(workflows, first) == "sales by Ada, Bo"


async def test_the_newest_run_supersedes_the_one_before(workflows: TestProject) -> None:
    first, second = await two_runs(workflows, "SUPERSEDE")
    assert (await first.status())["status"] == "terminated"
    await finish(workflows)
    assert await output(workflows, second) == "sales by Bo"
