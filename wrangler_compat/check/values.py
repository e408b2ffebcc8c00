"""What steps and workflows return is stored, so it has to be data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.effects import binding_of, is_instance
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Scope

_LAZY: Final = {"map", "filter", "zip", "range", "enumerate", "reversed", "iter"}
_KINDS: Final = {
    "tuple": "a tuple; return a list",
    "bytearray": "a bytearray; return bytes",
    "memoryview": "a memoryview; return bytes",
    "open": "an open file; return what is in it",
    "decimal.Decimal": "a Decimal; return its text",
    "datetime.date.today": "a date; return its `isoformat()`",
    "re.compile": "a pattern; return its text",
}
_RESPONSES: Final = frozenset(
    {"workers.fetch", "js.fetch", "pyodide.http.pyfetch"}
    | {
        f"{module}.{verb}"
        for module in ("requests", "httpx")
        for verb in ("get", "post", "put", "request")
    }
)
_NO_DATA: Final[dict[type[ast.expr], str]] = {
    ast.Tuple: "a tuple; return a list",
    ast.GeneratorExp: "a generator; return a list",
    ast.Lambda: "a function; return what it gives",
}
_NO_CHUNKS: Final = (ast.JoinedStr, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Yield)
_MOST_NESTED: Final = 20


def results_can_be_stored(code: Code) -> Iterator[Breach]:
    """WF017: a step or `run` returns what is no data."""
    for scope in [*code.workflow_runs, *code.steps]:
        yields = [node for node in scope.nodes if isinstance(node, ast.Yield | ast.YieldFrom)]
        if scope in code.steps and isinstance(scope.node, ast.AsyncFunctionDef):
            chunks = [node.value or node for node in yields]
            if wrong := next(filter(_is_no_chunk, chunks), None):
                yield _breach(wrong, "a chunk of a stream that is not bytes; yield bytes")
        elif yields:
            yield _breach(yields[0], "a generator; return a list")
        for value in _returned(scope):
            if found := _unstorable(code, value, scope):
                yield _breach(value, found)


def _is_no_chunk(yielded: ast.expr) -> bool:
    """Whether a step yields something that is surely not bytes: what one streams has to be."""
    match yielded:
        case ast.Constant(value=value):
            return not isinstance(value, bytes)
        case _:
            return isinstance(yielded, _NO_CHUNKS)


def _breach(node: ast.expr, what: str) -> Breach:
    return Breach(node, "WF017", f"What is returned here is stored, and cannot be: it is {what}.")


def _returned(scope: Scope) -> Iterator[ast.expr]:
    if isinstance(scope.node, ast.Lambda):
        yield scope.node.body
    for node in scope.nodes:
        if isinstance(node, ast.Return) and node.value:
            yield node.value


def _unstorable(code: Code, value: ast.expr, scope: Scope, depth: int = 0) -> str | None:
    """What is wrong with a value, and what to return instead."""
    if depth > _MOST_NESTED:
        return None
    if scope in code.steps and _is_stream(value):
        return None
    if what := _NO_DATA.get(type(value)):
        return what
    found = (_unstorable(code, part, scope, depth + 1) for part in _parts(value))
    if what := next((what for what in found if what), None):
        return what
    match value:
        case ast.Set(elts=[ast.Tuple(), *_]) | ast.SetComp(elt=ast.Tuple()):
            return "a set of tuples; return a list of lists"
        case ast.Name(id=name):
            return _of_name(code, value, name, scope, depth)
        case ast.Await(value=ast.Call() as call):
            return _of_await(code, call, scope)
        case ast.Call():
            return _of_call(code, value, scope)
        case _:
            return None


def _is_stream(value: ast.expr) -> bool:
    """Whether this is `(chunk async for chunk in ...)`."""
    match value:
        case ast.GeneratorExp(generators=generators):
            return any(each.is_async for each in generators)
        case _:
            return False


def _parts(value: ast.expr) -> list[ast.expr]:
    """The values in a value."""
    match value:
        case ast.List(elts=elements):
            return elements
        case ast.Dict(values=values):
            return values
        case ast.ListComp(elt=element) | ast.DictComp(value=element):
            return [element]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case _:
            return []


def _of_name(code: Code, value: ast.Name, name: str, scope: Scope, depth: int) -> str | None:
    if name == "self":
        return "the workflow itself; return data"
    if code.is_handle(value) and _is_parameter(name, scope):
        return "`step` itself; return data"
    return _of_variable(code, name, scope, depth)


def _is_parameter(name: str, scope: Scope) -> bool:
    home = scope.home(name)
    return home is not None and name in home.parameters


def _of_variable(code: Code, name: str, scope: Scope, depth: int) -> str | None:
    if is_instance(code, ast.Name(name, ast.Load()), scope) and _is_created(name, scope):
        return "the handle of an instance; return its `id`"
    home = scope.home(name)
    known = home.bindings[name] if home else []
    if home is not scope or len(known) != 1 or known[0].is_part or known[0].value is None:
        return None
    if isinstance(known[0].value, ast.Name):
        return None
    return _unstorable(code, known[0].value, scope, depth + 1)


def _is_created(name: str, scope: Scope) -> bool:
    """Whether a variable has what `create` gave: `get` is a verb of other bindings, too."""
    binding = scope.binding(name)
    match binding.value if binding else None:
        case ast.Await(value=ast.Call(func=ast.Attribute(attr="create"))):
            return True
        case _:
            return False


def _of_await(code: Code, call: ast.Call, scope: Scope) -> str | None:
    if code.dotted(call.func) in _RESPONSES:
        return "a response; return its text or its JSON"
    if isinstance(call.func, ast.Attribute) and binding_of(code, call.func.value, scope):
        if call.func.attr == "create":
            return "the handle of an instance; return its `id`"
        if call.func.attr in {"create_batch", "createBatch"}:
            return "a list of handles; return their ids"
    return None


def _of_call(code: Code, call: ast.Call, scope: Scope) -> str | None:
    name = code.dotted(call.func)
    if scope.home(name.partition(".")[0]) is not None and name in {*_LAZY, "tuple", "open"}:
        return None  # a function of theirs that is called so
    if name in _LAZY:
        return f"what `{name}` gives, which is not a list; return `list(...)` of it"
    if name in _RESPONSES and name.startswith(("requests.", "httpx.")):
        return "a response; return its text or its JSON"
    if name in {"workers.fetch", "js.fetch"}:
        return "a call that is not awaited; await it"
    return _KINDS.get(name)
