"""What user code may look at although it should not: the clock, chance, the order of sets, what a module remembers.

In a simulation all four are arguments. So two replays that differ in one of them, and in nothing else, tell which one a
workflow depends on.

The clock: `time.time`, `time.time_ns`, `datetime.now`, `utcnow` and `today`, `date.today`. Chance: the functions of
`random`. Sets: those that the workflow's own module makes. A new process: the workflow's module is run anew, from its
source. Its imports stay, as the services behind them would; so do its other classes and its recorders, which fakes may
share with it.
"""

from __future__ import annotations

import ast
import datetime as dt
import random
import sys
import time
import types
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from bindings.entrypoint import WorkflowEntrypoint
from bindings.testing.recorder import Recorder

_clock: ContextVar[Callable[[], int] | None] = ContextVar("clock", default=None)
_order: ContextVar[int | None] = ContextVar("order", default=None)

_real_time, _real_time_ns = time.time, time.time_ns  # noqa: TID251 - what is stood in for
_RealDatetime, _RealDate = dt.datetime, dt.date


def _now_ms() -> int | None:
    clock = _clock.get()
    return None if clock is None else clock()


def _time() -> float:
    now_ms = _now_ms()
    return _real_time() if now_ms is None else now_ms / 1000


def _time_ns() -> int:
    now_ms = _now_ms()
    return _real_time_ns() if now_ms is None else now_ms * 1_000_000


class _Posing(type):
    """Of a class that poses as another: what that one made is an instance, and calling it makes such ones."""

    posed_as: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.posed_as)

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        return cls.posed_as(*args, **keywords)


class _Datetime(_RealDatetime, metaclass=_Posing):
    posed_as = _RealDatetime

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _RealDatetime.fromtimestamp(_time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return _RealDatetime.fromtimestamp(_time(), dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return _RealDatetime.fromtimestamp(_time())


class _Date(_RealDate, metaclass=_Posing):
    posed_as = _RealDate

    @classmethod
    def today(cls) -> Any:
        return _RealDate.fromtimestamp(_time())


@contextmanager
def simulated_clock() -> Generator[None]:
    """Let code that asks for the time get the simulation's, where `surroundings` says so; everybody else gets the real one."""
    time.time, time.time_ns = _time, _time_ns  # noqa: TID251
    posing: Any = (_Datetime, _Date)
    dt.datetime, dt.date = posing
    try:
        yield
    finally:
        time.time, time.time_ns = _real_time, _real_time_ns  # noqa: TID251
        real: Any = (_RealDatetime, _RealDate)
        dt.datetime, dt.date = real


@contextmanager
def surroundings(
    now_ms: Callable[[], int], chance: int, order: int | None = None
) -> Generator[None]:
    """Set the clock, chance and the order of sets (None: as they come) for the code below, in this context."""
    clock, ordered, state = _clock.set(now_ms), _order.set(order), random.getstate()
    random.seed(chance)
    try:
        yield
    finally:
        random.setstate(state)
        _order.reset(ordered)
        _clock.reset(clock)


class _SetClass(_Posing):
    """The class `set` of a module under simulation: its own instances are sets in a chosen order."""

    def __call__(cls, items: Iterable[Any] = ()) -> Any:
        return type.__call__(cls, items)


class _Set(set[Any], metaclass=_SetClass):
    posed_as = set

    def __iter__(self) -> Iterator[Any]:
        order = _order.get()
        if order is None:
            return super().__iter__()
        items = list(super().__iter__())
        return iter(sorted(items, key=lambda item: zlib.crc32(f"{order} {item!r}".encode())))

    def pop(self) -> Any:
        for item in self:
            self.remove(item)
            return item
        raise KeyError("pop from an empty set")

    def copy(self) -> Any:
        return _Set(set[Any].copy(self))

    def __or__(self, other: Any) -> Any:
        return _made_a_set(super().__or__(other))

    def __and__(self, other: Any) -> Any:
        return _made_a_set(super().__and__(other))

    def __sub__(self, other: Any) -> Any:
        return _made_a_set(super().__sub__(other))

    def __xor__(self, other: Any) -> Any:
        return _made_a_set(super().__xor__(other))


def _made_a_set(result: Any) -> Any:
    return result if result is NotImplemented else _Set(result)


_SET_NAME = "__simulated_set__"


class _Sets(ast.NodeTransformer):
    """Makes the sets that source code writes as `{…}` by a call."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        return _call(node, ast.List(node.elts, ast.Load()))

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return _call(node, ast.ListComp(node.elt, node.generators))


def _call(node: ast.expr, items: ast.expr) -> ast.AST:
    made = ast.Call(ast.Name(_SET_NAME, ast.Load()), [items], [])
    return ast.fix_missing_locations(ast.copy_location(made, node))


def anew(workflow: type[WorkflowEntrypoint]) -> Callable[[], type[WorkflowEntrypoint]]:
    """What makes the class as a new process would: by running its module's source again.

    A class that is made inside a function, or has no source, stays the same; then so does what it remembers.
    """
    file = workflow.run.__code__.co_filename
    module = sys.modules.get(workflow.__module__)
    file = getattr(module, "__file__", None) or file
    if "<locals>" in workflow.__qualname__ or not Path(file).is_file():
        return lambda: workflow
    tree = _Sets().visit(ast.parse(Path(file).read_bytes(), file))
    code = compile(tree, file, "exec", dont_inherit=True)
    shared = {
        name: value
        for name, value in workflow.run.__globals__.items()
        if _is_shared(value, workflow.__module__)
    }

    def make() -> type[WorkflowEntrypoint]:
        fresh = _run(code, file, workflow.__module__)
        fresh.__dict__.update(shared)
        return _find(fresh, workflow.__qualname__)

    return make


def _is_shared(value: object, module: str) -> bool:
    """Whether a global means the same for a fake, which the old module made, as for the new one: an exception's class."""
    if isinstance(value, type):
        return value.__module__ == module and not issubclass(value, WorkflowEntrypoint)
    return isinstance(value, Recorder)


def _run(code: types.CodeType, file: str, name: str) -> types.ModuleType:
    if name == "__main__":
        name = "__mp_main__"  # as multiprocessing does: what only a script does when it is started is not done again
    fresh, registered = types.ModuleType(name), sys.modules.get(name)
    fresh.__file__ = file
    fresh.__package__ = getattr(registered, "__package__", None)
    fresh.__dict__.update({_SET_NAME: _Set, "set": _Set})
    sys.modules[name] = fresh
    try:
        exec(code, fresh.__dict__)  # noqa: S102 - the user's own module
    finally:
        if registered is None:
            del sys.modules[name]
        else:
            sys.modules[name] = registered
    return fresh


def _find(module: types.ModuleType, qualified_name: str) -> type[WorkflowEntrypoint]:
    found: Any = module
    for part in qualified_name.split("."):
        found = getattr(found, part)
    return cast("type[WorkflowEntrypoint]", found)
