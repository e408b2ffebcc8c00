"""Steps as parameters of steps: resolved before the step that needs them, each at most once at a time.

A result is remembered per declared step, so that the shared step of a diamond runs once. A failure is not remembered: the
next step that depends on it asks again, which is the next use of its name. Calling a step directly always runs it
(Cloudflare: Python Workflows, DAG; specification 15.3). Steps that need one another would wait for ever: the one that
closes the circle is refused.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import msgspec

CONTEXT = "ctx"
"""The parameter that gets the step context."""

_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_RUNS_ON_THE_LOOP = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Call(msgspec.Struct):
    """One call of a step. `waited_for` tells those who wait for it; mostly nobody does."""

    is_over: bool = False
    result: Any = None
    waited_for: asyncio.Future[Any] | None = None


class Declared(msgspec.Struct, eq=False, kw_only=True):
    """A step that has been declared: how it is run, and what it gave. `needs` is what it waits for, while it does."""

    needs: Collection[Declared] = ()
    _last: _Call | None = None

    def run(self) -> Coroutine[Any, Any, Any]:
        """Ask the engine for the step."""
        raise NotImplementedError

    @staticmethod
    def no_arguments(name: object) -> TypeError:
        """The refusal of a call with arguments, as if the step were the function that it has."""
        return TypeError(
            f'The step "{name}" is called without arguments: its function sees the variables of run(), and a parameter '
            "of it gets the result of the step of that name."
        )

    async def call(self) -> Any:
        """Run it, and remember the result."""
        call = self._last = _Call()
        try:
            result = await self.run()
        except BaseException as error:
            if self._last is call:
                self._last = None
            if call.waited_for is not None:
                if isinstance(error, asyncio.CancelledError):
                    call.waited_for.cancel()
                else:
                    call.waited_for.set_exception(error)
                    call.waited_for.exception()  # seen: whoever called gets it raised
            raise
        call.is_over = True
        call.result = result
        if call.waited_for is not None:
            call.waited_for.set_result(result)
        return result

    async def result(self) -> Any:
        """What it gave; it is run if it has not been, and waited for if it is under way."""
        while (call := self._last) is not None:
            if call.is_over:
                return call.result
            future = call.waited_for
            if future is None:
                future = call.waited_for = asyncio.get_running_loop().create_future()
            await asyncio.wait({future})
            if not future.cancelled():
                return future.result()
        return await self.call()

    @property
    def is_under_way(self) -> bool:
        """Whether it runs."""
        return self._last is not None and not self._last.is_over

    def waits_for(self, other: Declared) -> bool:
        """Whether it is under way, and cannot go on before another one has ended."""
        seen: set[Declared] = set()
        left: list[Declared] = [self]
        while left:
            each = left.pop()
            if each in seen or not each.is_under_way:
                continue
            if each is other:
                return True
            seen.add(each)
            left += each.needs
        return False


async def resolve(
    needed: Mapping[str, Declared], wanting: Declared, name: str, *, concurrent: bool
) -> dict[str, Any]:
    """The results of the steps that `wanting`, called `name`, depends on, by parameter: one after the other, or at once.

    Raises:
        TypeError: one of them waits for `wanting`.
    """
    for parameter, declared in needed.items():
        if declared.waits_for(wanting):
            what = "that step itself" if declared is wanting else "a step that waits for it"
            raise TypeError(f"Parameter '{parameter}' of step \"{name}\" asks for {what}")
    wanting.needs = needed.values()
    try:
        if concurrent:
            results = await asyncio.gather(*(declared.result() for declared in needed.values()))
            return dict(zip(needed, results, strict=True))
        return {parameter: await declared.result() for parameter, declared in needed.items()}
    finally:
        wanting.needs = ()


class Signature(NamedTuple):
    """What a step function takes: the parameters that other steps fill, and whether it takes the step context."""

    needed: tuple[str, ...]
    takes_context: bool
    is_coroutine: bool


def signature_of(function: Callable[..., Any]) -> Signature:
    """Look at a step function.

    Raises:
        TypeError: it takes parameters by position only, and a step gives them by name.
    """
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        return _signature_of_code(function.__code__)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        # Some that are written in C tell nothing; those that steps call take nothing.
        parameters = ()
    return _signature(
        tuple(each.name for each in parameters if each.kind not in _COLLECTING),
        inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function),
        any(each.kind is inspect.Parameter.POSITIONAL_ONLY for each in parameters),
    )


@lru_cache(maxsize=4096)
def _signature_of_code(code: CodeType) -> Signature:
    # A function that is defined anew for every step has the same code every time; `inspect.signature` is slow.
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return _signature(names, bool(code.co_flags & _RUNS_ON_THE_LOOP), code.co_posonlyargcount > 0)


def _signature(names: tuple[str, ...], is_coroutine: bool, is_by_position: bool) -> Signature:
    if is_by_position:
        raise TypeError(
            f"A step gives a function its parameters by name; ({', '.join(names)}) has some that are positional only."
        )
    needed = tuple(name for name in names if name != CONTEXT)
    return Signature(needed, len(needed) < len(names), is_coroutine)


def by_position(
    names: Sequence[str], depends: Sequence[Any] | None, declared: Mapping[Any, Declared]
) -> dict[str, Declared]:
    """Match parameters with `depends`, one by one.

    Raises:
        TypeError: they do not match, or something in `depends` is no step.
    """
    if depends is None:
        raise TypeError(
            f"Step has {len(names)} non-ctx parameter(s) but no 'depends' list provided"
        )
    if len(names) != len(depends):
        raise TypeError(
            f"Step declares {len(names)} non-ctx parameter(s) but 'depends' has {len(depends)} item(s)"
        )
    matched: dict[str, Declared] = {}
    for name, function in zip(names, depends, strict=True):
        if function not in declared:
            raise TypeError(
                f"'depends' entry for parameter '{name}' is not a function decorated with step.do"
            )
        matched[name] = declared[function]
    return matched


def by_name(
    names: Sequence[str], closures: Mapping[str, Any], declared: Mapping[Any, Declared]
) -> dict[str, Declared]:
    """Match parameters with the steps of the same *step* name.

    Raises:
        TypeError: no step has the name of a parameter.
    """
    matched: dict[str, Declared] = {}
    for name in names:
        if name not in closures:
            error = TypeError(f"Received unexpected parameter {name}")
            error.add_note(
                f"A parameter gets the result of the step of that name. Steps here: {', '.join(map(str, closures))}. "
                "For anything else use a variable of run()."
            )
            raise error
        matched[name] = declared[closures[name]]
    return matched
