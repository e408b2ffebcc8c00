"""What `run` catches is not what a step has raised: it is rebuilt from what is stored of it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Final

from emulator.domain.failure import can_be_rebuilt_as
from wrangler_compat.check.code import Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Scope

_SENTENCE: Final = (
    "`except {kind}` catches no failure of a step: TypeError, ValueError, NonRetryableError and the engine's errors come "
    "as themselves, all others as a StepError; catch `Exception`, and look at its `.name`."
)


def failures_are_caught(code: Code) -> Iterator[Breach]:
    """WF020: a handler around steps, and nothing else, is for a class that no failure of a step has."""
    for scope in code.workflow_code:
        for node in scope.nodes:
            match node:
                case ast.Try(body=body, handlers=handlers):
                    if all(_only_runs_a_step(code, scope, statement) for statement in body):
                        for handler in handlers:
                            yield from _in_vain(code, handler.type)
                case _:
                    pass


def _only_runs_a_step(code: Code, scope: Scope, statement: ast.stmt) -> bool:
    """Whether nothing but the step can fail there."""
    match statement:
        case (
            ast.Expr(value=ast.Await(value=call))
            | ast.Return(value=ast.Await(value=call))
            | ast.AnnAssign(target=ast.Name(), value=ast.Await(value=call))
            | ast.Assign(targets=[ast.Name()], value=ast.Await(value=ast.Call() as call))
        ):
            return code.runs_step(call, scope) is not None and _is_plain(call)
        case _:
            return False


def _is_plain(call: ast.expr) -> bool:
    """Whether what a step is called with are names and constants."""
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(each, ast.Constant | ast.Name) for each in given)


def _in_vain(code: Code, kind: ast.expr | None) -> Iterator[Breach]:
    if isinstance(kind, ast.Tuple):
        for one in kind.elts:
            yield from _in_vain(code, one)
    elif kind is not None and _never_comes(code, code.dotted(kind)):
        yield Breach(kind, "WF020", _SENTENCE.format(kind=ast.unparse(kind)))


def _never_comes(code: Code, name: str) -> bool:
    """Whether this is a class of the module itself, or of Python, that no failure is rebuilt as."""
    if any(isinstance(each, ast.ClassDef) and each.name == name for each in code.tree.body):
        return True
    kind: object = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, Exception) and not can_be_rebuilt_as(kind)
