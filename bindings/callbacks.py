"""How the functions of a workflow are called: steps, their rollback handlers, and functions that give a delay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from bindings.ambient import Place, awaited_at, here
from bindings.context import step_context
from bindings.dependencies import CONTEXT, Signature, signature_of
from emulator.domain.values import JsDict
from emulator.engine.step_code import AttemptContext, Compensation, DelayFunction, StepCode
from emulator.errors import InvalidStep

Config = Mapping[str, Any]
"""`{"retries": {"limit", "delay", "backoff"}, "timeout", "sensitive"}`, each of the three optional."""


def step_code(
    place: Place, function: Callable[..., Any], signature: Signature, config: Config | None
) -> StepCode:
    """A step's function as code for the engine. What it needs of other steps it is given by name."""
    _, takes_context, is_coroutine = signature
    call = partial(_call, place, function, takes_context, is_coroutine)
    return StepCode(call, not is_coroutine, _delay(config))


def _call(
    place: Place,
    function: Callable[..., Any],
    takes_context: bool,
    is_coroutine: bool,
    context: AttemptContext,
    /,
    **arguments: Any,
) -> Any:
    here.set(place)
    if takes_context:
        arguments[CONTEXT] = step_context(context)
    value = function(**arguments)
    return value if is_coroutine else awaited_at(place, value)


_TOLD = ("ctx", "error", "output", "step_name")
"""What a rollback handler can take."""


def handler_code(
    place: Place, name: str, handler: Callable[..., Any], config: Config | None
) -> StepCode:
    """The rollback handler of the step `name` as code for the engine.

    Raises:
        InvalidStep: it has a parameter that nothing is known of.
    """
    signature = signature_of(handler)
    unknown = [parameter for parameter in signature.needed if parameter not in _TOLD]
    if unknown:
        raise InvalidStep(
            f'Rollback for "{name}" takes {", ".join(unknown)}; it can take ctx, error, output and step_name.'
        )
    wanted = (*signature.needed, CONTEXT) if signature.takes_context else signature.needed
    call = partial(_compensate, place, handler, wanted)
    return StepCode(call, not signature.is_coroutine, _delay(config))


def _compensate(
    place: Place, handler: Callable[..., Any], wanted: Sequence[str], told: Compensation
) -> Any:
    here.set(place)
    known = {
        "ctx": step_context(told.context),
        "error": told.error,
        "output": told.output,
        "step_name": told.context.step.label,
    }
    return awaited_at(place, handler(**{parameter: known[parameter] for parameter in wanted}))


def _delay(config: Config | None) -> DelayFunction | None:
    """The delay function of a config. It is called with a dictionary of `ctx` and `error`, as in JavaScript."""
    if not config:
        return None
    retries: Any = config.get("retries")
    delay: Any = (
        cast("Mapping[str, Any]", retries).get("delay") if isinstance(retries, Mapping) else None
    )
    if not callable(delay):
        return None

    def call(context: AttemptContext, error: BaseException, /) -> Any:
        return delay(JsDict(ctx=step_context(context), error=error))

    return call
