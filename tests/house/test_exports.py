"""A package's `__all__` is its face: all of it exists, and nothing public stands beside it."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("emulator", "bindings", "wrangler_compat")
PYTHONPATH = ROOT / "wrangler_compat" / "pythonpath"


def package_names(folder: Path, prefix: str = "") -> Iterator[str]:
    """Every package below a folder, by its dotted name."""
    for module in pkgutil.iter_modules([str(folder)]):
        if module.ispkg:
            yield prefix + module.name
            yield from package_names(folder / module.name, f"{prefix}{module.name}.")


def is_a_face(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def public_names(package: ModuleType) -> set[str]:
    """What a reader could import from the package without reaching into a module."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }


def check_face(package: ModuleType) -> None:
    stated: list[str] = list(getattr(package, "__all__", ()))
    assert len(stated) == len(set(stated)), "a name is listed twice"
    assert not [name for name in stated if not hasattr(package, name)], "listed, but not there"
    assert not public_names(package) - set(stated), "there, but not listed"


@pytest.mark.parametrize("name", [name for name in package_names(ROOT) if is_a_face(name)])
def test_a_package_shows_what_its_all_lists(name: str) -> None:
    check_face(importlib.import_module(name))


@pytest.mark.parametrize("name", list(package_names(PYTHONPATH)))
def test_a_module_of_the_workers_runtime_shows_what_its_all_lists(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(PYTHONPATH), *sys.path])
    for loaded in [key for key in sys.modules if key.partition(".")[0] == name.partition(".")[0]]:
        monkeypatch.delitem(sys.modules, loaded)
    check_face(importlib.import_module(name))
