"""The plugin in other people's test runs: every mode and loop scope of pytest-asyncio, xdist, and what a failure shows.

The runs are in this process, but for xdist's workers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wrangler_compat.testing import introspection

pytest_plugins = ["pytester"]

LOADED = introspection
"""With all that it imports: pytester forgets what its runs load, and would load it anew each time."""

WRANGLER = """
{
  "name": "shop",
  "main": "src/entry.py",
  "workflows": [{ "name": "nap", "binding": "NAP", "class_name": "Nap" }]
}
"""

ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

class Nap(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("a month", "30 days")
        @step.do("wake up")
        async def wake_up():
            return self.env.GREETING
        return await wake_up()

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response.json({"id": (await self.env.NAP.create()).id})
"""

SUITE = """
import asyncio

import pytest
import pytest_asyncio
from workers import WorkflowEntrypoint
from wrangler_compat.testing import introspect_workflow_instance

class Twice(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("s", "1 hour")
        return event.payload * 2

@pytest.fixture(autouse=True)
def greeting(request, workflows):
    workflows.env.GREETING = "good morning"

@pytest_asyncio.fixture
async def sleeper(workflows):
    return await workflows.env.NAP.create(id="same")

@pytest.mark.asyncio
async def test_a_month_passes(workflows, sleeper):
    await workflows.until(sleeper, "complete")
    assert (await sleeper.status())["output"] == "good morning"

@pytest.mark.asyncio
async def test_the_same_id_is_free_in_each_test(workflows, sleeper):
    await workflows.advance("29 days")
    assert (await sleeper.status())["status"] == "waiting"

@pytest.mark.asyncio(loop_scope="module")
async def test_another_loop(workflows):
    answer = await workflows.request("GET", "/")
    instance = await workflows.env.NAP.get(answer.json()["id"])
    await workflows.restart()
    await workflows.until(instance, "complete")

@pytest.mark.workflows(classes=[Twice])
@pytest.mark.asyncio
async def test_classes(workflows):
    async with introspect_workflow_instance(workflows.env.TWICE, "t") as twice:
        await twice.modify(lambda m: m.disable_sleeps())
        await workflows.env.TWICE.create(id="t", params=21)
        await workflows.settle()
        assert await twice.get_output() == 42

def test_a_loop_of_its_own(workflows):
    async def life():
        instance = await workflows.env.NAP.create()
        await workflows.until(instance, "complete")
    asyncio.run(life())

def test_nothing_of_it_is_used():
    pass
"""

TESTS = 6


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a wrangler file, its tests in a folder below it."""
    (pytester.path / "src").mkdir()
    (pytester.path / "tests").mkdir()
    (pytester.path / "wrangler.jsonc").write_text(WRANGLER)
    (pytester.path / "src" / "entry.py").write_text(ENTRY)
    (pytester.path / "tests" / "test_suite.py").write_text(SUITE)
    return pytester


def configure(project: pytest.Pytester, mode: str, scope: str) -> None:
    project.makeini(
        f"""
        [pytest]
        asyncio_mode = {mode}
        asyncio_default_fixture_loop_scope = {scope}
        asyncio_default_test_loop_scope = {scope}
        filterwarnings = error
        """
    )


@pytest.mark.parametrize("scope", ["function", "session"])
@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_a_suite_passes_in_each_mode_and_loop_scope(
    project: pytest.Pytester, mode: str, scope: str
) -> None:
    configure(project, mode, scope)
    project.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=TESTS)


ALONE = """
import pytest

@pytest.fixture
def greeting():
    return "good morning"

@pytest.mark.parametrize("times", [1, 2])
async def test_a_month_passes(workflows, greeting, times, unused=None):
    workflows.env.GREETING = greeting * times
    instance = await workflows.env.NAP.create()
    await workflows.until(instance, "complete")
    assert (await instance.status())["output"] == "good morning" * times

class TestOfAClass:
    async def test_it_fails(self, workflows):
        assert workflows is None

async def test_that_is_not_about_workflows():
    pass
