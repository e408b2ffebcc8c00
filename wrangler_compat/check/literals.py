"""The values that can be read off an expression without running it."""

from __future__ import annotations

import ast
from typing import Any, Final

from wrangler_compat.check.scopes import Scope

UNKNOWN: Final = object()
"""Stands for a value that only running the code tells."""


def literal(expression: ast.expr | None, scope: Scope) -> Any:
    """The value of a constant, of arithmetic on numbers, or of a variable that is bound once, to such; else `UNKNOWN`."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = literal(operand, scope)
            return -number if _is_number(number) else UNKNOWN
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add() as operator, right=right):
            return _arithmetic(literal(left, scope), operator, literal(right, scope))
        case ast.Name():
            return literal(_bound_once(expression, scope), scope)
        case _:
            return UNKNOWN


def literal_dict(expression: ast.expr | None, scope: Scope) -> ast.Dict | None:
    """The dictionary that is written here, or in the one assignment of the variable."""
    if isinstance(expression, ast.Name):
        expression = _bound_once(expression, scope)
    return expression if isinstance(expression, ast.Dict) else None


def entries(written: ast.Dict) -> dict[Any, ast.expr] | None:
    """The entries of a dictionary by their keys; None if a key is not a constant."""
    found: dict[Any, ast.expr] = {}
    for key, value in zip(written.keys, written.values, strict=True):
        if not isinstance(key, ast.Constant):
            return None
        found[key.value] = value
    return found


def _bound_once(name: ast.Name, scope: Scope) -> ast.expr | None:
    home = scope.home(name.id)
    known = home.bindings[name.id] if home else []
    if len(known) != 1 or known[0].is_part or known[0].value is name:
        return None
    value = known[0].value
    # One step only: a name bound to a name may go round in a circle.
    return None if isinstance(value, ast.Name) else value


def _arithmetic(left: Any, operator: ast.operator, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return UNKNOWN
    return left * right if isinstance(operator, ast.Mult) else left + right


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
