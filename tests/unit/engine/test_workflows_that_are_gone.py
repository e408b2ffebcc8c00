"""A start of a project that has lost workflows: it says once whose instances are held, and the others go on."""

from __future__ import annotations

import logging

import msgspec
import pytest

from emulator.domain.instance import Creation, InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.journal.port import Commit, InstanceRow
from tests.unit.bindings.project import NAME, JsDict, Project, WorkflowStep, in_virtual_time


async def _run(event: JsDict, step: WorkflowStep) -> int:
    return 1


def _rows() -> list[InstanceRow]:
    """One of each status of the workflow `old`, a sleeping one of `older`, finished ones of `done`."""
    told = [("old", status) for status in InstanceStatus]
    told += [("older", InstanceStatus.WAITING), ("done", InstanceStatus.COMPLETE)]
    return [
        InstanceRow(number, Creation(workflow, str(number), msgspec.Raw(b"null"), 1), status, 1)
        for number, (workflow, status) in enumerate(told, 1)
    ]


def test_a_start_says_once_how_many_instances_are_held(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def start() -> None:
        project = Project(_run)
        await project.journal.commit(Commit(created=_rows()))
        async with project:
            assert await project.result() == 1

    with caplog.at_level(logging.WARNING):
        start()
    [record] = caplog.records
    assert "old (6), older (1)" in record.getMessage()


def test_a_project_that_has_all_its_workflows_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_virtual_time
    async def start() -> None:
        project = Project(_run)
        async with project:
            await project.workflow.create(id="a")
            await project.crash()
            assert (await project.ended("a"))["output"] == 1
            assert await project.journal.existing([InstanceKey(NAME, "a")])

    with caplog.at_level(logging.WARNING):
        start()
    assert not caplog.records
