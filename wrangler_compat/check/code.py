"""A module as the rules see it: what is workflow code, what runs inside steps, and where the steps are.

Workflow code is what a replay runs again: `run` of a workflow class, each function that calls an operation of `step`, and the
functions of the module that these refer to. A function that is handed to `step.do` is step code, as is what is written
inside it; rollback handlers and delay functions are neither. Calls into other modules are not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from wrangler_compat.check.scopes import Scope, read_scopes

DECLARING: Final = {"do", "with_rollback"}
WAITING: Final = {"sleep", "sleep_until", "sleepUntil", "wait_for_event", "waitForEvent"}
_ENTRYPOINT: Final = "WorkflowEntrypoint"
_RUNS: Final = {"run", "on_run"}
_HANDLERS: Final = {"rollback", "delay"}


class Code:
    """One module of the user's."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.top = read_scopes(tree)
        self.scopes = [*_below(self.top)]
        self._parents = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}
        self._handles = {"step", "_step", *self._names_of_steps()}
        self.imports = _imports(self.scopes)
        self.steps: dict[Scope, ast.Call | None] = {}
        self.handlers: set[Scope] = set()
        for scope in self.scopes:
            self._find_steps(scope)

    # Places

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self._parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        while around := self._parents.get(node):
            yield around
            node = around

    def is_awaited(self, call: ast.expr) -> bool:
        return isinstance(self.parent(call), ast.Await)

    # Names

    def dotted(self, expression: ast.expr) -> str:
        """A chain of names with its imports written out, `datetime.datetime.now`; "" if it is no such chain."""
        match expression:
            case ast.Name(id=name):
                return self.imports.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                inner = self.dotted(value)
                return f"{inner}.{attr}" if inner else ""
            case _:
                return ""

    # Steps

    def step_call(self, node: ast.AST) -> str | None:
        """The operation, if the node is a call such as `step.do(...)`."""
        match node:
            case ast.Call(func=ast.Attribute(value=handle, attr=operation)):
                known = operation in DECLARING or operation in WAITING
                return operation if known and self.is_handle(handle) else None
            case _:
                return None

    def is_handle(self, expression: ast.expr) -> bool:
        """Whether this is `step`, by name."""
        match expression:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name in self._handles
            case _:
                return False

    def runs_step(self, call: ast.AST, scope: Scope) -> str | None:
        """The name of the step that a call runs or of the operation of `step`; None if it is another call."""
        if not isinstance(call, ast.Call):
            return None
        if (operation := self.step_call(call)) in WAITING:
            return f"step.{operation}"
        if isinstance(call.func, ast.Call) and self.step_call(call.func.func) in DECLARING:
            return "the step"
        if (function := scope.function(call.func)) and function in self.steps:
            return function.name
        if isinstance(call.func, ast.Name):
            binding = scope.binding(call.func.id)
            if binding and isinstance(binding.value, ast.Call):
                declares = self.step_call(binding.value.func) in DECLARING
                return call.func.id if declares and not binding.is_part else None
        return None

    def is_in_step(self, scope: Scope) -> bool:
        return any(around in self.steps for around in scope.around())

    @cached_property
    def workflow_code(self) -> list[Scope]:
        """The scopes that a replay runs again, in the order of the source."""
        roots = [scope for scope in self.scopes if self._is_root(scope)]
        return self._reached(roots)

    @cached_property
    def step_code(self) -> list[Scope]:
        """The scopes that run inside steps: callbacks, and what they refer to."""
        return self._reached([*self.steps])

    @cached_property
    def workflow_runs(self) -> list[Scope]:
        """`run` of each workflow class."""
        return [scope for scope in self.scopes if _is_run(scope)]

    def _names_of_steps(self) -> Iterator[str]:
        return (scope.parameters[2] for scope in self.scopes if _is_run(scope))

    def _is_root(self, scope: Scope) -> bool:
        if self._is_apart(scope) or scope is self.top:
            return False
        return _is_run(scope) or any(map(self.step_call, scope.nodes))

    def _is_apart(self, scope: Scope) -> bool:
        """Whether the scope is code of a step or of a handler, or inside such."""
        return any(one in self.steps or one in self.handlers for one in scope.around())

    def _reached(self, roots: list[Scope]) -> list[Scope]:
        found: set[Scope] = set()
        pending = [*roots]
        while pending:
            scope = pending.pop()
            if scope in found:
                continue
            found.add(scope)
            pending += (child for child in self._referred(scope) if not self._declared(child))
        return [scope for scope in self.scopes if scope in found]

    def _declared(self, scope: Scope) -> bool:
        return scope in self.steps or scope in self.handlers

    def _referred(self, scope: Scope) -> Iterator[Scope]:
        yield from (child for child in scope.children if isinstance(child.node, ast.Lambda))
        for node in scope.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and (function := scope.function(node)):
                yield function

    def _find_steps(self, scope: Scope) -> None:
        inner = {child.node: child for child in scope.children}
        for node in scope.nodes:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._read_decorators(inner[node], node.decorator_list)
                case ast.Call(func=ast.Call() as declared, args=[callback, *_]):
                    function = _named(scope, callback)
                    if function and self.step_call(declared) in DECLARING:
                        self.steps[function] = declared
                case _:
                    pass
            handlers = (_named(scope, handler) for handler in _handlers(node))
            self.handlers |= {handler for handler in handlers if handler}

    def _read_decorators(self, function: Scope, decorators: list[ast.expr]) -> None:
        for decorator in decorators:
            if isinstance(decorator, ast.Call) and self.step_call(decorator) in DECLARING:
                self.steps[function] = decorator
            elif isinstance(decorator, ast.Attribute):
                if decorator.attr in DECLARING and self.is_handle(decorator.value):
                    self.steps[function] = None
                elif decorator.attr in {"rollback", "undo"}:
                    self.handlers.add(function)


def _below(scope: Scope) -> Iterator[Scope]:
    yield scope
    for child in scope.children:
        yield from _below(child)


def _named(scope: Scope, expression: ast.expr) -> Scope | None:
    """The function that an expression is: a lambda, or the name of one; also in `partial(...)`."""
    if isinstance(expression, ast.Lambda):
        return next((child for child in scope.children if child.node is expression), None)
    if isinstance(expression, ast.Call) and expression.args:
        return _named(scope, expression.args[0])
    return scope.function(expression)


def _handlers(node: ast.AST) -> list[ast.expr]:
    """What is given as `rollback` or `delay`: to a call, in a dictionary, or into one."""
    match node:
        case ast.keyword(arg=str(arg), value=value) if arg in _HANDLERS:
            return [value]
        case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=key))], value=value):
            return [value] if key in _HANDLERS else []
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return [v for k, v in pairs if isinstance(k, ast.Constant) and k.value in _HANDLERS]
        case _:
            return []


def _is_run(scope: Scope) -> bool:
    owner = scope.owner
    if owner is None or scope.node not in owner.body or scope.name not in _RUNS:
        return False
    if len(scope.parameters) != 3:
        return False
    bases = {
        base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        for base in owner.bases
    }
    return _ENTRYPOINT in bases or scope.parameters[2] == "step"


def _imports(scopes: list[Scope]) -> dict[str, str]:
    """What each imported name stands for, in all scopes alike."""
    names: dict[str, str] = {}
    for node in (node for scope in scopes for node in scope.nodes):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names
