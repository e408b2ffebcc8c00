"""Every block of Python in README.md and docs/ is Python: what is pasted runs into no SyntaxError."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for guide in GUIDES:
        text = guide.read_text("utf-8")
        for match in PYTHON.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append((f"{guide.name}:{line}", match["code"]))
    return found


@pytest.mark.parametrize(("place", "code"), blocks(), ids=[place for place, _ in blocks()])
def test_a_block_is_python(place: str, code: str) -> None:
    # The rules show what stands in `run`: awaits and returns.
    ast.parse("async def run():\n" + "".join(f"    {line}\n" for line in code.splitlines()), place)
