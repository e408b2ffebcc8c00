"""Stand-ins for `Response`, `Request`, `Headers`, `fetch` and `URL` of `js`, as older Python Workers use them.

    from js import Response

    def on_fetch(request):
        return Response.new("hello", status=201)

Objects are made by `new`, with JavaScript's names in a dictionary or as keywords (Pyodide: JsProxy.new).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, cast
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from wrangler_compat.worker import fetching
from wrangler_compat.worker.blob import Blob as PythonBlob
from wrangler_compat.worker.body import ArrayBuffer
from wrangler_compat.worker.form import FormData as PythonFormData
from wrangler_compat.worker.headers import Headers as PythonHeaders
from wrangler_compat.worker.http import HttpMessage
from wrangler_compat.worker.http import Request as PythonRequest
from wrangler_compat.worker.http import Response as PythonResponse
from wrangler_compat.worker.javascript import as_javascript
from wrangler_compat.worker.url import DEFAULT_PORTS, normalised

_PYTHON_NAMES: Final = {"statusText": "status_text", "webSocket": "web_socket"}


def _options(init: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _PYTHON_NAMES.get(name, name): value for name, value in {**(init or {}), **more}.items()
    }


class Headers(PythonHeaders):
    """JavaScript's `Headers`: going through them gives pairs, sorted and combined."""

    @classmethod
    def new(cls, init: Any = None) -> Self:
        """Make them of a dictionary, of pairs or of other headers."""
        return cls(init)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.combined().items())

    entries = __iter__

    def getSetCookie(self) -> list[str]:  # noqa: N802
        """Each cookie that is set."""
        return self.get_all("set-cookie", [])


class _Message(HttpMessage):
    """What JavaScript's requests and responses have beside Python's."""

    _headers_class = Headers

    @property
    def headers(self) -> Headers:
        """The headers themselves, unlike in Python's: what is set in them is sent."""
        return cast("Headers", self._headers)

    @property
    def bodyUsed(self) -> bool:  # noqa: N802
        """Whether the body has been read."""
        return self.body_used

    async def arrayBuffer(self) -> ArrayBuffer:  # noqa: N802
        """Read the body as a buffer."""
        return await self.buffer()


class Request(_Message, PythonRequest):
    """JavaScript's `Request`."""

    @classmethod
    def new(cls, resource: object, init: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Make a request."""
        return cls(resource, **_options(init, more))


class Response(_Message, PythonResponse):
    """JavaScript's `Response`."""

    @classmethod
    def new(cls, body: Any = None, init: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Make a response. What is only for caches is ignored."""
        taken = ("status", "status_text", "headers", "web_socket")
        given = _options(init, more)
        return cls(body, **{name: given[name] for name in taken if name in given})

    @property
    def statusText(self) -> str:  # noqa: N802
        """The text of the status."""
        return self.status_text

    async def read_json(self, **options: Any) -> Any:
        """Read the body as JSON, as JavaScript's objects. Users call it `json`."""
        return as_javascript(await super().read_json(**options))


class Blob(PythonBlob):
    """JavaScript's `Blob`."""

    @classmethod
    def new(cls, parts: Any = (), init: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Make a blob of parts."""
        return cls(parts, {**(init or {}), **more}.get("type"))


class FormData(PythonFormData):
    """JavaScript's `FormData`."""

    @classmethod
    def new(cls) -> Self:
        """Make an empty form."""
        return cls()


async def fetch(resource: object, init: Mapping[str, Any] | None = None, **more: Any) -> Response:
    """Send a request, as `workers.fetch` does."""
    received = await fetching.fetch(resource, **_options(init, more))
    response = Response(received.body, 200, received.status_text, received.headers)
    response.status, response.url, response.redirected = (
        received.status,
        received.url,
        received.redirected,
    )
    return response


class URLSearchParams:
    """JavaScript's `URLSearchParams`: the pairs of a query."""

    def __init__(self, init: Any = "") -> None:
        given: Any = init
        if isinstance(init, str):
            given = parse_qsl(init.removeprefix("?"), keep_blank_values=True)
        pairs: Any = given.items() if hasattr(given, "items") else given
        self._pairs: list[tuple[str, str]] = [(str(name), str(value)) for name, value in pairs]
        self.is_changed = False

    @classmethod
    def new(cls, init: Any = "") -> Self:
        """Make them of a query, a dictionary or pairs."""
        return cls(init)

    def get(self, name: str) -> str | None:
        """Give the first value, or None."""
        return next(iter(self.getAll(name)), None)

    def getAll(self, name: str) -> list[str]:  # noqa: N802
        """Give every value."""
        return [value for key, value in self._pairs if key == name]

    def has(self, name: str) -> bool:
        """Tell whether there is a value."""
        return bool(self.getAll(name))

    def append(self, name: str, value: object) -> None:
        """Add a value."""
        self._pairs.append((name, str(value)))
        self.is_changed = True

    def delete(self, name: str) -> None:
        """Remove every value."""
        self._pairs = [pair for pair in self._pairs if pair[0] != name]
        self.is_changed = True

    def set(self, name: str, value: object) -> None:
        """Put one value in the place of all."""
        self.delete(name)
        self.append(name, value)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    entries = __iter__

    def toString(self) -> str:  # noqa: N802
        """The query."""
        return urlencode(self._pairs)

    __str__ = toString


class URL:
    """JavaScript's `URL`. Its parts are read only, but for `searchParams`.

    Raises:
        TypeError: it is none.
    """

    def __init__(self, url: object, base: object = None) -> None:
        text = str(url) if base is None else urljoin(normalised(base), str(url))
        self._parts = urlsplit(normalised(text))
        self.searchParams = URLSearchParams(self._parts.query)

    @classmethod
    def new(cls, url: object, base: object = None) -> Self:
        """Parse a URL, which may be relative to `base`."""
        return cls(url, base)

    @property
    def href(self) -> str:
        """All of it."""
        return self._parts._replace(query=self.search[1:]).geturl()

    @property
    def search(self) -> str:
        """The query with its question mark; empty if there is none."""
        changed = self.searchParams.is_changed
        query = self.searchParams.toString() if changed else self._parts.query
        return f"?{query}" if query else ""

    @property
    def protocol(self) -> str:
        """The scheme with its colon."""
        return f"{self._parts.scheme}:"

    @property
    def host(self) -> str:
        """The name and the port, if that is another than the usual one."""
        return self._parts.netloc.rpartition("@")[2]

    @property
    def hostname(self) -> str:
        """The name alone."""
        return self.host.removesuffix(f":{self.port}") if self.port else self.host

    @property
    def port(self) -> str:
        """The port; empty for the usual one."""
        return "" if self._parts.port is None else str(self._parts.port)

    @property
    def origin(self) -> str:
        """Scheme and host."""
        return f"{self.protocol}//{self.host}" if self._parts.scheme in DEFAULT_PORTS else "null"

    @property
    def pathname(self) -> str:
        """The path."""
        return self._parts.path

    @property
    def hash(self) -> str:
        """The fragment with its sign; empty if there is none."""
        return f"#{self._parts.fragment}" if self._parts.fragment else ""

    def toString(self) -> str:  # noqa: N802
        """All of it."""
        return self.href

    __str__ = toString
