"""What user code needs to be imported: `workers` on the path, and a way to load a file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from wrangler_compat.worker.loader import PYTHONPATH

Load = Callable[[Path], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports a file of user code; `workers` is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [str(PYTHONPATH), *sys.path])
    before = set(sys.modules)

    def load_file(file: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"user_code_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load_file
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "workers":
            del sys.modules[name]
