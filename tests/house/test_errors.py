"""The tree of exceptions is the one that is drawn, and a code means one thing."""

import importlib
import pkgutil
import re
from collections import Counter

import pytest

import bindings
import emulator
import emulator.errors
import wrangler_compat
from emulator.errors import EmulatorError

PACKAGES = ("emulator.", "bindings.", "wrangler_compat.")
BRANCH = re.compile(r"^(?P<lead>[ │├└─]*)(?P<name>[A-Z]\w+)")

Error = type[EmulatorError]


@pytest.fixture(scope="module")
def errors() -> list[Error]:
    """The root and all that descends from it, wherever in the three packages it is defined."""
    for package in (emulator, bindings, wrangler_compat):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: list[Error] = []
    pending: list[Error] = [EmulatorError]
    while pending:
        error = pending.pop()
        found.append(error)
        pending += error.__subclasses__()
    return [error for error in found if error.__module__.startswith(PACKAGES)]


def drawn_tree() -> list[tuple[str, str | None]]:
    """Each class in the drawing with the class it hangs from."""
    drawing = (emulator.errors.__doc__ or "").split("\n\n")[1]
    path: list[tuple[int, str]] = []
    branches: list[tuple[str, str | None]] = []
    for branch in filter(None, map(BRANCH.match, drawing.splitlines())):
        column = len(branch["lead"])
        path = [(at, name) for at, name in path if at < column]
        branches.append((branch["name"], path[-1][1] if path else None))
        path.append((column, branch["name"]))
    return branches


def real_tree(errors: list[Error]) -> list[tuple[str, str | None]]:
    return [
        (error.__name__, None if error is EmulatorError else error.__bases__[0].__name__)
        for error in errors
    ]


def test_every_error_has_its_own_place_in_the_drawn_tree(errors: list[Error]) -> None:
    assert sorted(real_tree(errors), key=str) == sorted(drawn_tree(), key=str)


def test_every_error_lives_in_the_module_with_the_drawing(errors: list[Error]) -> None:
    assert {error.__module__ for error in errors} == {"emulator.errors"}


def test_every_error_explains_itself(errors: list[Error]) -> None:
    assert not [error.__name__ for error in errors if not vars(error).get("__doc__")]


def test_no_two_errors_state_the_same_code(errors: list[Error]) -> None:
    codes = Counter(error.code for error in errors if "code" in vars(error))
    assert not [code for code, times in codes.items() if times > 1]
