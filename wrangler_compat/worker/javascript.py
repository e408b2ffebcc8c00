"""Stand-ins for the names of `js` and `pyodide.ffi` that Python Workers commonly import; those of HTTP are in `javascript_http`.

On Cloudflare these convert between Python and JavaScript. Here everything is Python, so that a conversion
has nothing to do, and code that still converts goes on working.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from emulator.domain.values import JsDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

T = TypeVar("T")


def to_js(value: T, **_options: object) -> T:
    """Give `value` itself; the options of the conversion, such as `dict_converter`, have no meaning here."""
    return value


def create_proxy(value: T, **_options: object) -> T:
    """Give `value` itself."""
    return value


create_once_callable = create_proxy


def destroy_proxies(proxies: object) -> None:
    """Do nothing: there are no proxies."""


class JsProxy:
    """What a JavaScript object is in Python on Cloudflare. Nothing here is one."""


class JsException(Exception):
    """What JavaScript throws. Nothing here throws it; what would is a Python exception."""


waiting_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "waiting_loop", default=None
)
"""The event loop that works while this thread, another than its own, waits."""


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def run_sync(awaitable: Awaitable[T]) -> T:
    """Wait for `awaitable`, in a WSGI application.

    Raises:
        RuntimeError: this is elsewhere: CPython cannot wait within its event loop.
    """
    loop = waiting_loop.get()
    if loop is None or _runs_a_loop():
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise RuntimeError(
            "run_sync works in WSGI applications only, outside of Cloudflare: use `await`."
        )
    return asyncio.run_coroutine_threadsafe(_await(awaitable), loop).result()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class JsObject(JsDict):
    """A dictionary of JavaScript's: with attributes, and a method that makes a Python one."""

    __slots__ = ()

    def to_py(self, **_options: object) -> dict[str, Any]:
        """A plain dictionary."""
        return {key: _to_py(value) for key, value in self.items()}


class JsArray(list[Any]):
    """A list of JavaScript's."""

    def to_py(self, **_options: object) -> list[Any]:
        """A plain list."""
        return [_to_py(value) for value in self]


def _to_py(value: object) -> object:
    return value.to_py() if isinstance(value, JsObject | JsArray) else value


def as_javascript(value: object) -> Any:
    """Dictionaries and lists in a JSON value as JavaScript's would be in Python."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return JsObject({key: as_javascript(item) for key, item in pairs})
    if isinstance(value, list):
        return JsArray(map(as_javascript, cast("list[object]", value)))
    return value


class Object:
    """JavaScript's `Object`."""

    @staticmethod
    def new() -> JsObject:
        """Make an empty one."""
        return JsObject()

    @staticmethod
    def fromEntries(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:  # noqa: N802
        """Make a dictionary of pairs."""
        return dict(entries)

    @staticmethod
    def keys(value: Mapping[str, Any]) -> list[str]:
        """The names in it."""
        return list(value)

    @staticmethod
    def entries(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The pairs in it."""
        return list(value.items())


class JSON:
    """JavaScript's `JSON`."""

    @staticmethod
    def stringify(value: object) -> str:
        """Write JSON without spaces, as JavaScript does."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> Any:
        """Read JSON."""
        return as_javascript(json.loads(text))


class Console:
    """JavaScript's `console`: `log`, `info` and `debug` go to standard output, `warn` and `error` to standard error."""

    def log(self, *values: object) -> None:
        """Print the values, with spaces between."""
        sys.stdout.write(_line(values))

    def error(self, *values: object) -> None:
        """Print the values as an error."""
        sys.stderr.write(_line(values))

    info = debug = log
    warn = trace = error


console = Console()


def _line(values: tuple[object, ...]) -> str:
    return " ".join(map(str, values)) + "\n"


class Absent:
    """A name of JavaScript's that can be imported, and says what to use when it is used."""

    def __init__(self, name: str, instead: str) -> None:
        self._problem = f"js.{name} is not emulated: {instead}."

    def __call__(self, *_: object, **__: object) -> Any:
        raise NotImplementedError(self._problem)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._problem)


_NO_JAVASCRIPT: Final = "there is no JavaScript outside of Cloudflare"

AbortController = Absent("AbortController", "use asyncio's cancellation")
Array = Absent("Array", "use a list")
Date = Absent("Date", "use datetime")
HTMLRewriter = Absent("HTMLRewriter", _NO_JAVASCRIPT)
Math = Absent("Math", "use math and random")
Promise = Absent("Promise", "use asyncio")
TransformStream = Absent("TransformStream", _NO_JAVASCRIPT)
WebSocketPair = Absent("WebSocketPair", "WebSockets are not")
caches = Absent("caches", _NO_JAVASCRIPT)
crypto = Absent("crypto", "use hashlib, hmac, secrets and uuid")
performance = Absent("performance", "use time")
setTimeout = Absent("setTimeout", "use asyncio")  # noqa: N816
