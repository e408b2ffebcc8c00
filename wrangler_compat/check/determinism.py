"""A replay must take the same way: the same names, the same branches, the same order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.chance import Chance
from wrangler_compat.check.code import DECLARING, Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Scope

_KEEPING_ORDER: Final = {"list", "tuple", "enumerate", "iter", "reversed"}
_OF_SETS: Final = {"union", "intersection", "difference", "symmetric_difference", "copy"}


def names_are_the_same(code: Code) -> Iterator[Breach]:
    """WF003: the name of a step is made of the clock or of chance."""
    chance = Chance(code)
    for scope in code.workflow_code:
        for node in scope.nodes:
            name = _name_of_step(code, node)
            if name is not None and (source := chance.source(name, scope)):
                yield Breach(
                    name,
                    "WF003",
                    f"The step's name contains `{source}`, which differs on every run, so a replay does not "
                    "find the step's result and runs the step again.",
                )


def branches_are_the_same(code: Code) -> Iterator[Breach]:
    """WF004: a condition in workflow code reads the clock or chance."""
    chance = Chance(code)
    for scope in code.workflow_code:
        for node in scope.nodes:
            for test in _conditions(node):
                if source := chance.source(test, scope):
                    yield Breach(
                        test,
                        "WF004",
                        f"`{source}` decides here outside a step, so a replay may go another way; "
                        "read it in a step and decide by the step's result.",
                    )


def nothing_is_shuffled(code: Code) -> Iterator[Breach]:
    """WF004: workflow code brings a list into an order of chance."""
    for scope in code.workflow_code:
        for node in scope.nodes:
            if isinstance(node, ast.Call) and code.dotted(node.func) == "random.shuffle":
                yield Breach(
                    node,
                    "WF004",
                    "`random.shuffle()` gives another order on every replay; shuffle in a step and return the list.",
                )


def values_are_the_same(code: Code) -> Iterator[Breach]:
    """WF004: a step uses a value of the clock or of chance that was read outside it."""
    chance = Chance(code)
    for scope in filter(code.is_in_step, code.scopes):
        seen: set[str] = set()
        for node in scope.nodes:
            if not isinstance(node, ast.Name) or node.id in seen:
                continue
            if source := chance.captured(node, scope):
                seen.add(node.id)
                yield Breach(
                    node,
                    "WF004",
                    f"`{node.id}` comes from `{source}` outside the step, so the step sees another value "
                    "after every replay; read it in a step of its own.",
                )


def order_is_the_same(code: Code) -> Iterator[Breach]:
    """WF005: steps are run for each element of a set."""
    for scope in code.workflow_code:
        for node in scope.nodes:
            for source in _iterated(code, node, scope):
                yield Breach(
                    source,
                    "WF005",
                    "Steps run here in the order of a set, which differs from process to process; "
                    "go through `sorted(...)` of it.",
                )


def _name_of_step(code: Code, node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Call) or code.step_call(node) is None:
        return None
    if node.args:
        return node.args[0]
    return next((word.value for word in node.keywords if word.arg == "name"), None)


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.Match(subject=subject):
            return [subject]
        case ast.comprehension(ifs=tests):
            return tests
        case _:
            return []


def _iterated(code: Code, node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
    """The set that a loop goes through, if the loop runs steps."""
    match node:
        case ast.For(iter=source, body=body):
            parts: list[ast.stmt] | list[ast.expr] = body
        case (
            ast.ListComp(elt=element, generators=generators)
            | ast.GeneratorExp(elt=element, generators=generators)
        ):
            parts, source = [element], generators[0].iter
        case _:
            return
    if _has_order_of_set(code, source, scope) and any(_works(code, part, scope) for part in parts):
        yield source


def _works(code: Code, part: ast.AST, scope: Scope) -> bool:
    """Whether code awaits something, declares a step, or calls an async function of the module."""
    for node in ast.walk(part):
        if isinstance(node, ast.Await) or code.step_call(node) in DECLARING:
            return True
        if isinstance(node, ast.Call):
            function = scope.function(node.func)
            if function and (function in code.steps or function.is_coroutine):
                return True
    return False


def _has_order_of_set(code: Code, source: ast.expr, scope: Scope, depth: int = 0) -> bool:
    if depth > 8:
        return False

    def same(part: ast.expr) -> bool:
        return _has_order_of_set(code, part, scope, depth + 1)

    match source:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _KEEPING_ORDER:
            return same(first)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _OF_SETS:
            return same(value)
        case ast.BinOp(left=left, op=ast.Sub()):
            return same(left)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.BitXor(), right=right):
            return same(left) or same(right)
        case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            return same(first.iter)
        case ast.Name(id=name):
            return _is_set_variable(code, name, source, scope, depth)
        case _:
            return False


def _is_set_variable(code: Code, name: str, use: ast.Name, scope: Scope, depth: int) -> bool:
    binding = scope.binding(name, before=use)
    if binding is None:
        return False
    match binding.value:
        case ast.Await(value=ast.Call(func=waiting)) if binding.is_part:
            return code.dotted(waiting) == "asyncio.wait"
        case ast.expr() as value if not binding.is_part:
            home = scope.home(name) or scope
            return _has_order_of_set(code, value, home, depth + 1)
        case _:
            return binding.value is None and _says_set(binding.annotation)


def _says_set(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Subscript(value=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id="set" | "frozenset"):
            return True
        case _:
            return False
