"""Pausing, terminating and unloading an instance cancel its `run`, which must let go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.finding import Breach

_CANCELLING: Final = {"BaseException", "asyncio.CancelledError"}
_SENTENCE: Final = (
    "{what} also catches the cancellation by which an instance is paused or terminated, so the workflow "
    "goes on when it has to stop; catch `Exception`, or raise again."
)


def cancellation_goes_through(code: Code) -> Iterator[Breach]:
    """WF018: a handler around something awaited takes cancellation, and does not raise."""
    for scope in code.workflow_code:
        for node in scope.nodes:
            match node:
                case ast.Try(body=body, handlers=handlers) if _awaits(body):
                    for handler in handlers:
                        yield from _swallowing(code, handler)
                        if _raises_again(handler) and _catches(code, handler.type):
                            break
                case ast.With(items=items, body=body) if _awaits(body):
                    for item in items:
                        yield from _suppressing(code, item.context_expr)
                case _:
                    pass


def _awaits(body: list[ast.stmt]) -> bool:
    awaiting = ast.Await | ast.AsyncFor | ast.AsyncWith
    return any(isinstance(node, awaiting) for statement in body for node in ast.walk(statement))


def _swallowing(code: Code, handler: ast.ExceptHandler) -> Iterator[Breach]:
    if not _catches(code, handler.type) or _raises_again(handler):
        return
    what = f"`except {ast.unparse(handler.type)}`" if handler.type else "A bare `except`"
    yield Breach(handler, "WF018", _SENTENCE.format(what=what))


def _suppressing(code: Code, context: ast.expr) -> Iterator[Breach]:
    match context:
        case ast.Call(func=function, args=kinds) if code.dotted(function) == "contextlib.suppress":
            if any(_catches(code, kind) for kind in kinds):
                what = f"`{ast.unparse(context)}`"
                yield Breach(context, "WF018", _SENTENCE.format(what=what))
        case _:
            pass


def _catches(code: Code, kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches(code, one) for one in kind.elts)
    return kind is None or code.dotted(kind) in _CANCELLING


def _raises_again(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) for part in handler.body for node in ast.walk(part))
