"""Checks files: every rule on every module, without what a comment silences.

A comment `# noqa: WF003` silences a rule on its line, `# noqa` every rule. Nothing of the user's is imported or run.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from emulator.errors import WorkerLoadError
from wrangler_compat.check.awaiting import (
    bindings_are_awaited,
    steps_are_awaited,
    steps_stand_side_by_side,
)
from wrangler_compat.check.cancellation import cancellation_goes_through
from wrangler_compat.check.code import Code
from wrangler_compat.check.declarations import declarations_are_accepted
from wrangler_compat.check.determinism import (
    branches_are_the_same,
    names_are_the_same,
    nothing_is_shuffled,
    order_is_the_same,
    values_are_the_same,
)
from wrangler_compat.check.effects import effects_are_in_steps
from wrangler_compat.check.failures import failures_are_caught
from wrangler_compat.check.finding import Breach, Finding
from wrangler_compat.check.idempotency import effects_have_keys
from wrangler_compat.check.state import (
    events_stay_as_they_came,
    results_stay_as_they_came,
    steps_keep_no_state,
)
from wrangler_compat.check.values import results_can_be_stored

RULES: Final[tuple[Callable[[Code], Iterator[Breach]], ...]] = (
    steps_are_awaited,
    bindings_are_awaited,
    steps_stand_side_by_side,
    names_are_the_same,
    branches_are_the_same,
    values_are_the_same,
    nothing_is_shuffled,
    order_is_the_same,
    effects_are_in_steps,
    steps_keep_no_state,
    events_stay_as_they_came,
    results_stay_as_they_came,
    effects_have_keys,
    declarations_are_accepted,
    results_can_be_stored,
    cancellation_goes_through,
    failures_are_caught,
)

_NOQA: Final = re.compile(
    r"#\s*noqa(?::\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE
)
_NOT_THEIRS: Final = {"__pycache__", "node_modules", "python_modules", "site-packages", "venv"}


def check_folder(folder: Path) -> list[Finding]:
    """Check the Python files of a project, or one file. Paths in findings begin with `folder`.

    Raises:
        WorkerLoadError: there is no Python file, or one is not Python.
    """
    paths = [folder] if folder.is_file() else sorted(_python_files(folder))
    if not paths:
        raise WorkerLoadError(f"There is no Python file in {folder.resolve()}.")
    return [finding for path in paths for finding in check_source(read_source(path), str(path))]


def check_source(source: str, path: str) -> list[Finding]:
    """Check the text of a module, in the order of its lines.

    Raises:
        WorkerLoadError: it is not Python.
    """
    code = Code(parse(source, path))
    silenced = _silenced(source)
    found = {_finding(breach, path) for rule in RULES for breach in rule(code)}
    return sorted(finding for finding in found if not _is_silenced(finding, silenced))


def parse(source: str, path: str) -> ast.Module:
    """Parse the text of a module.

    Raises:
        WorkerLoadError: it is not Python.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of their style, not of workflows
            return ast.parse(source)
    except SyntaxError as error:
        raise WorkerLoadError(f"{path}:{error.lineno} is not Python: {error.msg}.") from None
    except ValueError as error:
        raise WorkerLoadError(f"{path} is not Python: {error}.") from None


def read_source(path: Path) -> str:
    """Read a module, in the encoding that it states.

    Raises:
        WorkerLoadError: it cannot be read.
    """
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise WorkerLoadError(f"{path} cannot be read: {error}.") from None


def _finding(breach: Breach, path: str) -> Finding:
    node = breach.node
    return Finding(path, node.lineno, node.col_offset + 1, breach.code, breach.message)


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.py"):
        inner = path.relative_to(folder).parts
        if not any(part in _NOT_THEIRS or part.startswith(".") for part in inner):
            yield path


def _silenced(source: str) -> dict[int, set[str]]:
    """The codes that each line silences; an empty set is all."""
    silenced: dict[int, set[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (match := _NOQA.search(token.string)):
            codes = re.findall(r"[A-Z]+[0-9]+", (match["codes"] or "").upper())
            silenced[token.start[0]] = set(codes)
    return silenced


def _is_silenced(finding: Finding, silenced: dict[int, set[str]]) -> bool:
    codes = silenced.get(finding.line)
    return codes is not None and (not codes or finding.code in codes)
