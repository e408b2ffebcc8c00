"""docs/rules.md has a section for every rule, and its code is what it says: the first block breaks, the second works."""

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from bindings import WorkflowEntrypoint
from wrangler_compat.check import TITLES, check_source
from wrangler_compat.testing import TestProject

DOCUMENT = Path(__file__).parents[3] / "docs" / "rules.md"
SECTION = re.compile(
    r'^<a id="(?P<anchor>wf\d+)"></a>\n## (?P<code>WF\d+): (?P<title>.+)\n(?P<body>(?:(?!^<a id).*\n)*)',
    re.MULTILINE,
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AROUND = """\
import asyncio
import random
from datetime import datetime

from workers import WorkflowEntrypoint


class Documented(WorkflowEntrypoint):
    async def run(self, event, step):
"""

sections = {match["code"]: match for match in SECTION.finditer(DOCUMENT.read_text("utf-8"))}


def found(block: str) -> list[str]:
    return [finding.code for finding in check_source(AROUND + indent(block, " " * 8), "entry.py")]


def test_every_rule_has_a_section_under_its_title() -> None:
    assert {code: match["title"] for code, match in sections.items()} == TITLES


def test_the_anchors_are_those_of_the_links() -> None:
    assert all(match["anchor"] == code.lower() for code, match in sections.items())


@pytest.mark.parametrize("code", TITLES)
def test_the_first_block_breaks_the_rule_and_the_second_works(code: str) -> None:
    breaks, works = BLOCK.findall(sections[code]["body"])
    assert found(breaks) == [code]
    assert found(works) == []


class Children(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        return event["payload"]["order"]


async def test_a_step_goes_on_with_the_child_that_an_attempt_before_has_created(
    workflows: TestProject,
) -> None:
    _, works = BLOCK.findall(sections["WF007"]["body"])
    module: dict[str, Any] = {"__name__": "entry"}
    exec(AROUND + indent(works, " " * 8), module)
    workflows.add(Children, module["Documented"])
    await workflows.env.CHILDREN.create(id="child-1", params={"order": 1})
    parent = await workflows.env.DOCUMENTED.create(id="1")
    await workflows.until(parent, "complete")
