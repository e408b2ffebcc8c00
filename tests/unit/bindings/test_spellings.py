"""Every method has JavaScript's spelling beside Python's."""

from __future__ import annotations

import inspect
from typing import Final

import pytest

import bindings
from bindings.http import HttpWorkflow

EXCEPTIONS: Final = {
    "WorkflowStep.run_reserved": "how this package makes steps of its own calls; no user has a name for one",
}
"""Methods with one spelling, and why."""

CLASSES: Final = [
    *(
        each
        for each in vars(bindings).values()
        if inspect.isclass(each) and not issubclass(each, Exception)
    ),
    HttpWorkflow,
]
METHODS: Final = [
    (each, name)
    for each in CLASSES
    for name, _ in inspect.getmembers(each, callable)
    if "_" in name and not name.startswith("_")
]


def camel(name: str) -> str:
    """The same name in JavaScript's spelling."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_has_both_spellings(owner: type, name: str) -> None:
    is_exception = f"{owner.__name__}.{name}" in EXCEPTIONS
    assert hasattr(owner, camel(name)) is not is_exception
    if not is_exception:
        assert getattr(owner, camel(name)) is getattr(owner, name)


def test_every_exception_is_a_method() -> None:
    assert EXCEPTIONS.keys() <= {f"{owner.__name__}.{name}" for owner, name in METHODS}
