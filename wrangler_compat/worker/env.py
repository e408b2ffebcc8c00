"""`Env`: a Worker's bindings and variables as attributes, and the help for those that are missing."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from bindings.convert import with_attributes
from emulator.errors import WorkerLoadError
from wrangler_compat.config.suppliers import TABLE, place_of_supplier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrangler_compat.config import WorkerConfig


class Env:
    """Bindings and variables by attribute, and nothing else.

    `unsupplied` names what is declared and not emulated, each with its kind.
    """

    __slots__ = ("__dict__", "__unsupplied")

    def __init__(self, values: Mapping[str, object], unsupplied: Mapping[str, str]) -> None:
        self.__dict__.update(values)
        self.__unsupplied = unsupplied

    def __getattr__(self, name: str) -> Any:
        # Reached only when there is no such attribute.
        kind = self.__unsupplied.get(name)
        if kind is None:
            known = ", ".join(sorted(self.__dict__)) or "none"
            raise AttributeError(
                f"env has no {name!r}: no binding and no variable; there are: {known}."
            )
        raise AttributeError(
            f"env.{name} is declared as {kind}, which is not emulated. Supply a stand-in in pyproject.toml, made by a "
            f'function of yours:\n\n[{TABLE}]\n{name} = "module:factory"'
        )

    def __repr__(self) -> str:
        return f"Env({', '.join(sorted(self.__dict__))})"


async def make_env(
    config: WorkerConfig,
    bindings: Mapping[str, object],
    stand_ins: Mapping[str, object] | None = None,
) -> Env:
    """Make the environment: variables, what the project supplies, `bindings` by name; and `stand_ins` instead.

    A supplier is called with no argument, or with the variables if it takes one, and may be async. Its module
    is imported as user code is: within `wrangler_compat.worker.loader.project_imports`.

    Raises:
        WorkerLoadError: a supplier is not there or takes other arguments; the message says where it is named.
    """
    variables = {name: with_attributes(value) for name, value in config.vars.items()}
    supplied: dict[str, object] = dict(stand_ins or {})
    for name, factory in config.suppliers.items():
        if name in supplied:
            continue
        try:
            made = _call_supplier(_find_supplier(factory), variables)
            supplied[name] = await made if inspect.isawaitable(made) else made
        except _NoSupplier as error:
            place = place_of_supplier(config.root, name)
            raise WorkerLoadError(f'{place} = "{factory}": {error}.') from error.__cause__
        except Exception as error:
            error.add_note(f'Raised for {place_of_supplier(config.root, name)} = "{factory}".')
            raise
    unsupplied = {name: kind for name, kind in config.unsupplied.items() if name not in supplied}
    return Env({**variables, **bindings, **supplied}, unsupplied)


class _NoSupplier(Exception):
    """What is wrong with a supplier."""


def _find_supplier(factory: str) -> Callable[..., object]:
    module_name, _, attribute = factory.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise  # it is there, and imports what is not
        raise _NoSupplier(f"there is no module {error.name!r}") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _NoSupplier(f"{module_name} has no function {attribute!r}")
    return found


def _call_supplier(supplier: Callable[..., object], variables: dict[str, object]) -> object:
    try:
        signature = inspect.signature(supplier)
    except ValueError:  # some classes written in C have none
        return supplier()
    for arguments in ((), (variables,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return supplier(*arguments)
    raise _NoSupplier(f"it takes {signature}; expected no argument, or one: the variables")
