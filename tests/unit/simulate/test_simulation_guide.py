"""The code of docs/simulation.md runs, and its tests pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

GUIDE = Path(__file__).parents[3] / "docs" / "simulation.md"


def test_the_tests_of_the_guide_pass(load: Callable[[Path], ModuleType], tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    file = tmp_path / "guide.py"
    file.write_text("\n".join(blocks).replace("    )\n", "        seeds=20,\n    )\n", 1))
    module = load(file)
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == len(blocks)
    for test in tests:
        test()
