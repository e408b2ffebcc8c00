"""State is what steps return. What they leave in variables is gone after a replay, when their callbacks do not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Binding, Scope

_MUTATORS: Final = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
        "popitem",
        "appendleft",
        "extendleft",
    }
)
_CONTAINERS: Final = {
    *("list", "dict", "set", "bytearray"),
    *(f"collections.{name}" for name in ("defaultdict", "deque", "Counter", "OrderedDict")),
}
_MOST_ALIASES: Final = 8


@dataclass(frozen=True)
class _Change:
    """Something is changed in place: the variable or attribute at the root of the chain, and where."""

    node: ast.expr
    root: ast.Name
    is_self: bool = False


def steps_keep_no_state(code: Code) -> Iterator[Breach]:
    """WF009: a step changes a variable of the code around it, which that code reads."""
    for scope in filter(code.is_in_step, code.scopes):
        for change in _changes(scope):
            if _is_state(code, change, scope):
                what = ast.unparse(change.node) if change.is_self else change.root.id
                yield Breach(
                    change.node,
                    "WF009",
                    f"The step changes `{what}`, which is outside it: a replay does not run the step again, "
                    "so the change is lost; return the value instead.",
                )
        yield from _rebound(code, scope)


def events_stay_as_they_came(code: Code) -> Iterator[Breach]:
    """WF010: `event`, or a part of it, is changed."""
    for scope in code.scopes:
        for change in _changes(scope):
            if not change.is_self and _is_event(code, change.root, scope):
                yield Breach(
                    change.node,
                    "WF010",
                    "The event is changed here, and comes back unchanged on every replay; change a copy.",
                )


def results_stay_as_they_came(code: Code) -> Iterator[Breach]:
    """WF011: a step changes what another step has returned."""
    for scope in filter(code.is_in_step, code.scopes):
        for change in _changes(scope):
            if not change.is_self and _is_result(code, change.root, scope):
                yield Breach(
                    change.node,
                    "WF011",
                    f"The step changes `{change.root.id}`, the result of another step: a replay gives that "
                    "result as it was stored, without the change; return a changed copy.",
                )


def _changes(scope: Scope) -> Iterator[_Change]:
    for node in scope.nodes:
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                changed = targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                changed = [target]
            case ast.Call(func=ast.Attribute(value=target, attr=verb)) if verb in _MUTATORS:
                root = _root(target)
                if root and root.id != "self":
                    yield _Change(target, root)
                elif root and isinstance(target, ast.Attribute) and root is target.value:
                    yield _Change(target, root, is_self=True)
                continue
            case _:
                continue
        for target in changed:
            if isinstance(target, ast.Subscript | ast.Attribute) and (root := _root(target)):
                yield _Change(target, root, is_self=root.id == "self")


def _root(target: ast.expr) -> ast.Name | None:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target if isinstance(target, ast.Name) else None


def _is_state(code: Code, change: _Change, scope: Scope) -> bool:
    if change.is_self:
        return isinstance(change.node, ast.Attribute) and _reads_attribute(code, change.node.attr)
    home = scope.home(change.root.id)
    if home is None or code.is_in_step(home):
        return False
    binding = home.bindings[change.root.id][0]
    return _is_container(code, binding) and _is_read_outside(code, change.root.id, home)


def _is_container(code: Code, binding: Binding) -> bool:
    if binding.is_part:
        return False
    match binding.value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=function):
            return code.dotted(function) in _CONTAINERS
        case _:
            return False


def _is_read_outside(code: Code, name: str, home: Scope) -> bool:
    """Whether workflow code reads the variable."""
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and scope.home(name) is home
        for scope in code.workflow_code
        for node in scope.nodes
    )


def _reads_attribute(code: Code, attr: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == attr
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for scope in code.workflow_code
        for node in scope.nodes
    )


def _rebound(code: Code, scope: Scope) -> Iterator[Breach]:
    """`nonlocal` and `global` variables that a step assigns."""
    for name, bindings in scope.bindings.items():
        home = scope.home(name)
        if not scope.borrows(name) or home is None or code.is_in_step(home):
            continue
        if _is_read_outside(code, name, home):
            place = bindings[0].node
            assert isinstance(place, ast.expr | ast.stmt)
            yield Breach(
                place,
                "WF009",
                f"The step assigns `{name}`, which is outside it: a replay does not run the step again, "
                "so the value is lost; return it instead.",
            )


def _origin(name: ast.Name, scope: Scope) -> tuple[str, Binding, Scope] | None:
    """The variable that a variable is another name of, or a part of: through plain assignments and loops."""
    current, place = name.id, scope
    for _ in range(_MOST_ALIASES):
        home = place.home(current)
        if home is None:
            return None
        binding = home.bindings[current][-1] if home is not scope else place.binding(current, name)
        if binding is None:
            return None
        source = _aliased(binding)
        if source is None or (source.id == current and home is place):
            return current, binding, home
        current, place = source.id, home
    return None


def _aliased(binding: Binding) -> ast.Name | None:
    if isinstance(binding.value, ast.Name | ast.Attribute | ast.Subscript):
        return _root(binding.value)
    return None


def _is_event(code: Code, root: ast.Name, scope: Scope) -> bool:
    origin = _origin(root, scope)
    if origin is None:
        return False
    name, binding, home = origin
    return home in code.workflow_runs and name == home.parameters[1] and binding.value is None


def _is_result(code: Code, root: ast.Name, scope: Scope) -> bool:
    """Whether a variable of a step is what another step gave: awaited around it, or its parameter."""
    origin = _origin(root, scope)
    if origin is None:
        return False
    name, binding, home = origin
    if home in code.steps:
        return name in home.parameters and name not in {"ctx", "self"}
    if code.is_in_step(home) or not isinstance(binding.value, ast.Await):
        return False
    return code.runs_step(binding.value.value, home) is not None
