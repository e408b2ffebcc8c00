"""What a check finds: a broken rule at a place, in a sentence for somebody who is new to workflows."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).with_name("rules.md")
"""The rules, explained: docs/rules.md, which is linked here so that it is installed."""

TITLES: Final = {
    "WF001": "A step is not awaited",
    "WF002": "A step inside a step",
    "WF003": "A step's name differs on every run",
    "WF004": "The clock or chance decides outside a step",
    "WF005": "Steps in the order of a set",
    "WF006": "A side effect outside a step",
    "WF007": "An instance is created or changed outside a step",
    "WF008": "A wait that is not durable",
    "WF009": "A step leaves its work in memory",
    "WF010": "The event is changed",
    "WF011": "A step changes the result of another",
    "WF012": "No idempotency key",
    "WF013": "A number that looks like seconds",
    "WF014": "A type of event that the API refuses",
    "WF015": "A step config that the API refuses",
    "WF016": "A call of `step` that the API refuses",
    "WF017": "A result that cannot be stored",
    "WF018": "Cancellation is swallowed",
    "WF019": "A unit of time that does not exist",
    "WF020": "A class that no failure of a step has",
}
"""Each code, with the title of its section in the document."""


@dataclass(frozen=True, order=True)
class Finding:
    """A rule is broken here. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    code: str
    message: str

    @property
    def link(self) -> str:
        """Where the rule is explained, on this machine."""
        return f"{DOCUMENT.as_uri()}#{self.code.lower()}"

    @property
    def title(self) -> str:
        """The code of the rule, and what is wrong in a few words."""
        return f"{self.code}: {TITLES[self.code]}"


@dataclass(frozen=True)
class Breach:
    """What a rule reports: the place in the syntax tree, and the sentence."""

    node: ast.expr | ast.stmt | ast.ExceptHandler
    code: str
    message: str
