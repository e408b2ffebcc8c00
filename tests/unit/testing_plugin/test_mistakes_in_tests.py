"""Mistakes that tests often have: what is said of them names what was given, and what may be."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bindings import WorkflowEntrypoint
from emulator.errors import ConfigError, EngineStopped, InvalidInput
from wrangler_compat.testing import Response, TestProject, introspect_workflow_instance
from wrangler_compat.testing.classes import project_of

pytest_plugins = ["pytester"]

STATUSES = (
    "There is no status 'completed': there are queued, running, waiting, waitingForPause, paused, rollingBack, complete, "
    "errored, terminated."
)


class Short(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> None:
        pass


classes = pytest.mark.workflows(classes=[Short])


@classes
async def test_an_instance_that_is_not_awaited(workflows: TestProject) -> None:
    instance: Any = workflows.env.SHORT.create()
    text = "An instance was expected, and not a coroutine: `await` is missing before the call of create()."
    with pytest.raises(InvalidInput, match=re.escape(text)):
        await workflows.until(instance, "complete")


@classes
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("order-1", "and not its id: `await workflows.env.MY_WORKFLOW.get('order-1')` gives it."),
        (None, "as `await workflows.env.MY_WORKFLOW.create()` gives it, and not None."),
    ],
)
async def test_what_is_no_instance(workflows: TestProject, given: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"An instance was expected, {text}")):
        await workflows.until(given, "complete")


@classes
async def test_a_status_that_does_not_exist(workflows: TestProject) -> None:
    instance = await workflows.env.SHORT.create(id="s")
    with pytest.raises(InvalidInput, match=re.escape(STATUSES)):
        await workflows.until(instance, "completed")
    introspector = introspect_workflow_instance(workflows.env.SHORT, "s")
    with pytest.raises(InvalidInput, match=re.escape(STATUSES)):
        await introspector.wait_for_status("completed")


@classes
async def test_nothing_that_arranges_anything(workflows: TestProject) -> None:
    introspector = introspect_workflow_instance(workflows.env.SHORT, "s")
    nothing: Any = None
    text = "as a function of the modifier, such as `lambda m: m.disable_sleeps()`, not None."
    with pytest.raises(InvalidInput, match=re.escape(text)):
        await introspector.modify(nothing)


@classes
@pytest.mark.parametrize("error", ["down", ConnectionError])
async def test_an_error_that_is_no_exception(workflows: TestProject, error: Any) -> None:
    introspector = introspect_workflow_instance(workflows.env.SHORT, "s")
    text = f'takes an exception, such as ConnectionError("down"), not {error!r}.'
    with pytest.raises(InvalidInput, match=re.escape(text)):
        await introspector.modify(lambda m: m.mock_step_error("reserve", error))


def test_an_answer_has_a_status_and_no_status_code() -> None:
    answer: Any = Response(200, {}, b"")
    text = "no 'status_code': it has status, headers, body, text() and json()."
    with pytest.raises(AttributeError, match=re.escape(text)):
        _ = answer.status_code


@pytest.mark.parametrize("given", [[Short], Short.__new__(Short), str])
def test_what_is_no_class_of_a_workflow(workflows: TestProject, given: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be tested: what is given are classes"):
        workflows.add(given)


@classes
async def test_what_another_test_has_left_behind(workflows: TestProject) -> None:
    binding = workflows.env.SHORT
    instance = await binding.create()
    workflows.stop()
    uses: list[Callable[[], Awaitable[object]]] = [
        instance.status,
        binding.create,
        lambda: workflows.until(instance, "complete"),
        lambda: workflows.advance("1 day"),
    ]
    for use in uses:
        with pytest.raises(EngineStopped, match="The project under test has ended, with its test"):
            await use()


@classes
async def test_a_project_that_was_never_used_does_not_start_after_its_test(
    workflows: TestProject,
) -> None:
    workflows.stop()
    with pytest.raises(EngineStopped, match="has ended"):
        await workflows.env.SHORT.create()


async def test_a_project_that_does_not_open_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "entry.py").write_text("raise RuntimeError('not today')\n")
    (tmp_path / "wrangler.jsonc").write_text(
        '{"name": "shop", "main": "entry.py", "compatibility_date": "2026-08-01"}'
    )
    project = TestProject(lambda: project_of(tmp_path), tmp_path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            await project.settle()


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ("A, B", "takes its classes by keyword"),
        ("clases=[A]", "takes classes and env, not clases"),
        ("classes=A", "takes a list of classes, not <class '*'>"),
        ("env=A", "takes env as a dictionary, not <class '*'>"),
    ],
)
def test_a_mark_that_means_nothing(pytester: pytest.Pytester, mark: str, problem: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        from workers import WorkflowEntrypoint

        class A(WorkflowEntrypoint): ...
        class B(WorkflowEntrypoint): ...

        @pytest.mark.workflows({mark})
        def test_it(workflows):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    usage = '@pytest.mark.workflows(classes=[[]MyWorkflow], env={"NAME": fake})'
    result.stdout.fnmatch_lines([f"The mark workflows {problem}: {usage}"])
