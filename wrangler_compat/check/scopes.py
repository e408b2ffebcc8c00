"""The scopes of a module: which code belongs to which function, and what its names are bound to.

A scope is the module, a function or a lambda. A node belongs to the innermost one around it; decorators and defaults of
a function belong to the scope that defines it, as Python evaluates them there. Comprehensions count as their surroundings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Binding:
    """A name gets a value: all of `value`, or a part of it (a loop's turn, an unpacked tuple)."""

    node: ast.AST
    value: ast.expr | None = None
    is_part: bool = False
    function: Scope | None = None
    annotation: ast.expr | None = None

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 0)


@dataclass(eq=False)
class Scope:
    """The code of one function, without the functions in it."""

    node: ast.Module | FunctionNode
    parent: Scope | None = None
    owner: ast.ClassDef | None = None
    nodes: list[ast.AST] = field(default_factory=list[ast.AST])
    bindings: dict[str, list[Binding]] = field(default_factory=dict[str, list[Binding]])
    children: list[Scope] = field(default_factory=list["Scope"])

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return getattr(self.node, "name", "lambda")

    @property
    def parameters(self) -> list[str]:
        if isinstance(self.node, ast.Module):
            return []
        given = self.node.args
        return [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]

    @property
    def is_coroutine(self) -> bool:
        return isinstance(self.node, ast.AsyncFunctionDef)

    def bind(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)

    def around(self) -> Iterator[Scope]:
        """This scope, and the ones around it, from the inside out."""
        scope: Scope | None = self
        while scope:
            yield scope
            scope = scope.parent

    def home(self, name: str) -> Scope | None:
        """The scope that a name belongs to, seen from here; None if no code of the module binds it."""
        for scope in self.around():
            if name in scope.bindings and not scope.borrows(name):
                return scope
        return None

    def borrows(self, name: str) -> bool:
        """Whether the name is declared `nonlocal` or `global` here."""
        return any(
            isinstance(node, ast.Nonlocal | ast.Global) and name in node.names
            for node in self.nodes
        )

    def binding(self, name: str, before: ast.expr | None = None) -> Binding | None:
        """The last binding of a name, seen from here; with `before`, the last one above that line, if it is of this scope."""
        home = self.home(name)
        if home is None:
            return None
        known = home.bindings[name]
        if home is self and before is not None:
            known = [one for one in known if one.line < before.lineno] or known[:1]
        return known[-1]

    def function(self, expression: ast.expr) -> Scope | None:
        """The function of this module that an expression names: `name`, or `self.name` in its class."""
        match expression:
            case ast.Name(id=name):
                binding = self.binding(name)
                return binding.function if binding else None
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner:
                top = [*self.around()][-1]
                methods = (child for child in top.children if child.owner is self.owner)
                return next((method for method in methods if method.name == name), None)
            case _:
                return None


def read_scopes(tree: ast.Module) -> Scope:
    """Sort the nodes of a module into scopes; the module's own is given."""
    top = Scope(tree)
    _Reader(top, None).read(tree)
    return top


class _Reader:
    """Fills one scope."""

    def __init__(self, scope: Scope, owner: ast.ClassDef | None) -> None:
        self._scope = scope
        self._owner = owner

    def read(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _visit(self, node: ast.AST) -> None:
        self._scope.nodes.append(node)
        self._bind(node)
        if isinstance(node, FunctionNode):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._scope.bind(node.name, Binding(node))
            _Reader(self._scope, node).read(node)
        else:
            self.read(node)

    def _function(self, node: FunctionNode) -> None:
        inner = Scope(node, self._scope, self._owner)
        self._scope.children.append(inner)
        if not isinstance(node, ast.Lambda):
            for outside in (*node.decorator_list, *_defaults(node.args)):
                self._visit(outside)
            if not self._is_method(node):
                self._scope.bind(node.name, Binding(node, function=inner))
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.bind(argument.arg, Binding(argument, annotation=argument.annotation))
        reader = _Reader(inner, self._owner)
        for statement in node.body if isinstance(node.body, list) else [node.body]:
            reader._visit(statement)

    def _is_method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return self._owner is not None and node in self._owner.body

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_target(node, target, value)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                self._scope.bind(name, Binding(node, value, annotation=annotation))
            case ast.AugAssign(target=ast.Name(id=name)):
                self._scope.bind(name, Binding(node, node.value, is_part=True))
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                self._scope.bind(name, Binding(node, value))
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self._bind_target(node, target, source, is_part=True)
            case ast.comprehension(target=target, iter=source):
                self._bind_target(target, target, source, is_part=True)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._bind_target(target, target, value)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self._scope.bind(name, Binding(node))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    self._scope.bind(alias.asname or alias.name.partition(".")[0], Binding(node))
            case _:
                pass

    def _bind_target(
        self, node: ast.AST, target: ast.expr, value: ast.expr, *, is_part: bool = False
    ) -> None:
        match target:
            case ast.Name(id=name):
                self._scope.bind(name, Binding(node, value, is_part))
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for part in targets:
                    self._bind_target(node, part, value, is_part=True)
            case ast.Starred(value=part):
                self._bind_target(node, part, value, is_part=True)
            case _:
                pass


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default)
