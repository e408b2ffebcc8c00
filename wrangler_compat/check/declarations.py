"""What is given to `step`: durations, types of events, configs and names, by the API's own rules.

Only what is written out is checked; a part that is computed counts as correct.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from emulator.domain.config import PRODUCTION_DEFAULTS, resolve_config
from emulator.domain.duration import UNITS, duration_ms, looks_like_seconds, unknown_unit
from emulator.domain.limits import MAX_SLEEP_MS, MAX_WAIT_TIMEOUT_MS
from emulator.domain.names import check_event_type, check_step_name
from emulator.errors import InvalidDuration, InvalidEventType, InvalidStepConfig, InvalidStepName
from wrangler_compat.check.code import DECLARING, Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.literals import UNKNOWN, entries, literal, literal_dict
from wrangler_compat.check.scopes import Scope

_SLEEP: Final = {"sleep"}
_UNTIL: Final = {"sleep_until", "sleepUntil"}
_WAIT: Final = {"wait_for_event", "waitForEvent"}
_SEND: Final = {"send_event", "sendEvent"}
_RETENTIONS: Final = {"success_retention", "error_retention", "successRetention", "errorRetention"}
_CONFIGS: Final = {"config", "rollback_config"}
_VALID: Final[dict[str, Any]] = {
    "retries": {"limit": 1, "delay": 1_000},
    "limit": 1,
    "delay": 1_000,
    "backoff": "constant",
    "timeout": 1_000,
    "sensitive": "output",
}
"""What stands for a part of a config that is computed."""


def declarations_are_accepted(code: Code) -> Iterator[Breach]:
    """WF013 to WF016, and WF019."""
    for scope in code.scopes:
        for node in scope.nodes:
            if isinstance(node, ast.Call):
                operation = code.step_call(node)
                if operation:
                    yield from _name(node, scope)
                if operation in DECLARING:
                    yield from _configs(node, scope)
                elif operation in _SLEEP | _UNTIL | _WAIT:
                    yield from _waiting(code, node, scope, operation)
                elif isinstance(node.func, ast.Attribute) and node.func.attr in _SEND:
                    yield from _event_type(_sent_type(node, scope), scope)
                yield from _retention(node, scope)
    yield from _functions(code)


def limit_of(declaration: ast.Call, scope: Scope) -> Any:
    """`retries.limit` of a step, if it is written out."""
    written = literal_dict(_config_argument(declaration), scope)
    config = entries(written) if written else None
    retries = literal_dict(config.get("retries"), scope) if config else None
    return literal((entries(retries) or {}).get("limit"), scope) if retries else UNKNOWN


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((word.value for word in call.keywords if word.arg == name), None)


def _config_argument(call: ast.Call) -> ast.expr | None:
    return _argument(call, 3, "config")


def _name(call: ast.Call, scope: Scope) -> Iterator[Breach]:
    written = _argument(call, 0, "name")
    name = literal(written, scope)
    if written is None or name is UNKNOWN or name is None:
        return
    try:
        check_step_name(name)
    except InvalidStepName as error:
        yield Breach(written, "WF016", f"The API refuses this name: {error.message}.")


# Durations


def _waiting(code: Code, call: ast.Call, scope: Scope, operation: str) -> Iterator[Breach]:
    if operation in _SLEEP:
        yield from _duration(_argument(call, 1, "duration"), scope, "sleep", MAX_SLEEP_MS)
    elif operation in _UNTIL:
        yield from _instant(code, _argument(call, 1, "timestamp"))
    else:
        wanted = _argument(call, 1, "event_type")
        timeout = _argument(call, 2, "timeout")
        if written := literal_dict(wanted, scope):
            options = entries(written) or {}
            wanted, timeout = options.get("type"), options.get("timeout", timeout)
        yield from _event_type(wanted, scope)
        yield from _duration(timeout, scope, "timeout", MAX_WAIT_TIMEOUT_MS)


def _duration(
    written: ast.expr | None, scope: Scope, what: str, maximum_ms: int
) -> Iterator[Breach]:
    value = literal(written, scope)
    if written is None or value is UNKNOWN or value is None:
        return
    if looks_like_seconds(value):
        yield _seconds(written, value)
        return
    yield from _unit(written, value)
    try:
        duration_ms(value, what=f"The {what}", maximum_ms=maximum_ms)
    except InvalidDuration as error:
        yield Breach(written, "WF016", f"{error.message}.")


def _seconds(written: ast.expr, value: float) -> Breach:
    return Breach(
        written,
        "WF013",
        f"A bare number is milliseconds, so this is {value:g} thousandths of a second; "
        f'write "{value:g} seconds" if seconds are meant.',
    )


def _retention(call: ast.Call, scope: Scope) -> Iterator[Breach]:
    """How long instances are kept that somebody creates."""
    for word in call.keywords:
        if word.arg == "retention" and (written := literal_dict(word.value, scope)):
            for key, value in (entries(written) or {}).items():
                if key in _RETENTIONS:
                    yield from _unit(
                        value if word.value is written else word.value, literal(value, scope)
                    )


def _unit(written: ast.expr, value: object) -> Iterator[Breach]:
    if (unit := unknown_unit(value)) is not None:
        yield Breach(
            written,
            "WF019",
            f'There is no unit "{unit}", so this counts as milliseconds. The units are {UNITS}.',
        )


def _instant(code: Code, written: ast.expr | None) -> Iterator[Breach]:
    """`sleep_until` takes milliseconds since the epoch; Python's clocks give seconds."""
    if written is None:
        return
    parts = [*ast.walk(written)]
    is_scaled = any(isinstance(part, ast.Mult) for part in parts)
    calls = (part for part in parts if isinstance(part, ast.Call))
    in_seconds = any(
        code.dotted(call.func) == "time.time"
        or (isinstance(call.func, ast.Attribute) and call.func.attr == "timestamp")
        for call in calls
    )
    if in_seconds and not is_scaled:
        yield Breach(
            written,
            "WF013",
            "A number is milliseconds since 1970, and this one is seconds, which is long past; give a datetime.",
        )


