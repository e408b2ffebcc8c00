"""Steps run when they are awaited, and beside one another, not inside one another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.code import DECLARING, Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Scope

_STARTING: Final = {"asyncio.create_task", "asyncio.ensure_future"}
_ON_BINDINGS: Final = {"create", "create_batch", "createBatch", "send_event", "sendEvent"}


def steps_are_awaited(code: Code) -> Iterator[Breach]:
    """WF001: a call of a step, or of an async function that has steps, whose result nobody awaits."""
    for scope in code.workflow_code:
        for call in filter(_is_call, scope.nodes):
            assert isinstance(call, ast.Call)
            name = code.runs_step(call, scope) or _coroutine(code, call, scope)
            if name and _is_dropped(code, call, scope):
                yield Breach(
                    call,
                    "WF001",
                    f"`{name}` is called without `await`, so it does not run, and its errors are lost.",
                )


def bindings_are_awaited(code: Code) -> Iterator[Breach]:
    """WF001: `env.ORDERS.create(...)` as a statement of its own."""
    for scope in code.scopes:
        for node in scope.nodes:
            match node:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=verb)) as call):
                    if verb in _ON_BINDINGS and ".env." in f".{code.dotted(target)}":
                        message = f"`{verb}` is called without `await`, so it may never happen."
                        yield Breach(call, "WF001", message)
                case _:
                    pass


def steps_stand_side_by_side(code: Code) -> Iterator[Breach]:
    """WF002: a step is declared or run inside the callback of another."""
    for scope in filter(code.is_in_step, code.scopes):
        for node in scope.nodes:
            is_declared = code.step_call(node) in DECLARING
            if not isinstance(node, ast.Call) or not (is_declared or code.runs_step(node, scope)):
                continue
            if isinstance(node.func, ast.Call):
                continue  # `step.do(...)(callback)`: the inner call is reported
            yield Breach(
                node,
                "WF002",
                "A step runs inside another step: when the outer one is tried again, the inner one is "
                "a new step, and its waiting counts as the outer one's time.",
            )


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def _coroutine(code: Code, call: ast.Call, scope: Scope) -> str | None:
    """The name of an async function of the workflow that is called."""
    function = scope.function(call.func)
    is_workflow = function is not None and function in code.workflow_code and function.is_coroutine
    return function.name if function and is_workflow else None


def _is_dropped(code: Code, call: ast.Call, scope: Scope) -> bool:
    if _is_taken_for_result(code, call, scope):
        return True
    around = code.parent(call)
    if isinstance(around, ast.Call) and code.dotted(around.func) in _STARTING:
        around = code.parent(around)
    match around:
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            is_coroutine = value is call and len(scope.bindings.get(name, [])) == 1
            wrong = (_is_taken_for_result(code, read, scope) for read in _reads(name, scope))
            return (is_coroutine and any(wrong)) or not _is_read(name, scope)
        case _:
            return False


def _is_taken_for_result(code: Code, used: ast.expr, scope: Scope) -> bool:
    """Whether a coroutine is used as what it would give, which cannot be meant."""
    match code.parent(used):
        case ast.Return():
            return scope.is_coroutine and scope in code.workflow_runs
        case ast.Attribute() | ast.FormattedValue() | ast.BinOp():
            return True
        case ast.Compare(ops=ops):
            return not all(isinstance(each, ast.Is | ast.IsNot) for each in ops)
        case ast.Subscript(value=part) | ast.If(test=part) | ast.IfExp(test=part):
            return part is used
        case _:
            return False


def _reads(name: str, scope: Scope) -> Iterator[ast.Name]:
    for node in scope.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def _is_read(name: str, scope: Scope) -> bool:
    """Whether a variable is read in a scope or in the ones inside it."""
    return any(_reads(name, scope)) or any(_is_read(name, child) for child in scope.children)