"""


@pytest.mark.parametrize("options", ["no:asyncio", "asyncio"])
def test_coroutine_functions_need_no_other_plugin(project: pytest.Pytester, options: str) -> None:
    configure(project, "strict", "function")
    project.makepyfile(ALONE)
    (project.path / "tests" / "test_suite.py").unlink()
    arguments = ("-p", options) if options == "no:asyncio" else ()
    warned = ("-W", "ignore::pytest.PytestConfigWarning")
    result = project.runpytest_inprocess("-p", "no:cacheprovider", *warned, *arguments)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


def test_a_suite_passes_in_four_workers(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four more interpreters start: with these plugins, and not with all that happen to be installed.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("xdist.plugin", "pytest_asyncio.plugin", "wrangler_compat.testing.plugin")
    configure(project, "auto", "function")
    result = project.runpytest_inprocess("-n", "4", *(f"-p{name}" for name in plugins))
    result.assert_outcomes(passed=TESTS)


def test_a_failure_shows_the_journal_as_a_tree(project: pytest.Pytester) -> None:
    configure(project, "auto", "function")
    project.makepyfile(
        """
        async def test_wrong(workflows):
            workflows.env.GREETING = "good morning"
            instance = await workflows.env.NAP.create(id="n", params={"for": "long"})
            await workflows.until(instance, "complete")
            assert (await instance.status())["output"] == "good evening"
        """
    )
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-k", "test_wrong")
    result.assert_outcomes(failed=1, deselected=TESTS)
    result.stdout.fnmatch_lines(
        [
            "*- workflow instance -*",
            "nap/n: complete, created 2026-01-01T00:00:00.000Z",
            'params {"for":"long"}',
            '├─ +0s sleep "a month-1": over at +30d',
            '├─ +30d do "wake up-1": "good morning"',
            '└─ +30d complete: "good morning"',
        ],
        consecutive=True,
    )


def test_a_failure_shows_what_an_introspector_has_removed(project: pytest.Pytester) -> None:
    configure(project, "auto", "function")
    project.makepyfile(
        """
        from wrangler_compat.testing import introspect_workflow_instance

        async def test_wrong(workflows):
            workflows.env.GREETING = "good morning"
            async with introspect_workflow_instance(workflows.env.NAP, "n") as nap:
                await workflows.env.NAP.create(id="n")
                await nap.wait_for_status("complete")
                assert await nap.get_output() == "good evening"
        """
    )
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-k", "test_wrong")
    result.assert_outcomes(failed=1, deselected=TESTS)
    result.stdout.fnmatch_lines(
        ["*- workflow instance -*", "nap/n: complete, *", '└─ +30d complete: "good morning"']
    )


def test_what_a_test_leaves_unfinished_is_noted_and_not_waited_for(
    project: pytest.Pytester,
) -> None:
    configure(project, "auto", "function")
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-rP", "-k", "same_id")
    result.assert_outcomes(passed=1, deselected=TESTS - 1)
    result.stdout.fnmatch_lines(
        [
            "*unfinished workflows*",
            'nap/same: it is waiting, sleeps in step "a month-1" until +30d',
        ]
    )


def test_a_replay_that_asks_for_other_steps_is_an_error(project: pytest.Pytester) -> None:
    configure(project, "auto", "function")
    project.makepyfile(
        """
        from itertools import count
        from workers import WorkflowEntrypoint

        class Roll(WorkflowEntrypoint):
            rolls = count()

            async def run(self, event, step):
                await step.do(f"roll {next(self.rolls)}")(lambda: 1)()
                await step.sleep("nap", "1 hour")

        async def test_rolls(workflows):
            workflows.add(Roll)
            instance = await workflows.env.ROLL.create(id="r")
            await workflows.until(instance, "waiting")
            await workflows.restart()
            await workflows.until(instance, "complete")

        async def test_rolls_on_purpose(workflows):
            await test_rolls(workflows)
            assert workflows.divergences.pop()
        """
    )
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-k", "test_rolls")
    result.assert_outcomes(passed=2, errors=1, deselected=TESTS)
    result.stdout.fnmatch_lines(
        [
            'workflow roll, instance r: *"roll 0-1"*',
            "*takes the text out of workflows.divergences.",
            "*- workflow instance -*",
            "roll/r: complete, *",
        ]
    )


def test_the_start_of_pytest_does_not_load_the_engine() -> None:
    program = (
        "import sys, wrangler_compat.testing.plugin\n"
        "heavy = {'asyncio', 'bindings', 'emulator', 'httpx', 'msgspec'}\n"
        "import pytest\n"
        "assert not heavy & (set(sys.modules) - {'asyncio'}), heavy & set(sys.modules)"
    )
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3], timeout=60)