# Types of events


def _sent_type(call: ast.Call, scope: Scope) -> ast.expr | None:
    event = literal_dict(call.args[0], scope) if call.args else None
    if event:
        return (entries(event) or {}).get("type")
    return next((word.value for word in call.keywords if word.arg == "type"), None)


def _event_type(written: ast.expr | None, scope: Scope) -> Iterator[Breach]:
    value = _text(written) if isinstance(written, ast.JoinedStr) else literal(written, scope)
    if written is None or value is UNKNOWN:
        return
    try:
        check_event_type(value)
    except InvalidEventType:
        yield Breach(
            written,
            "WF014",
            "The API refuses this type of event: a type is 1 to 100 letters, digits, `_` or `-`, "
            "and does not start with `-`.",
        )


def _text(written: ast.JoinedStr) -> str:
    """An f-string with an "x" for each part that is computed."""
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "x" for p in written.values)


# Configs


def _configs(call: ast.Call, scope: Scope) -> Iterator[Breach]:
    given = [word.value for word in call.keywords if word.arg in _CONFIGS]
    for argument in [*call.args[3:4], *given]:
        if written := literal_dict(argument, scope):
            yield from _config(argument, written, scope)


def _config(place: ast.expr, written: ast.Dict, scope: Scope) -> Iterator[Breach]:
    for value in _times(written, scope):
        number = literal(value, scope)
        where = value if place is written else place
        if looks_like_seconds(number):
            yield _seconds(where, number)
        yield from _unit(where, number)
    config = _value(written, scope)
    if config is UNKNOWN:
        return
    try:
        resolve_config(config, PRODUCTION_DEFAULTS, "")
    except InvalidStepConfig as error:
        yield Breach(place, "WF015", f"The API refuses this config: {error.detail}.")


def _times(written: ast.Dict, scope: Scope) -> Iterator[ast.expr]:
    for key, value in (entries(written) or {}).items():
        if key in {"delay", "timeout"}:
            yield value
        elif key == "retries" and (retries := literal_dict(value, scope)):
            yield from _times(retries, scope)


def _value(written: ast.Dict, scope: Scope) -> Any:
    """The dictionary, with something valid for what is computed; `UNKNOWN` if its keys are not known."""
    known = entries(written)
    if known is None:
        return UNKNOWN
    config: dict[Any, Any] = {}
    for key, value in known.items():
        inner = literal_dict(value, scope)
        read = _value(inner, scope) if inner else literal(value, scope)
        config[key] = _VALID.get(key, 0) if read is UNKNOWN else read
    return config


# Functions


def _functions(code: Code) -> Iterator[Breach]:
    """The functions that steps are made of."""
    for scope, declaration in code.steps.items():
        node = scope.node
        if declaration is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Breach(
                node.decorator_list[0],
                "WF016",
                "`@step.do` needs parentheses: write `@step.do()`, or give the step a name.",
            )
        if isinstance(node, ast.Module) or _depends(declaration):
            continue
        for argument, default in _defaults(node.args):
            if isinstance(default, ast.Name) and default.id == argument.arg:
                yield Breach(
                    default,
                    "WF016",
                    f"`{argument.arg}` asks for the result of a step of that name, and the default is not "
                    "used; take the value from the function around.",
                )


def _depends(declaration: ast.Call | None) -> bool:
    """Whether the step lists its dependencies, which go to its parameters by position."""
    return declaration is not None and _argument(declaration, 1, "depends") is not None


def _defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    given = [*arguments.posonlyargs, *arguments.args]
    yield from zip(given[len(given) - len(arguments.defaults) :], arguments.defaults, strict=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default:
            yield argument, default
