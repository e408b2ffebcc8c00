"""The pytest plugin: the fixture `workflows`, and what a failed test shows of it.

pytest imports this at every start, so nothing that costs time is imported before a test uses the fixture. The fixture
itself is a plain one: it makes no difference on which event loop, in which mode of pytest-asyncio or under which
`asyncio.run` a test awaits it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wrangler_compat.testing.project import TestProject

PYTHONPATH = Path(__file__).parents[1] / "pythonpath"
"""Where `from workers import …` finds the emulator's modules."""

MARKER = "workflows(classes=[], env={}): what the fixture `workflows` tests instead of a project, and fakes for `env`"

_PROJECT = pytest.StashKey["TestProject"]()


def pytest_configure(config: pytest.Config) -> None:
    """Let tests import `workers`, and mark what they test."""
    config.addinivalue_line("markers", MARKER)
    if sys.path[0] != str(PYTHONPATH):  # it may be there already, behind what is installed
        sys.path.insert(0, str(PYTHONPATH))


@pytest.fixture
def workflows(request: pytest.FixtureRequest) -> Generator[TestProject]:
    """An engine of this test's own, in memory and in virtual time.

    It runs the project that the test's file belongs to; or the classes that are given, to `@pytest.mark.workflows` or to
    `workflows.add`.
    """
    from wrangler_compat.testing.classes import project_or_hint
    from wrangler_compat.testing.project import TestProject

    path: Path = request.path
    project = TestProject(lambda: project_or_hint(path.parent), path)
    marker = request.node.get_closest_marker("workflows")
    request.node.stash[_PROJECT] = project
    if marker is not None:
        _set_up(project, marker)
    try:
        yield project
    finally:
        if pending := project.pending():
            request.node.add_report_section("teardown", "unfinished workflows", "\n".join(pending))
        project.stop()


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function and uses the fixture, if no other plugin has taken it."""
    test: Any = pyfuncitem.obj
    if "workflows" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(test):
        return None
    import asyncio

    given = pyfuncitem.funcargs
    asyncio.run(
        test(**{name: given[name] for name in inspect.signature(test).parameters if name in given})
    )
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the user's lines of a failed test, and the journals."""
    project = item.stash.get(_PROJECT, None)
    is_shown = project is None or call.excinfo is None or _shorten(item.config, call)
    report = yield
    if project is not None and report.failed:
        if not is_shown and call.excinfo is not None:
            report.longrepr = call.excinfo.getrepr(style="value", chain=False)
        report.sections += [("workflow instance", drawn) for drawn in project.trees()]
    return report


def _shorten(config: pytest.Config, call: pytest.CallInfo[None]) -> bool:
    """Take all lines but the user's out of what is shown; says whether there is something to show but the message."""
    error = call.excinfo and call.excinfo.value
    if (
        error is None
        or config.getoption("fulltrace")
        or config.getoption("tbstyle") == "native"
        or isinstance(error, pytest.skip.Exception | pytest.fail.Exception | pytest.exit.Exception)
    ):
        return True
    from wrangler_compat.testing.tracebacks import shorten

    is_shown = shorten(error)
    call.excinfo = pytest.ExceptionInfo[BaseException].from_exception(error)
    return is_shown


def _set_up(project: TestProject, marker: pytest.Mark) -> None:
    # By keywords: pytest takes a mark of a single class for the class's own decorator.
    given: dict[str, Any] = {"classes": [], "env": {}, **marker.kwargs}
    classes, env = given["classes"], given["env"]
    unknown = ", ".join(given.keys() - {"classes", "env"})
    problem = None
    if marker.args:
        problem = "takes its classes by keyword"
    elif unknown:
        problem = f"takes classes and env, not {unknown}"
    elif not isinstance(classes, list | tuple):
        problem = f"takes a list of classes, not {classes!r}"
    elif not isinstance(env, Mapping):
        problem = f"takes env as a dictionary, not {env!r}"
    if problem is not None:
        usage = '@pytest.mark.workflows(classes=[MyWorkflow], env={"NAME": fake})'
        pytest.fail(f"The mark workflows {problem}: {usage}", pytrace=False)
    project.add(*given["classes"])
    project.replace_env(given["env"])
