"""The classes of errors that the product has."""

from __future__ import annotations

from emulator.errors import EmulatorError


def product_errors(kind: type[EmulatorError] = EmulatorError) -> list[type[EmulatorError]]:
    """An error, and those below it, without the subclasses that tests have as users do."""
    ours = [child for child in kind.__subclasses__() if not child.__module__.startswith("tests.")]
    return [kind, *(each for child in ours for each in product_errors(child))]
