"""Which values differ between two runs of the same code: those of the clock and of chance.

A variable has what was last assigned to it above, in the same function. What is awaited is taken for the result of a step, unless
it is a function of the module that returns such a value. Parameters are not followed.
"""

from __future__ import annotations

import ast
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.scopes import Scope

_CLOCKS: Final = frozenset(
    f"{module}.{name}"
    for module, names in {
        "time": "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time",
        "datetime.datetime": "now utcnow today",
        "datetime.date": "today",
        "js.Date": "now new",
        "js.performance": "now",
    }.items()
    for name in names.split()
)
_CHANCES: Final = frozenset(
    {"uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7", "os.urandom", "js.Math.random"}
    | {"js.crypto.randomUUID", "js.crypto.getRandomValues", "random.SystemRandom"}
)
_OF_CHANCE: Final = ("secrets.", "numpy.random.")
_OF_THE_PROCESS: Final = {"hash", "id"}
_CLOCK_IF_BARE: Final = {"time.localtime": 0, "time.gmtime": 0, "time.ctime": 0, "time.strftime": 1}
_MOST_CALLS_DEEP: Final = 4


class Chance:
    """Looks for such values in the expressions of a module."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def source(self, expression: ast.AST, scope: Scope, depth: int = 0) -> str | None:
        """What makes an expression differ from run to run, such as `time.time()`; None if nothing does."""
        if depth > _MOST_CALLS_DEEP:
            return None
        match expression:
            case ast.Await(value=ast.Call() as call):
                return self._of_function(call, scope, depth)
            case ast.Await() | ast.Lambda():
                return None
            case ast.Call() as call if found := self._of_call(call, scope, depth):
                return found
            case ast.Name(id=name, ctx=ast.Load()):
                return self._of_name(name, expression, scope, depth)
            case _:
                parts = ast.iter_child_nodes(expression)
                found = (self.source(part, scope, depth) for part in parts)
                return next((source for source in found if source), None)

    def captured(self, name: ast.Name, scope: Scope) -> str | None:
        """The same for a variable of a function around, as a step sees it."""
        home = scope.home(name.id)
        if home is None or home is scope or home not in self._code.workflow_code:
            return None
        binding = home.bindings[name.id][-1]
        return self.source(binding.value, home) if binding.value else None

    def _of_call(self, call: ast.Call, scope: Scope, depth: int) -> str | None:
        name = self._code.dotted(call.func)
        if name in _OF_THE_PROCESS:
            is_theirs = scope.home(name) is None and len(call.args) == 1
            return f"{name}()" if is_theirs else None
        is_clock = name in _CLOCKS or len(call.args) == _CLOCK_IF_BARE.get(name)
        if is_clock or name in _CHANCES or name.startswith(_OF_CHANCE) or _is_random(name, call):
            return f"{name}()"
        return self._of_function(call, scope, depth)

    def _of_function(self, call: ast.Call, scope: Scope, depth: int) -> str | None:
        """A call of a function of the module that returns the clock or chance."""
        function = scope.function(call.func)
        if function is None or function in self._code.steps:
            return None
        returned = (node.value for node in function.nodes if isinstance(node, ast.Return))
        sources = (self.source(value, function, depth + 1) for value in returned if value)
        return next((source for source in sources if source), None)

    def _of_name(self, name: str, use: ast.Name, scope: Scope, depth: int) -> str | None:
        home = scope.home(name)
        binding = scope.binding(name, before=use)
        if home is None or home.parent is None or binding is None or binding.value is None:
            return None
        return self.source(binding.value, home, depth + 1)


def _is_random(name: str, call: ast.Call) -> bool:
    """A generator with a seed gives the same numbers again."""
    if name == "random.Random":
        return not call.args
    return name.startswith("random.") and name != "random.seed"
